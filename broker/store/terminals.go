package store

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/taskcatalog"
)

const terminalColumns = `id, node_id, node_epoch, site, allocation_id, username, opened_by, reason, max_seconds, idle_seconds, detach_seconds,
	record_input, replica, status, end_code, exit_status, created_at, status_at, closed_at`

func scanTerminal(row interface{ Scan(...any) error }) (s broker.TerminalSession, err error) {
	var longest, idle, detach, exit int64
	err = row.Scan(&s.ID, &s.NodeID, &s.NodeEpoch, &s.Site, &s.AllocationID, &s.Username, &s.OpenedBy, &s.Reason, &longest, &idle, &detach,
		&s.RecordInput, &s.Replica, &s.Status, &s.EndCode, &exit, at(&s.CreatedAt), at(&s.StatusAt), at(&s.ClosedAt))
	s.Limits = broker.TerminalLimits{Max: time.Duration(longest) * time.Second, Idle: time.Duration(idle) * time.Second, Detach: time.Duration(detach) * time.Second}
	if exit >= 0 {
		status := int(exit)
		s.ExitStatus = &status
	}
	return s, err
}

// TerminalSession finds one. Code: terminal_session_not_found.
func (db *DB) TerminalSession(ctx context.Context, id string) (broker.TerminalSession, error) {
	return terminal(ctx, db.reader(), id, "")
}

func terminal(ctx context.Context, r runner, id, lock string) (broker.TerminalSession, error) {
	s, err := scanTerminal(r.QueryRowContext(ctx, `SELECT `+terminalColumns+` FROM terminal_sessions WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return s, terminalNotFound(id)
	}
	return s, err
}

func terminalNotFound(id string) *broker.Error {
	return broker.Errorf(broker.NotFound, "terminal_session_not_found", "there is no terminal session %q (see hostler terminal list)", taskcatalog.Clean(id, 60))
}

// CreateTerminalSession makes a session, opening, of a node as it is enrolled now. Codes:
// node_not_found, node_deleted, stale_epoch.
func (db *DB) CreateTerminalSession(ctx context.Context, actor broker.Actor, s broker.TerminalSession) (made broker.TerminalSession, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, s.NodeID, t.forUpdate())
		switch {
		case err != nil:
			return err
		case n.Status == broker.Deleted:
			return nodeDeleted(n)
		case n.Epoch != s.NodeEpoch:
			return broker.Errorf(broker.Refused, "stale_epoch", "cannot open a terminal on node %s: it has enrolled anew, its epoch is %d and not %d (look at it again)", n.ID, n.Epoch, s.NodeEpoch)
		}
		made, err = scanTerminal(t.QueryRowContext(ctx, `INSERT INTO terminal_sessions (id, node_id, node_epoch, site, allocation_id, username, opened_by, reason,
			max_seconds, idle_seconds, detach_seconds, record_input, replica, status, created_at, status_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15) RETURNING `+terminalColumns,
			s.ID, n.ID, n.Epoch, n.Site, s.AllocationID, s.Username, actor.Name, s.Reason, int64(s.Limits.Max/time.Second), int64(s.Limits.Idle/time.Second),
			int64(s.Limits.Detach/time.Second), s.RecordInput, s.Replica, string(broker.TerminalOpening), micros(t.now)))
		if err != nil {
			return err
		}
		e := terminalEntry(actor, "terminal.create", made)
		e.Reason = s.Reason
		e.After = small("node", n.ID, "epoch", n.Epoch, "allocation", s.AllocationID, "username", s.Username, "max", s.Limits.Max.String(), "record_input", s.RecordInput)
		return t.audit(ctx, e)
	})
	return made, err
}

func terminalEntry(actor broker.Actor, action string, s broker.TerminalSession) broker.AuditEntry {
	return broker.AuditEntry{Actor: actor.Name, Action: action, Subject: "terminal/" + s.ID}
}

// TerminalMove is what a session comes to.
type TerminalMove struct {
	To         broker.TerminalStatus
	Code       string // why it ends
	Reason     string
	ExitStatus *int   // of its program, where that has ended
	Replica    string // of the relay that moves it, which must have it still; empty: whoever
}

// MoveTerminalSession moves a session on; to where it is already is no change, but for an
// exit status that was not known. Codes: terminal_session_not_found,
// terminal_session_elsewhere, terminal_transition_refused.
func (db *DB) MoveTerminalSession(ctx context.Context, actor broker.Actor, id string, m TerminalMove) (moved broker.TerminalSession, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		had, err := terminal(ctx, t, id, t.forUpdate())
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
			return refuse(broker.Errorf(broker.Refused, "terminal_transition_refused", "cannot make terminal session %s %s: it is %s", id, m.To, had.Status), e)
		}
		// Whoever is over lets nobody in, and the first reason is the one that counts.
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
			id, string(m.To), micros(t.now), m.Code, exit, m.To == broker.TerminalClosed, m.To.Over()))
		if err != nil {
			return err
		}
		e.Reason, e.Before = m.Reason, small("status", had.Status)
		last, err := head(ctx, t, id)
		if err != nil {
			return err
		}
		e.After = small("status", moved.Status, "code", moved.EndCode, "exit_status", moved.ExitStatus, "recording", recording.HeadOf(last))
		return t.audit(ctx, e)
	})
	return moved, err
}

// SetTerminalReplica notes which relay has a session from now on, if only to close it. Codes:
// terminal_session_not_found, terminal_session_over.
func (db *DB) SetTerminalReplica(ctx context.Context, actor broker.Actor, id, replica string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		had, err := terminal(ctx, t, id, t.forUpdate())
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

// terminalElsewhere is for a relay whose session another has taken: it lets go of it.
func terminalElsewhere(s broker.TerminalSession) *broker.Error {
	return broker.Errorf(broker.Unavailable, "terminal_session_elsewhere", "terminal session %s is at the relay %q now (come again)", s.ID, s.Replica)
}

// TerminalToken is what is kept of a token that was minted for a task: its hash, until when
// it is good, and the digest of the key whose holder alone may show it.
type TerminalToken struct {
	Hash      string
	Expires   time.Time
	KeyDigest string
}

// SetTerminalToken keeps a token that was minted, in place of one that was before. That of
// the last Welcome stays good until this one is used. Codes: terminal_session_not_found,
// terminal_session_over.
func (db *DB) SetTerminalToken(ctx context.Context, id string, k TerminalToken) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		had, err := terminal(ctx, t, id, t.forUpdate())
		if err != nil {
			return err
		}
		if had.Status.Over() {
			return terminalOver(had)
		}
		_, err = t.ExecContext(ctx, `UPDATE terminal_sessions SET token_hash = $2, token_expires_at = $3, token_key_digest = $4 WHERE id = $1`,
			id, k.Hash, micros(k.Expires), k.KeyDigest)
		return err
	})
}

// TerminalCaller is the node that shows a token, as its certificate says, and the relay that
// it shows it to.
type TerminalCaller struct {
	NodeID    string
	Epoch     int64
	KeyDigest string
	Replica   string
}

// terminalTokens are those of a session, by their hashes.
type terminalTokens struct {
	minted  string
	expires time.Time
	key     string // to show the minted one
	next    string // that the last Welcome carried
	used    string // that the last Welcome answered
	spent   string // used before that
	holder  string // the key that got the last Welcome
}

// UseTerminalToken lets a node in with a token of which the hash is kept: one that was
// minted, or that of its last Welcome, which is replaced by next. Was that Welcome lost, the
// token that it answered is good again, for the same key, until its successor is used.
// What is refused is audited as an attack, since a node of ours has no reason for it. Codes:
// terminal_session_not_found, terminal_session_over, terminal_session_elsewhere,
// terminal_wrong_node, terminal_wrong_epoch, terminal_wrong_key, terminal_token_used,
// terminal_token_unknown, terminal_token_expired.
func (db *DB) UseTerminalToken(ctx context.Context, id string, by TerminalCaller, hash, next string) (s broker.TerminalSession, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{Actor: nodeActor(by.NodeID).Name, Action: "terminal.attack", Subject: "terminal/" + taskcatalog.Clean(id, 60)}
		s, err = terminal(ctx, t, id, t.forUpdate())
		if refused := (*broker.Error)(nil); errors.As(err, &refused) {
			return refuse(refused, e)
		} else if err != nil {
			return err
		}
		var k terminalTokens
		if err := t.QueryRowContext(ctx, `SELECT token_hash, token_expires_at, token_key_digest, next_token_hash, used_token_hash, spent_token_hash, token_holder
			FROM terminal_sessions WHERE id = $1`, id).Scan(&k.minted, at(&k.expires), &k.key, &k.next, &k.used, &k.spent, &k.holder); err != nil {
			return err
		}
		no := func(code, format string, args ...any) error {
			return refuse(broker.Errorf(broker.Forbidden, code, "cannot join terminal session %s: %s", id, fmt.Sprintf(format, args...)), e)
		}
		minted, following, again := sameHash(k.minted, hash), sameHash(k.next, hash), sameHash(k.used, hash)
		may := sameHash(k.holder, by.KeyDigest)
		if following && !may { // its key was replaced since
			if may, err = t.replacedKey(ctx, by, k.holder); err != nil {
				return err
			}
		}
		switch {
		case by.NodeID != s.NodeID:
			return no("terminal_wrong_node", "it is not one of node %s", by.NodeID)
		case by.Epoch != s.NodeEpoch:
			return no("terminal_wrong_epoch", "it is of epoch %d of the node, and the certificate is of %d", s.NodeEpoch, by.Epoch)
		case s.Status.Over():
			return terminalOver(s) // a node that was not told is no attacker
		case by.Replica != s.Replica:
			return terminalElsewhere(s) // nor is one that knows of no other
		case sameHash(k.spent, hash), again && !may:
			return no("terminal_token_used", "its token was used before")
		case !minted && !following && !again:
			return no("terminal_token_unknown", "its token is another")
		case minted && !sameHash(k.key, by.KeyDigest), following && !may:
			return no("terminal_wrong_key", "its token is for another key of the node")
		case minted && !t.now.Before(k.expires):
			return no("terminal_token_expired", "its token was good until %s", k.expires.Format(time.RFC3339))
		}
		if !again {
			k.spent, k.used = k.used, hash
		}
		if minted {
			k.minted = ""
		}
		_, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET token_hash = $2, next_token_hash = $3, used_token_hash = $4, spent_token_hash = $5, token_holder = $6 WHERE id = $1`,
			id, k.minted, next, k.used, k.spent, by.KeyDigest)
		return err
	})
	return s, err
}

// replacedKey reports whether the node's key was certified in this epoch after the one that
// a token was given to, as a rotation or a renewal with a new key does.
func (t *tx) replacedKey(ctx context.Context, by TerminalCaller, holder string) (is bool, err error) {
	return is, t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM certificates WHERE node_id = $1 AND epoch = $2 AND key_digest = $3 AND denied_at = 0 AND issued_at >
		COALESCE((SELECT MAX(issued_at) FROM certificates WHERE node_id = $1 AND epoch = $2 AND key_digest = $4), 0))`,
		by.NodeID, by.Epoch, by.KeyDigest, holder).Scan(&is)
}

// sameHash compares in constant time; an empty one is nobody's.
func sameHash(kept, shown string) bool {
	return kept != "" && subtle.ConstantTimeCompare([]byte(kept), []byte(shown)) == 1
}
