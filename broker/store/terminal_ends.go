package store

import (
	"context"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// AskTerminalEnd asks the relay that holds a session to end the session; the first request counts.
// Codes: terminal_session_not_found.
func (db *DB) AskTerminalEnd(ctx context.Context, actor broker.Actor, id, code, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := terminal(ctx, t, id, t.ForUpdate())
		if err != nil || s.Status == broker.TerminalClosed {
			return err
		}
		return t.askTerminalEnd(ctx, actor, s, code, reason)
	})
}

func (t *tx) askTerminalEnd(ctx context.Context, actor broker.Actor, s broker.TerminalSession, code, reason string) error {
	n, err := sqlkit.Changed(t.ExecContext(ctx, `UPDATE terminal_sessions SET end_asked_code = $2, end_asked_reason = $3, end_asked_by = $4
		WHERE id = $1 AND end_asked_code = ''`, s.ID, code, reason, actor.Name))
	if err != nil || n == 0 {
		return err
	}
	e := terminalEntry(actor, "terminal.close", s)
	e.Reason, e.After = reason, small("code", code)
	return t.audit(ctx, e)
}

// TerminalGone ends a session (terminal_gone) whose node reports that the session's process was
// killed; how is systemd's description. A node's report has no other effect. Four kinds of session
// end in other ways and are left alone: closing or closed sessions, sessions with a known exit
// status, sessions whose node no relay has seen yet, and sessions of another enrolment of the node.
// A node cannot end another node's session. The attempt is audited as refused, not as an attack:
// the session's process may survive from a time when the machine was another node, or longer than
// the broker's memory of the session. Codes: terminal_session_not_found, terminal_wrong_node.
func (db *DB) TerminalGone(ctx context.Context, nodeID string, epoch int64, id, how string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{Actor: nodeActor(nodeID).Name, Action: "terminal.refused", Subject: "terminal/" + taskcatalog.Clean(id, 60)}
		s, err := terminal(ctx, t, id, t.ForUpdate())
		if refused := (*broker.Error)(nil); errors.As(err, &refused) {
			return refuse(refused, e)
		}
		switch {
		case err != nil:
			return err
		case s.NodeID != nodeID:
			return refuse(broker.Errorf(broker.Forbidden, "terminal_wrong_node",
				"cannot end terminal session %s: the session does not belong to node %s", id, nodeID), e)
		case s.NodeEpoch != epoch, s.Status.Over(), s.Status == broker.TerminalOpening, s.ExitStatus != nil:
			return nil
		}
		return t.askTerminalEnd(ctx, nodeActor(nodeID), s, "terminal_gone",
			"the session's process on the node did not end by itself ("+taskcatalog.Clean(how, 40)+")")
	})
}
