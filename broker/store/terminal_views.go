package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// TerminalFilter selects sessions; an empty field adds no condition.
type TerminalFilter struct {
	NodeID       string
	ProjectID    string // only sessions that members opened for this project
	AllocationID string
	Sites        []string
	OpenedBy     string
	Statuses     []broker.TerminalStatus
	After        string // id of the previous page's last session
	Limit        int
}

// Terminal is a session with further data shown to people.
type Terminal struct {
	broker.TerminalSession
	Hostname string
	Policy   broker.TerminalPolicy // of its node's site, at present
	AskedBy  string                // who has asked for its end
}

const terminalViewColumns = `n.hostname, COALESCE(p.policy, ''), s.end_asked_by`

func scanTerminalView(row sqlkit.Row) (v Terminal, err error) {
	var policy json.RawMessage
	if v.TerminalSession, err = scanTerminal(tail{row, []any{&v.Hostname, sqlkit.ScanRawJSON(&policy), &v.AskedBy}}); err != nil {
		return v, err
	}
	v.Policy, _ = broker.TerminalPolicyOf(policy) // an unreadable policy permits nothing
	return v, nil
}

// Terminal finds a session. Codes: terminal_session_not_found.
func (db *DB) Terminal(ctx context.Context, id string) (Terminal, error) {
	v, err := scanTerminalView(db.reader().QueryRowContext(ctx, `SELECT `+sessionColumns+`, `+terminalViewColumns+` FROM terminal_sessions s
		JOIN nodes n ON n.id = s.node_id LEFT JOIN terminal_policies p ON p.site = n.site WHERE s.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return v, broker.TerminalNotFound(id)
	}
	return v, err
}

// Terminals returns a page, newest first; the id of the last session is the cursor of the next
// page.
func (db *DB) Terminals(ctx context.Context, f TerminalFilter) ([]Terminal, error) {
	var w sqlkit.Where
	w.Equal("s.node_id", f.NodeID)
	w.Equal("s.allocation_id", f.AllocationID)
	sqlkit.In(&w, "s.site", f.Sites)
	w.Equal("s.opened_by", f.OpenedBy)
	sqlkit.In(&w, "s.status", f.Statuses)
	last, args := "id = ?", []any{f.After}
	if f.ProjectID != "" { // a project learns nothing from the id of another session
		w.Add("s.project_id = ? AND s.project_id <> ''", f.ProjectID)
		last, args = last+" AND project_id = ?", append(args, f.ProjectID)
	}
	if f.After != "" {
		w.Add("(s.created_at, s.id) < (SELECT created_at, id FROM terminal_sessions WHERE "+last+")", args...)
	}
	return sqlkit.Collect(ctx, db.reader(), scanTerminalView, `SELECT `+sessionColumns+`, `+terminalViewColumns+` FROM terminal_sessions s
		JOIN nodes n ON n.id = s.node_id LEFT JOIN terminal_policies p ON p.site = n.site`+w.String()+
		` ORDER BY s.created_at DESC, s.id DESC`+w.Limit(f.Limit), w.Args...)
}

// TerminalFigures are counts of the sessions of sites (nil: all).
type TerminalFigures struct {
	Live int64 // sessions that are not closed
	// Broken counts recordings with a missing part, and recordings that could not be ended, whose
	// sessions were closed within the last brokenFor.
	Broken int64
}

// brokenFor is how long a broken recording is counted: nothing repairs a recording.
const brokenFor = 30 * 24 * time.Hour

// TerminalFigures counts sessions. The audit log decides which recordings are broken: an attacker
// may have left no block.
func (db *DB) TerminalFigures(ctx context.Context, sites []string) (f TerminalFigures, err error) {
	w := sqlkit.Where{Args: []any{cutAction, brokenAction, sqlkit.Micros(db.Now().Add(-brokenFor))}}
	sqlkit.In(&w, "s.site", sites)
	err = db.reader().QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE WHEN s.status <> 'closed' THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN s.status = 'closed' AND s.closed_at >= $3 AND EXISTS (SELECT 1 FROM audit_logs a WHERE a.subject = 'terminal/' || s.id AND a.action IN ($1, $2)) THEN 1 ELSE 0 END), 0)
		FROM terminal_sessions s`+w.String(), w.Args...).Scan(&f.Live, &f.Broken)
	return f, err
}
