package store

import (
	"context"
	"maps"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// The events of terminal sessions.
const (
	TerminalOpenedEvent   = "terminal.opened"
	TerminalJoinedEvent   = "terminal.joined"
	TerminalAttachedEvent = "terminal.attached"
	TerminalDetachedEvent = "terminal.detached"
	TerminalEndedEvent    = "terminal.ended"
	RecordingBrokenEvent  = "terminal.recording_broken"
)

// tellTerminal announces a change of a session. more must not contain terminal input or output.
func (t *tx) tellTerminal(ctx context.Context, typ string, s broker.TerminalSession, more map[string]any) error {
	data := map[string]any{
		"session_id": s.ID, "node_id": s.NodeID, "site": s.Site, "allocation_id": s.AllocationID, "username": s.Username,
		"opened_by": s.OpenedBy,
	}
	maps.Copy(data, more)
	return t.send(ctx, told{Message: chain.Message{Type: typ, Subject: "terminal/" + s.ID, Data: data}, Site: s.Site, CorrelationID: s.ID})
}

// tellTerminalMove announces a session's new status, and at its end who ended the session: the
// requester of that end, or else by.
func (t *tx) tellTerminalMove(ctx context.Context, s broker.TerminalSession, by string) error {
	switch s.Status {
	case broker.TerminalOpen:
		return t.tellTerminal(ctx, TerminalAttachedEvent, s, nil)
	case broker.TerminalDetached:
		return t.tellTerminal(ctx, TerminalDetachedEvent, s, nil)
	case broker.TerminalClosed:
		var code, asked string
		if err := t.QueryRowContext(ctx, `SELECT end_asked_code, end_asked_by FROM terminal_sessions WHERE id = $1`, s.ID).Scan(&code,
			&asked); err != nil {
			return err
		}
		if code != "" && code == s.EndCode {
			by = asked
		}
		more := map[string]any{"code": s.EndCode, "by": by}
		if s.ExitStatus != nil {
			more["exit_status"] = *s.ExitStatus
		}
		return t.tellTerminal(ctx, TerminalEndedEvent, s, more)
	}
	return nil
}

// NoteRecordingBroken writes into the audit log that a recording cannot be ended because it is no
// longer whole, and announces this.
func (db *DB) NoteRecordingBroken(ctx context.Context, actor broker.Actor, sessionID, reason string) error {
	e := terminalEntry(actor, brokenAction, broker.TerminalSession{ID: sessionID})
	e.Code, e.Reason = "recording_broken", reason
	return db.noteBroken(ctx, e, sessionID)
}

func (db *DB) noteBroken(ctx context.Context, e broker.AuditEntry, sessionID string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := terminal(ctx, t, sessionID, "")
		if err != nil {
			return err
		}
		if err := t.tellTerminal(ctx, RecordingBrokenEvent, s, map[string]any{"code": e.Code, "reason": e.Reason}); err != nil {
			return err
		}
		return t.audit(ctx, e)
	})
}
