package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
)

// What a task may cost those who make secrets. Waiting as it is told, a node asks for
// longer than its patience lasts.
const (
	maxMintTries = 16
	maxMintPause = time.Minute
)

// BeginMint says whether RecordMint would, so that nothing is made that would not be
// given, and counts: a task asks a few times, and waits twice as long each time, whatever
// comes of it. What is refused is audited. Codes: task_not_found, lease_lost,
// already_minted, mint_too_soon, mint_tries_spent.
func (db *DB) BeginMint(ctx context.Context, nodeID string, epoch int64, taskID string, attempt int, credentialType string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		e, err := t.mayMint(ctx, nodeID, epoch, taskID, attempt, credentialType)
		if err != nil {
			return err
		}
		var had bool
		if err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM mints WHERE task_id = $1 AND attempt = $2 AND credential_type = $3)`, taskID, attempt, credentialType).Scan(&had); err != nil {
			return err
		}
		if had {
			return alreadyMinted(e, taskID, attempt, credentialType)
		}
		return t.countMint(ctx, e, taskID)
	})
}

// countMint lets a task ask once more, if it may. e is the row of the mint.
func (t *tx) countMint(ctx context.Context, e broker.AuditEntry, taskID string) error {
	var tries int
	var next time.Time
	err := t.QueryRowContext(ctx, `SELECT tries, next_at FROM mint_tries WHERE task_id = $1`, taskID).Scan(&tries, at(&next))
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case tries >= maxMintTries:
		return refuse(broker.Errorf(broker.Refused, "mint_tries_spent", "cannot mint a credential for task %s: it has asked %d times (find out why that failed, and ask for the task again)", taskID, tries), e)
	case t.now.Before(next):
		soon := broker.Errorf(broker.TooMany, "mint_too_soon", "cannot mint a credential for task %s: it has asked %d times and waits until %s", taskID, tries, next.UTC().Format(time.RFC3339))
		soon.RetryAfter = next.Sub(t.now)
		return refuse(soon, e)
	}
	pause := min(time.Second<<tries, maxMintPause)
	_, err = t.ExecContext(ctx, `INSERT INTO mint_tries (task_id, tries, next_at) VALUES ($1, 1, $2)
		ON CONFLICT (task_id) DO UPDATE SET tries = mint_tries.tries + 1, next_at = excluded.next_at`, taskID, micros(t.now.Add(pause)))
	return err
}

// RecordMint says that a secret may be handed to a node: once per task, attempt
// and type, while the node holds the lease on that task. It is audited either
// way, with what the secret opens and without the value, which the store never sees.
// Codes: task_not_found, lease_lost, already_minted.
func (db *DB) RecordMint(ctx context.Context, nodeID string, epoch int64, taskID string, attempt int, credentialType, opens string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		e, err := t.mayMint(ctx, nodeID, epoch, taskID, attempt, credentialType)
		if err != nil {
			return err
		}
		n, err := changed(t.ExecContext(ctx, `INSERT INTO mints (task_id, attempt, credential_type, at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (task_id, attempt, credential_type) DO NOTHING`, taskID, attempt, credentialType, micros(t.now)))
		if err != nil {
			return err
		}
		if n == 0 {
			return alreadyMinted(e, taskID, attempt, credentialType)
		}
		if opens != "" {
			e.After = small("type", credentialType, "attempt", attempt, "opens", opens)
		}
		return t.audit(ctx, e)
	})
}

// mayMint judges by the task's lease, and returns the row that the mint leaves.
func (t *tx) mayMint(ctx context.Context, nodeID string, epoch int64, taskID string, attempt int, credentialType string) (e broker.AuditEntry, err error) {
	k, err := task(ctx, t, taskID, t.forUpdate())
	if err != nil {
		return e, err
	}
	e = broker.AuditEntry{
		Actor: nodeActor(nodeID).Name, Action: "credential.mint", Subject: "task/" + taskID, CorrelationID: k.CorrelationID,
		After: small("type", credentialType, "attempt", attempt),
	}
	switch {
	case k.NodeID != nodeID:
		return e, refuse(taskNotFound(taskID), e)
	case k.NodeEpoch != epoch, k.Status != broker.TaskDispatched, k.Attempt != attempt, !t.now.Before(k.LeaseUntil), k.CancelRequested:
		return e, refuse(broker.Errorf(broker.Refused, "lease_lost", "cannot mint %s for task %s: the node does not hold the lease of attempt %d", credentialType, taskID, attempt), e)
	}
	return e, nil
}

func alreadyMinted(e broker.AuditEntry, taskID string, attempt int, credentialType string) error {
	return refuse(broker.Errorf(broker.Refused, "already_minted", "cannot mint %s for task %s: attempt %d has had it", credentialType, taskID, attempt), e)
}
