package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// withinTerminals refuses one more session of a project beyond broker.MostTerminalsOfProject, and beyond
// what a project may open and show within a day. The project's row is locked, so that requests of one project are counted one after another. Without a
// project there is nothing to count. The refusal is audited. Codes: project_not_found, project_ended, terminal_limit.
func (t *tx) withinTerminals(ctx context.Context, actor broker.Actor, projectID string) error {
	if projectID == "" {
		return nil
	}
	p, err := t.liveProject(ctx, projectID, t.ForUpdate())
	if err != nil {
		return err
	}
	refused := func(format string, args ...any) error {
		return refuse(broker.Errorf(broker.Refused, "terminal_limit", "cannot open a terminal: project "+p.Name+" "+format, args...),
			broker.AuditEntry{Actor: actor.Name, Action: "terminal.refused", Subject: "project/" + p.ID})
	}
	var live int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM terminal_sessions WHERE project_id = $1 AND project_id <> '' AND status <> 'closed'`,
		p.ID).Scan(&live); err != nil {
		return err
	}
	if live >= broker.MostTerminalsOfProject {
		return refused("has %d open sessions, the most that a project may have (close one: hostler terminal list --status live)", live)
	}
	var opened, shown int64
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(shown), 0) FROM (
		SELECT (SELECT upto FROM recording_blocks b WHERE b.session_id = s.id ORDER BY seq DESC LIMIT 1) AS shown
		FROM terminal_sessions s WHERE s.project_id = $1 AND s.project_id <> '' AND s.created_at > $2 ORDER BY s.created_at DESC LIMIT $3) AS today`,
		p.ID, sqlkit.Micros(t.clock().Add(-24*time.Hour)), broker.MostTerminalsADay).Scan(&opened, &shown); err != nil {
		return err
	}
	if opened >= broker.MostTerminalsADay || shown >= broker.MostOutputADay {
		return refused("opened %d sessions within a day, which showed %d MiB: it may open %d, and show %d MiB (use ssh, or try again later)", opened,
			shown>>20, broker.MostTerminalsADay, broker.MostOutputADay>>20)
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
