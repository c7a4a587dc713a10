package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
)

// withinTerminals refuses one more session of a project beyond broker.MostTerminalsOfProject. The
// project's row is locked, so that requests of one project are counted one after another. Without a
// project there is nothing to count. The refusal is audited. Codes: project_not_found, project_ended, terminal_limit.
func (t *tx) withinTerminals(ctx context.Context, actor broker.Actor, projectID string) error {
	if projectID == "" {
		return nil
	}
	p, err := t.liveProject(ctx, projectID, t.ForUpdate())
	if err != nil {
		return err
	}
	var live int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM terminal_sessions WHERE project_id = $1 AND project_id <> '' AND status <> 'closed'`,
		p.ID).Scan(&live); err != nil {
		return err
	}
	if live >= broker.MostTerminalsOfProject {
		return refuse(broker.Errorf(broker.Refused, "terminal_limit",
			"cannot open a terminal: project %s has %d open sessions, the most that a project may have (close one: hostler terminal list --status live)",
			p.Name, live), broker.AuditEntry{Actor: actor.Name, Action: "terminal.refused", Subject: "project/" + p.ID})
	}
	return nil
}

// ProjectTerminal finds a session that a member opened for a project. One statement looks, so that
// another session and one that never was get the same answer after the same time. Code:
// terminal_session_not_found.
func (db *DB) ProjectTerminal(ctx context.Context, projectID, id string) (Terminal, error) {
	v, err := scanTerminalView(db.reader().QueryRowContext(ctx, `SELECT `+sessionColumns+`, `+terminalViewColumns+` FROM terminal_sessions s
		JOIN nodes n ON n.id = s.node_id LEFT JOIN terminal_policies p ON p.site = n.site
		WHERE s.id = $1 AND s.project_id = $2 AND s.project_id <> ''`, id, projectID))
	if errors.Is(err, sql.ErrNoRows) {
		return v, broker.TerminalNotFound(id)
	}
	return v, err
}
