package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Result is the end of a task as the node reports it. The caller has cleaned its text and verified
// its evidence.
type Result struct {
	NodeID   string
	Epoch    int64
	TaskID   string
	Attempt  int
	Status   broker.TaskStatus // succeeded, failed or canceled
	Outcome  taskcatalog.Outcome
	Code     taskcatalog.Code
	Message  string
	Result   json.RawMessage
	Evidence []byte
	Verdict  taskcatalog.Verdict
	Archive  []byte // the files that the task collected, stored beside the task; nil: none
}

// RecordResult ends a task and applies its effects, in one transaction. The first result stands: a
// later result changes nothing, and RecordResult returns the recorded task with repeat. Any
// delivered attempt may report, as a node runs a task at most once. Codes: task_not_found (also for
// another node's task), epoch_superseded, attempt_unknown.
func (db *DB) RecordResult(ctx context.Context, r Result, effects []broker.Effect) (k broker.Task, repeat bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		repeat = false
		// Lock the node's row first, as everywhere, to avoid deadlocks.
		if len(effects) > 0 {
			if _, err := node(ctx, t, r.NodeID, t.ForUpdate()); err != nil {
				return err
			}
		}
		if k, err = task(ctx, t, r.TaskID, t.ForUpdate()); err != nil {
			return err
		}
		switch {
		case k.NodeID != r.NodeID:
			return taskNotFound(r.TaskID)
		case k.Status.Ended():
			repeat = true
			return nil
		case k.NodeEpoch != r.Epoch:
			return superseded(broker.Node{ID: r.NodeID, Epoch: r.Epoch}, k.NodeEpoch)
		case r.Attempt < 1 || r.Attempt > k.Attempt:
			return broker.Errorf(broker.Refused, "attempt_unknown", "task %s was delivered %d times; there is no attempt %d", r.TaskID,
				k.Attempt, r.Attempt)
		}
		k.Status, k.Outcome, k.Code, k.Message, k.Verdict, k.EndedAt = r.Status, r.Outcome, r.Code, r.Message, r.Verdict, t.now
		k.Evidence = r.Evidence
		if _, err := t.ExecContext(ctx,
			`UPDATE tasks SET status = $1, ended_at = $2, outcome = $3, code = $4, message = $5, verdict = $6, result = $7, evidence = $8
			WHERE id = $9`,
			string(r.Status), sqlkit.Micros(t.now), string(r.Outcome), string(r.Code), r.Message, string(r.Verdict), string(r.Result),
			bytesOf(r.Evidence), r.TaskID); err != nil {
			return err
		}
		if r.Archive != nil {
			if err := t.putArchive(ctx, r.TaskID, r.NodeID, r.Archive); err != nil {
				return err
			}
		}
		t.hint(HintEnded, r.TaskID)
		if k.Lane == taskcatalog.LaneExclusive {
			t.hint(HintTask, r.NodeID) // the lane is free
		}
		if err := t.auditEnd(ctx, nodeActor(r.NodeID), k); err != nil {
			return err
		}
		for _, e := range effects {
			if err := t.apply(ctx, k, e); err != nil {
				return err
			}
		}
		return nil
	})
	return k, repeat, err
}

// bytesOf replaces nil, because the column is never NULL.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// auditEnd records the digest of the evidence. The audit row is sealed, so evidence that is
// exchanged later, certificate included, no longer matches.
func (t *tx) auditEnd(ctx context.Context, actor broker.Actor, k broker.Task) error {
	evidence := ""
	if len(k.Evidence) > 0 {
		evidence = pki.Digest(k.Evidence)
	}
	return t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: "task.end", Subject: "task/" + k.ID, Reason: k.Message, Code: string(k.Code),
		CorrelationID: auditCorrelation(k),
		After:         small("node", k.NodeID, "type", k.Type, "status", k.Status, "verdict", k.Verdict, "evidence", evidence),
	})
}

// auditCorrelation connects the audit rows about a task with those of the operation or run that asked for it. The
// tasks of all attempts of an operation have the operation's.
func auditCorrelation(k broker.Task) string {
	if k.Type == broker.OperationTask {
		return broker.OperationOfRun(k.CorrelationID)
	}
	return k.CorrelationID
}

// ownerOf returns the owner of a status change by a task's result. If a turnover holds the node and
// asked for the removal, the owner is the turnover. As a person's change the removal would be
// refused: a person may not delete a node that a run holds.
func (t *tx) ownerOf(ctx context.Context, k broker.Task, by broker.Owner) (broker.Owner, error) {
	if by != broker.OwnerRemoval {
		return by, nil
	}
	run, kind, err := runOfNode(ctx, t, k.NodeID)
	if err == nil && run != "" && run == k.CorrelationID && broker.RunKindOf(kind).TurnsOver {
		by = broker.OwnerTurnover
	}
	return by, err
}

// apply applies an effect of a result. An effect that the node's state no longer allows is audited,
// and the result stands.
func (t *tx) apply(ctx context.Context, k broker.Task, effect broker.Effect) error {
	actor := nodeActor(k.NodeID)
	switch e := effect.(type) {
	case broker.SetStatus:
		by, err := t.ownerOf(ctx, k, e.By)
		if err != nil {
			return err
		}
		_, err = t.transition(ctx, actor, k.NodeID, Change{
			From: e.From, To: e.To, By: by, Reason: e.Reason,
			CorrelationID: k.CorrelationID,
		})
		var r *refusal
		if errors.As(err, &r) {
			r.entry.CorrelationID = k.CorrelationID
			return t.audit(ctx, r.entry)
		}
		return err
	case broker.SetReason:
		// The audited end of the task covers this change.
		_, err := t.ExecContext(ctx, `UPDATE nodes SET status_reason = $1, updated_at = $2 WHERE id = $3 AND status = $4`,
			e.Reason, sqlkit.Micros(t.now), k.NodeID, string(e.Status))
		return err
	case broker.SaveBaseline:
		n, err := node(ctx, t, k.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		switch {
		case n.Epoch != k.NodeEpoch:
			return nil // the baseline is of an earlier enrolment; the new enrolment is asked for its own
		case n.BaselineDigest != "" && n.Status != broker.Enrolling:
			return nil // a second baseline: a person reviews and accepts it
		}
		return t.saveBaseline(ctx, actor, k.NodeID, e.Digest, e.Baseline, "task "+k.ID)
	case broker.EndAllocation:
		return t.endOccupant(ctx, k.NodeID, e.AllocationID)
	case broker.ConfirmResolver:
		n, err := node(ctx, t, k.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		return t.confirmResolver(ctx, &n, e.Digest)
	case broker.LetIn:
		n, err := node(ctx, t, k.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		return t.letIn(ctx, n, k.CorrelationID)
	case broker.NoteLate:
		err := t.noteLate(ctx, k.NodeID, e.TaskID, k.NodeEpoch, e.Word)
		if broker.AsError(err).Kind == broker.NotFound {
			return nil // the request named a task that does not exist
		}
		return err
	case broker.VoidRotation:
		r, ok, err := rotationWhere(ctx, t, `task_id = $1`, k.ID)
		if err != nil || !ok {
			return err
		}
		return t.voidRotation(ctx, r)
	case broker.ConfirmTrust:
		n, err := node(ctx, t, k.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		return t.confirmTrust(ctx, &n, e.Version)
	}
	return nil
}
