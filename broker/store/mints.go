package store

import (
	"context"

	"github.com/hostler/hostler/broker"
)

// MayMint says whether RecordMint would, so that nothing is made that would not be given.
// What is refused is audited. Codes: task_not_found, lease_lost, already_minted.
func (db *DB) MayMint(ctx context.Context, nodeID string, epoch int64, taskID string, attempt int, credentialType string) error {
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
		return nil
	})
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
