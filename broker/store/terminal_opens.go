package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// PrepareTerminal stores how a session is to be opened on its node, and the node's status at that
// time.
func (db *DB) PrepareTerminal(ctx context.Context, id string, p taskcatalog.TerminalOpenParams, in broker.NodeStatus) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET params = $2, opened_in = $3 WHERE id = $1`, id, sqlkit.JSON(p),
			string(in))
		return err
	})
}

// RenewTerminalSignIn makes a session last as long as the ID token that its opener shows now, if that ends
// later than the one before. A session of anybody else stays as it is.
func (db *DB) RenewTerminalSignIn(ctx context.Context, by broker.OperatorToken, id string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE terminal_sessions
			SET signed_in_role = $3, signed_in_organisation = $4, signed_in_project = $5, signed_in_until = $6
			WHERE id = $1 AND opened_by = $2 AND signed_in_until < $6`,
			id, by.Name, string(by.Role), by.Place.OrganisationID, by.Place.ProjectID, sqlkit.Micros(by.ExpiresAt))
		return err
	})
}

// NextTerminalOpen returns how a session is opened on its node, and the number of this opening,
// from 1. Codes: terminal_session_not_found.
func (db *DB) NextTerminalOpen(ctx context.Context, id string) (p taskcatalog.TerminalOpenParams, n int64, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		p = taskcatalog.TerminalOpenParams{}
		var began bool
		err := t.QueryRowContext(ctx, `SELECT s.params, s.opens + 1, `+beganColumn+
			` FROM terminal_sessions s LEFT JOIN tasks t ON t.id = s.open_task WHERE s.id = $1`, id).Scan(sqlkit.ScanJSON(&p), &n, &began)
		if errors.Is(err, sql.ErrNoRows) {
			return broker.TerminalNotFound(id)
		}
		if err != nil {
			return err
		}
		p.Resume = began
		_, err = t.ExecContext(ctx, `UPDATE terminal_sessions SET opens = opens + 1, began = $2 WHERE id = $1`, id, began)
		return err
	})
	return p, n, err
}

// SentTerminalOpen records the task that sends a session's node to its relay.
func (db *DB) SentTerminalOpen(ctx context.Context, id, taskID string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET open_task = $2 WHERE id = $1`, id, taskID)
		return err
	})
}

// UntoldAtOnce is the maximum number of sessions that UntoldTerminals returns.
const UntoldAtOnce = 64

// UntoldTerminals returns sessions that are over and whose nodes do not know so yet, after an id,
// ordered by id, at most UntoldAtOnce.
func (db *DB) UntoldTerminals(ctx context.Context, after string) ([]broker.TerminalSession, error) {
	// The limit is part of the text: as an argument it makes SQLite plan the query anew for each
	// value, 15 times the cost of the rest, four times a second.
	return sqlkit.Collect(ctx, db.reader(), scanTerminal,
		fmt.Sprintf(`SELECT %s FROM terminal_sessions WHERE status = 'closed' AND NOT node_told AND id > $1 ORDER BY id LIMIT %d`,
			terminalColumns, UntoldAtOnce), after)
}

// ToldTerminal records that a session's node knows that the session is over, or that the node
// cannot be told.
func (db *DB) ToldTerminal(ctx context.Context, id string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET node_told = TRUE WHERE id = $1`, id)
		return err
	})
}
