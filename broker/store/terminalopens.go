package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// PrepareTerminal notes how a session is to be opened on its node, and in which status
// that was.
func (db *DB) PrepareTerminal(ctx context.Context, id string, p taskcatalog.TerminalOpenParams, in broker.NodeStatus) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET params = $2, opened_in = $3 WHERE id = $1`, id, text(p), string(in))
		return err
	})
}

// NextTerminalOpen is how a session is opened on its node, and the number of this opening,
// from one on. Codes: terminal_session_not_found.
func (db *DB) NextTerminalOpen(ctx context.Context, id string) (p taskcatalog.TerminalOpenParams, n int64, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		p = taskcatalog.TerminalOpenParams{}
		var began bool
		err := t.QueryRowContext(ctx, `SELECT s.params, s.opens + 1, `+beganColumn+` FROM terminal_sessions s LEFT JOIN tasks t ON t.id = s.open_task WHERE s.id = $1`, id).Scan(doc(&p), &n, &began)
		if errors.Is(err, sql.ErrNoRows) {
			return terminalNotFound(id)
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

// SentTerminalOpen notes the task that sends a session's node to its relay.
func (db *DB) SentTerminalOpen(ctx context.Context, id, taskID string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET open_task = $2 WHERE id = $1`, id, taskID)
		return err
	})
}

// UntoldAtOnce is how many sessions UntoldTerminals gives at most.
const UntoldAtOnce = 64

// UntoldTerminals are sessions that are over and whose nodes are not told of it yet, after an
// id and in the order of ids: some of them, where there are many.
func (db *DB) UntoldTerminals(ctx context.Context, after string) ([]broker.TerminalSession, error) {
	// SQLite makes a plan for each limit that it is given, which takes 15 times as long as the
	// rest, four times a second.
	return collect(ctx, db.reader(), scanTerminal, fmt.Sprintf(`SELECT %s FROM terminal_sessions WHERE status = 'closed' AND NOT node_told AND id > $1 ORDER BY id LIMIT %d`, terminalColumns, UntoldAtOnce), after)
}

// ToldTerminal notes that a session's node is told that it is over, or cannot be.
func (db *DB) ToldTerminal(ctx context.Context, id string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET node_told = TRUE WHERE id = $1`, id)
		return err
	})
}
