package store

import (
	"context"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// AskTerminalEnd has the relay that holds a session end it; the first who asks counts.
// Codes: terminal_session_not_found.
func (db *DB) AskTerminalEnd(ctx context.Context, actor broker.Actor, id, code, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := terminal(ctx, t, id, t.forUpdate())
		if err != nil || s.Status == broker.TerminalClosed {
			return err
		}
		return t.askTerminalEnd(ctx, actor, s, code, reason)
	})
}

func (t *tx) askTerminalEnd(ctx context.Context, actor broker.Actor, s broker.TerminalSession, code, reason string) error {
	n, err := changed(t.ExecContext(ctx, `UPDATE terminal_sessions SET end_asked_code = $2, end_asked_reason = $3, end_asked_by = $4
		WHERE id = $1 AND end_asked_code = ''`, s.ID, code, reason, actor.Name))
	if err != nil || n == 0 {
		return err
	}
	e := terminalEntry(actor, "terminal.close", s)
	e.Reason, e.After = reason, small("code", code)
	return t.audit(ctx, e)
}

// TerminalGone has a session end (terminal_gone) of which its node says that it has no process
// any more, which was killed: how, as systemd says it. That is all that a node's word does.
// Nothing ends that is over, of which it is known how its program ended, that no relay has
// seen the node in, or that is of another enrolment of the node, which all have an end of their
// own. A session of another node is not this one's to end. That is audited as refused, and as no
// attack: a session's process may have outlived that this machine was another node, or the
// broker's memory of it.
// Codes: terminal_session_not_found, terminal_wrong_node.
func (db *DB) TerminalGone(ctx context.Context, nodeID string, epoch int64, id, how string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{Actor: nodeActor(nodeID).Name, Action: "terminal.refused", Subject: "terminal/" + taskcatalog.Clean(id, 60)}
		s, err := terminal(ctx, t, id, t.forUpdate())
		if refused := (*broker.Error)(nil); errors.As(err, &refused) {
			return refuse(refused, e)
		}
		switch {
		case err != nil:
			return err
		case s.NodeID != nodeID:
			return refuse(broker.Errorf(broker.Forbidden, "terminal_wrong_node", "cannot end terminal session %s: it is not one of node %s", id, nodeID), e)
		case s.NodeEpoch != epoch, s.Status.Over(), s.Status == broker.TerminalOpening, s.ExitStatus != nil:
			return nil
		}
		return t.askTerminalEnd(ctx, nodeActor(nodeID), s, "terminal_gone", "its process on the node did not end by itself ("+taskcatalog.Clean(how, 40)+")")
	})
}
