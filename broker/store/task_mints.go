package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// Limits on a task's requests for secrets. A node that waits as told can ask for longer than its
// own patience lasts.
const (
	maxMintTries = 16
	maxMintPause = time.Minute
	// An operation asks for each step that needs a secret, and again when one expires in the middle of
	// a transfer.
	maxStepTries  = 512
	freeStepTries = 64 // without a pause
)

// Mint is a node's request for a secret.
type Mint struct {
	NodeID  string
	Epoch   int64
	TaskID  string
	Attempt int
	Type    string
	Step    string // of an operation's plan; empty: the secret is for the whole task
	// Request is the node's own id of the request, so that a repeated request after a lost answer
	// is recognised; empty: no id.
	Request string
}

// repeats reports whether a secret of this type may be given again to the same request. A secret
// that is consumed by its use, or that permits more than reading the named content, is given once.
func (m Mint) repeats() bool {
	switch m.Type {
	case taskcatalog.CredentialOCIPull, taskcatalog.CredentialS3Read, taskcatalog.CredentialGCSRead, taskcatalog.CredentialHFToken,
		taskcatalog.CredentialClusterMembership, taskcatalog.CredentialClusterLeave:
		return m.Request != ""
	}
	return false
}

// key is what is minted once in an attempt: a type of credential for the whole task, or a request of a
// step. What joins a cluster is minted once for its step.
func (m Mint) key() string {
	switch {
	case m.Step == "":
		return m.Type
	case m.Type == taskcatalog.CredentialClusterJoin:
		return m.Type + "/" + m.Step
	}
	return m.Type + "/" + m.Step + "/" + m.Request
}

// audit is what the audit log says of the request.
func (m Mint) audit(more ...any) json.RawMessage {
	of := []any{"type", m.Type, "attempt", m.Attempt}
	if m.Step != "" {
		of = append(of, "step", m.Step)
	}
	return small(append(of, more...)...)
}

// limit is how often the task may ask, and the pause after this many tries.
func (m Mint) limit(tries int) (most int, pause time.Duration) {
	switch {
	case m.Step == "":
		return maxMintTries, min(time.Second<<tries, maxMintPause)
	case tries < freeStepTries:
		return maxStepTries, 0
	}
	return maxStepTries, maxMintPause
}

// BeginMint reports whether RecordMint would succeed, so that no secret is made in vain, and counts
// the try. A task gets a limited number of tries, and the wait doubles with each try, whatever the
// result. Refusals are audited. Codes: task_not_found, lease_lost, already_minted, mint_too_soon,
// mint_tries_spent.
func (db *DB) BeginMint(ctx context.Context, m Mint) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		e, err := t.mayMint(ctx, m)
		if err != nil {
			return err
		}
		if _, err := t.had(ctx, e, m); err != nil {
			return err
		}
		return t.countMint(ctx, e, m)
	})
}

// had reports whether this same request was answered before, and may be answered again. had refuses
// if another request got the secret, or if the secret is given only once.
func (t *tx) had(ctx context.Context, e broker.AuditEntry, m Mint) (again bool, err error) {
	var by string
	err = t.QueryRowContext(ctx, `SELECT request_id FROM mints WHERE task_id = $1 AND attempt = $2 AND credential_type = $3`, m.TaskID,
		m.Attempt, m.key()).Scan(&by)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case m.repeats() && by == m.Request:
		return true, nil
	}
	return false,
		refuse(broker.Errorf(broker.Refused, "already_minted", "cannot mint %s for task %s: attempt %d has already received it", m.Type,
			m.TaskID, m.Attempt), e)
}

// countMint counts another try of a task, or refuses. e is the audit row of the mint.
func (t *tx) countMint(ctx context.Context, e broker.AuditEntry, m Mint) error {
	var tries int
	var next time.Time
	err := t.QueryRowContext(ctx, `SELECT tries, next_at FROM mint_tries WHERE task_id = $1`, m.TaskID).Scan(&tries, sqlkit.ScanMicros(&next))
	most, pause := m.limit(tries)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case tries >= most:
		return refuse(broker.Errorf(broker.Refused, "mint_tries_spent",
			"cannot mint a credential for task %s: the task has asked %d times (find out why the requests failed, and enqueue the task again)", m.TaskID, tries), e)
	case t.now.Before(next):
		soon := broker.Errorf(broker.TooMany, "mint_too_soon",
			"cannot mint a credential for task %s: the task has asked %d times and must wait until %s", m.TaskID, tries,
			next.UTC().Format(time.RFC3339))
		soon.RetryAfter = next.Sub(t.now)
		return refuse(soon, e)
	}
	_, err = t.ExecContext(ctx, `INSERT INTO mint_tries (task_id, tries, next_at) VALUES ($1, 1, $2)
		ON CONFLICT (task_id) DO UPDATE SET tries = mint_tries.tries + 1, next_at = excluded.next_at`, m.TaskID, sqlkit.Micros(t.now.Add(pause)))
	return err
}

// RecordMint records that a secret is handed to a node: to a single request for each task, attempt
// and type, or to each request of a step, while the node holds the task's lease. Success and refusal are audited, with the scope
// of the secret but without its value; the store never sees the value. Codes: task_not_found,
// lease_lost, already_minted.
func (db *DB) RecordMint(ctx context.Context, m Mint, opens string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		e, err := t.mayMint(ctx, m)
		if err != nil {
			return err
		}
		n, err := sqlkit.Changed(t.ExecContext(ctx,
			`INSERT INTO mints (task_id, attempt, credential_type, at, request_id) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (task_id, attempt, credential_type) DO NOTHING`, m.TaskID, m.Attempt, m.key(), sqlkit.Micros(t.now), m.Request))
		if err != nil {
			return err
		}
		again := false
		if n == 0 {
			if again, err = t.had(ctx, e, m); err != nil {
				return err
			}
		}
		if opens != "" {
			e.After = m.audit("opens", opens, "again", again)
		}
		return t.audit(ctx, e)
	})
}

// mayMint checks the task's lease, and returns the audit row of the mint.
func (t *tx) mayMint(ctx context.Context, m Mint) (e broker.AuditEntry, err error) {
	k, err := task(ctx, t, m.TaskID, t.ForUpdate())
	if err != nil {
		return e, err
	}
	e = broker.AuditEntry{
		Actor: nodeActor(m.NodeID).Name, Action: "credential.mint", Subject: "task/" + m.TaskID, CorrelationID: auditCorrelation(k),
		After: m.audit(),
	}
	switch {
	case k.NodeID != m.NodeID:
		return e, refuse(taskNotFound(m.TaskID), e)
	case k.NodeEpoch != m.Epoch, k.Status != broker.TaskDispatched, k.Attempt != m.Attempt, !t.now.Before(k.LeaseUntil), k.CancelRequested:
		return e,
			refuse(broker.Errorf(broker.Refused, "lease_lost", "cannot mint %s for task %s: the node does not hold the lease of attempt %d",
				m.Type, m.TaskID, m.Attempt), e)
	}
	return e, nil
}
