package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
)

// TerminalFilter selects sessions; what is empty selects nothing away.
type TerminalFilter struct {
	NodeID   string
	Sites    []string
	OpenedBy string
	Statuses []broker.TerminalStatus
	After    string // id of the last one of the page before
	Limit    int
}

// Terminal is a session with what people see of it beside.
type Terminal struct {
	broker.TerminalSession
	Hostname string
	Policy   broker.TerminalPolicy // of its node's site, as it is now
	AskedBy  string                // who has asked for its end
}

const terminalViewColumns = `n.hostname, COALESCE(p.policy, ''), s.end_asked_by`

func scanTerminalView(row interface{ Scan(...any) error }) (v Terminal, err error) {
	var policy json.RawMessage
	if v.TerminalSession, err = scanTerminal(tail{row, []any{&v.Hostname, rawDoc(&policy), &v.AskedBy}}); err != nil {
		return v, err
	}
	v.Policy, _ = broker.TerminalPolicyOf(policy) // one that cannot be read lets nothing through
	return v, nil
}

// Terminal finds a session. Codes: terminal_session_not_found.
func (db *DB) Terminal(ctx context.Context, id string) (Terminal, error) {
	v, err := scanTerminalView(db.reader().QueryRowContext(ctx, `SELECT `+sessionColumns+`, `+terminalViewColumns+` FROM terminal_sessions s
		JOIN nodes n ON n.id = s.node_id LEFT JOIN terminal_policies p ON p.site = n.site WHERE s.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return v, terminalNotFound(id)
	}
	return v, err
}

// Terminals is a page, newest first; the id of its last one is the cursor of the next.
func (db *DB) Terminals(ctx context.Context, f TerminalFilter) ([]Terminal, error) {
	var w where
	w.equal("s.node_id", f.NodeID)
	in(&w, "s.site", f.Sites)
	w.equal("s.opened_by", f.OpenedBy)
	in(&w, "s.status", f.Statuses)
	if f.After != "" {
		w.add("(s.created_at, s.id) < (SELECT created_at, id FROM terminal_sessions WHERE id = ?)", f.After)
	}
	return collect(ctx, db.reader(), scanTerminalView, `SELECT `+sessionColumns+`, `+terminalViewColumns+` FROM terminal_sessions s
		JOIN nodes n ON n.id = s.node_id LEFT JOIN terminal_policies p ON p.site = n.site`+w.String()+` ORDER BY s.created_at DESC, s.id DESC`+w.limit(f.Limit), w.args...)
}

// TerminalFigures are about the sessions of sites; nil: of all.
type TerminalFigures struct {
	Live int64 // that are not over
	// Broken are the recordings of which a part was found gone, or that could not be ended, and
	// whose sessions were over in the last brokenFor.
	Broken int64
}

// brokenFor is how long a recording is counted that is broken: nothing mends it.
const brokenFor = 30 * 24 * time.Hour

// TerminalFigures counts sessions. Which recordings are broken, the audit log says: whoever
// broke one may have left no block of it.
func (db *DB) TerminalFigures(ctx context.Context, sites []string) (f TerminalFigures, err error) {
	w := where{args: []any{cutAction, brokenAction, micros(db.Now().Add(-brokenFor))}}
	in(&w, "s.site", sites)
	err = db.reader().QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE WHEN s.status <> 'closed' THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN s.status = 'closed' AND s.closed_at >= $3 AND EXISTS (SELECT 1 FROM audit_logs a WHERE a.subject = 'terminal/' || s.id AND a.action IN ($1, $2)) THEN 1 ELSE 0 END), 0)
		FROM terminal_sessions s`+w.String(), w.args...).Scan(&f.Live, &f.Broken)
	return f, err
}
