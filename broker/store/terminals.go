package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const terminalColumns = `id, node_id, node_epoch, site, allocation_id, username, opened_by, reason, max_seconds, idle_seconds, detach_seconds,
	record_input, replica, status, end_code, exit_status, created_at, status_at, closed_at, project_id`

func scanTerminal(row sqlkit.Row) (s broker.TerminalSession, err error) {
	var longest, idle, detach, exit int64
	err = row.Scan(&s.ID, &s.NodeID, &s.NodeEpoch, &s.Site, &s.AllocationID, &s.Username, &s.OpenedBy, &s.Reason, &longest, &idle, &detach,
		&s.RecordInput, &s.Replica, &s.Status, &s.EndCode, &exit, sqlkit.ScanMicros(&s.CreatedAt), sqlkit.ScanMicros(&s.StatusAt),
		sqlkit.ScanMicros(&s.ClosedAt), &s.ProjectID)
	s.Limits = broker.TerminalLimits{
		Max: time.Duration(longest) * time.Second, Idle: time.Duration(idle) * time.Second,
		Detach: time.Duration(detach) * time.Second,
	}
	if exit >= 0 {
		status := int(exit)
		s.ExitStatus = &status
	}
	return s, err
}

// TerminalSession finds a session. Code: terminal_session_not_found.
func (db *DB) TerminalSession(ctx context.Context, id string) (broker.TerminalSession, error) {
	return terminal(ctx, db.reader(), id, "")
}

func terminal(ctx context.Context, r sqlkit.Runner, id, lock string) (broker.TerminalSession, error) {
	s, err := scanTerminal(r.QueryRowContext(ctx, `SELECT `+terminalColumns+` FROM terminal_sessions WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return s, broker.TerminalNotFound(id)
	}
	return s, err
}

// CreateTerminalSession creates a session, opening, for the present enrolment of a node. Codes:
// node_not_found, node_deleted, stale_epoch; for a project also project_not_found, project_ended,
// terminal_limit.
func (db *DB) CreateTerminalSession(
	ctx context.Context, actor broker.Actor, s broker.TerminalSession,
) (made broker.TerminalSession, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.withinTerminals(ctx, actor, s.ProjectID); err != nil { // before the node, in the order of allocations
			return err
		}
		n, err := node(ctx, t, s.NodeID, t.ForUpdate())
		switch {
		case err != nil:
			return err
		case n.Status == broker.Deleted:
			return nodeDeleted(n)
		case n.Epoch != s.NodeEpoch:
			return broker.Errorf(broker.Refused, "stale_epoch",
				"cannot open a terminal on node %s: the node has enrolled again, its epoch is %d and not %d (check the node, then open the terminal again)", n.ID, n.Epoch, s.NodeEpoch)
		}
		made, err = scanTerminal(t.QueryRowContext(ctx,
			`INSERT INTO terminal_sessions (id, node_id, node_epoch, site, allocation_id, username, opened_by, reason,
			max_seconds, idle_seconds, detach_seconds, record_input, replica, status, created_at, status_at, project_id,
			signed_in_role, signed_in_organisation, signed_in_project, signed_in_until)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $16, $17, $18, $19, $20) RETURNING `+terminalColumns,
			s.ID, n.ID, n.Epoch, n.Site, s.AllocationID, s.Username, actor.Name, s.Reason, int64(s.Limits.Max/time.Second),
			int64(s.Limits.Idle/time.Second),
			int64(s.Limits.Detach/time.Second), s.RecordInput, s.Replica, string(broker.TerminalOpening), sqlkit.Micros(t.now),
			s.ProjectID, string(s.SignIn.Role), s.SignIn.Place.OrganisationID, s.SignIn.Place.ProjectID, sqlkit.Micros(s.SignIn.Until)))
		if err != nil {
			return err
		}
		e := terminalEntry(actor, "terminal.create", made)
		e.Reason = s.Reason
		after := []any{
			"node", n.ID, "epoch", n.Epoch, "allocation", s.AllocationID, "username", s.Username, "max", s.Limits.Max.String(),
			"record_input", s.RecordInput,
		}
		if s.ProjectID != "" {
			after = append(after, "project", s.ProjectID)
		}
		e.After = small(after...)
		if err := t.tellTerminal(ctx, TerminalOpenedEvent, made,
			map[string]any{"reason": s.Reason, "record_input": s.RecordInput}); err != nil {
			return err
		}
		return t.audit(ctx, e)
	})
	return made, err
}

func terminalEntry(actor broker.Actor, action string, s broker.TerminalSession) broker.AuditEntry {
	return broker.AuditEntry{Actor: actor.Name, Action: action, Subject: "terminal/" + s.ID}
}

// TerminalMove is a change of a session's status.
type TerminalMove struct {
	To         broker.TerminalStatus
	Code       string // why the session ends
	Reason     string
	ExitStatus *int   // of its program, if ended
	Replica    string // of the relay, which must still hold the session; empty: any
	By         string // who ends the session, if the relay knows; empty: nobody
}

// MoveTerminalSession changes a session's status. The present status is no change, except for an
// exit status that was not known. Codes: terminal_session_not_found, terminal_session_elsewhere,
// terminal_transition_refused.
func (db *DB) MoveTerminalSession(
	ctx context.Context, actor broker.Actor, id string, m TerminalMove,
) (moved broker.TerminalSession, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		had, err := terminal(ctx, t, id, t.ForUpdate())
		if err != nil {
			return err
		}
		if m.Replica != "" && had.Replica != m.Replica {
			return terminalElsewhere(had)
		}
		if moved = had; had.Status == m.To && (m.ExitStatus == nil || had.ExitStatus != nil) {
			return nil
		}
		e := terminalEntry(actor, statusAction(m.To), had)
		if had.Status != m.To && !had.Status.MayBecome(m.To) {
			return refuse(broker.Errorf(broker.Refused, "terminal_transition_refused", "cannot make terminal session %s %s: it is %s", id,
				m.To, had.Status), e)
		}
		// A session that is over lets nobody in, and the first reason counts.
		exit := int64(-1)
		if m.ExitStatus != nil {
			exit = int64(*m.ExitStatus)
		}
		moved, err = scanTerminal(t.QueryRowContext(ctx, `UPDATE terminal_sessions SET status = $2, status_at = $3,
			end_code = CASE WHEN end_code = '' THEN $4 ELSE end_code END,
			exit_status = CASE WHEN exit_status < 0 THEN $5 ELSE exit_status END,
			closed_at = CASE WHEN $6 THEN $3 ELSE closed_at END,
			token_hash = CASE WHEN $7 THEN '' ELSE token_hash END,
			next_token_hash = CASE WHEN $7 THEN '' ELSE next_token_hash END
			WHERE id = $1 RETURNING `+terminalColumns,
			id, string(m.To), sqlkit.Micros(t.now), m.Code, exit, m.To == broker.TerminalClosed, m.To.Over()))
		if err != nil {
			return err
		}
		e.Reason, e.Before = m.Reason, small("status", had.Status)
		last, err := head(ctx, t, id)
		if err != nil {
			return err
		}
		e.After = small("status", moved.Status, "code", moved.EndCode, "exit_status", moved.ExitStatus, "recording", recording.HeadOf(last))
		if had.Status != moved.Status {
			if err := t.tellTerminalMove(ctx, moved, cmp.Or(m.By, actor.Name)); err != nil {
				return err
			}
		}
		return t.audit(ctx, e)
	})
	return moved, err
}

// SetTerminalReplica records which relay holds a session from now on, if only to close the session.
// Codes: terminal_session_not_found, terminal_session_over.
func (db *DB) SetTerminalReplica(ctx context.Context, actor broker.Actor, id, replica string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		had, err := terminal(ctx, t, id, t.ForUpdate())
		if err != nil || had.Replica == replica {
			return err
		}
		if had.Status == broker.TerminalClosed {
			return terminalOver(had)
		}
		if _, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET replica = $2 WHERE id = $1`, id, replica); err != nil {
			return err
		}
		e := terminalEntry(actor, moveAction, had)
		last, err := head(ctx, t, id)
		if err != nil {
			return err
		}
		e.Before, e.After = small("replica", had.Replica), small("replica", replica, "recording", recording.HeadOf(last))
		return t.audit(ctx, e)
	})
}

func terminalOver(s broker.TerminalSession) *broker.Error {
	return broker.Errorf(broker.Refused, "terminal_session_over", "terminal session %s is %s (open another)", s.ID, s.Status)
}

// terminalElsewhere tells a relay that another relay has taken its session.
func terminalElsewhere(s broker.TerminalSession) *broker.Error {
	return broker.Errorf(broker.Unavailable, "terminal_session_elsewhere", "terminal session %s has moved to relay %q (connect again)",
		s.ID, s.Replica)
}
