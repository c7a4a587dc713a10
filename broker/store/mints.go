package store

import (
	"context"

	"github.com/hostler/hostler/broker"
)

// RecordMint says that a secret may be handed to a node: once per task, attempt
// and type, while the node holds the lease on that task. It is audited either
// way, without the value, which the store never sees. Codes: task_not_found,
// lease_lost, already_minted.
func (db *DB) RecordMint(ctx context.Context, nodeID string, epoch int64, taskID string, attempt int, credentialType string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		k, err := task(ctx, t, taskID, t.forUpdate())
		if err != nil {
			return err
		}
		e := broker.AuditEntry{
			Actor: nodeActor(nodeID).Name, Action: "credential.mint", Subject: "task/" + taskID, CorrelationID: k.CorrelationID,
			After: small("type", credentialType, "attempt", attempt),
		}
		switch {
		case k.NodeID != nodeID:
			return refuse(taskNotFound(taskID), e)
		case k.NodeEpoch != epoch, k.Status != broker.TaskDispatched, k.Attempt != attempt, !t.now.Before(k.LeaseUntil), k.CancelRequested:
			return refuse(broker.Errorf(broker.Refused, "lease_lost", "cannot mint %s for task %s: the node does not hold the lease of attempt %d", credentialType, taskID, attempt), e)
		}
		n, err := changed(t.ExecContext(ctx, `INSERT INTO mints (task_id, attempt, credential_type, at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (task_id, attempt, credential_type) DO NOTHING`, taskID, attempt, credentialType, micros(t.now)))
		if err != nil {
			return err
		}
		if n == 0 {
			return refuse(broker.Errorf(broker.Refused, "already_minted", "cannot mint %s for task %s: attempt %d has had it", credentialType, taskID, attempt), e)
		}
		return t.audit(ctx, e)
	})
}
