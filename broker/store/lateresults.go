package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// ProbeWithin is for how long after a task ended outcome_unknown its node is asked by the
// broker itself what became of it. The time is bounded so that nobody asks for ever.
const ProbeWithin = time.Hour

// noteLate keeps what a node says of a task that ended outcome_unknown beside that end.
// The node's own result is kept before anything that a probe found, and the first of each
// stands. Of any other task, epoch or attempt nothing is kept.
func (t *tx) noteLate(ctx context.Context, nodeID, taskID string, epoch int64, w broker.LateWord) error {
	k, err := task(ctx, t, taskID, t.forUpdate())
	switch {
	case err != nil:
		return err
	case k.NodeID != nodeID || k.NodeEpoch != epoch || k.Code != taskcatalog.CodeOutcomeUnknown:
		return nil
	case k.Late != nil && (w.Probe || !k.Late.Probe):
		return nil
	}
	w.At = t.now
	if _, err := t.ExecContext(ctx, `UPDATE tasks SET late = $1 WHERE id = $2`, text(w), taskID); err != nil {
		return err
	}
	if k.Type == "node.self_update" { // which version that left there, its report says: see hearDelivery
		if err := t.askReport(ctx, nodeID); err != nil {
			return err
		}
	}
	return t.audit(ctx, broker.AuditEntry{
		Actor: nodeActor(nodeID).Name, Action: "task.late_result", Subject: "task/" + taskID, Reason: w.Message, Code: string(w.Code), CorrelationID: k.CorrelationID,
		After: small("node", nodeID, "type", k.Type, "outcome", w.Outcome, "running", w.Running, "probe", w.Probe),
	})
}

// NoteLateResult keeps a result that came after its task had ended outcome_unknown, if the
// attempt it is of was made.
func (db *DB) NoteLateResult(ctx context.Context, r Result) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		k, err := task(ctx, t, r.TaskID, t.forUpdate())
		if err != nil || r.Attempt < 1 || r.Attempt > k.Attempt {
			return err
		}
		return t.noteLate(ctx, r.NodeID, r.TaskID, r.Epoch, broker.LateWord{Outcome: r.Outcome, Code: r.Code, Message: r.Message})
	})
}

// Unheard are the tasks that ended outcome_unknown within ProbeWithin, may have changed
// something, and whose nodes were heard since and have not said a word of them, nor were
// asked: at most limit, in their order, of those that ended after one of an earlier call
// (its zero: from the first on). The indexes tasks_unheard and tasks_idempotency are for this.
func (db *DB) Unheard(ctx context.Context, after broker.Task, limit int) ([]broker.Task, error) {
	return collect(ctx, db.reader(), scanTask, `SELECT `+taskColumns+` FROM tasks
		WHERE code = 'outcome_unknown' AND late = '' AND ended_at > $1 AND class <> $2
			AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = tasks.node_id AND n.epoch = tasks.node_epoch AND n.last_contact_at > tasks.ended_at AND n.status <> 'deleted')
			AND NOT EXISTS (SELECT 1 FROM tasks p WHERE p.node_id = tasks.node_id AND p.idempotency_key = $3 || tasks.id AND p.idempotency_key <> '')
			AND (ended_at > $4 OR ended_at = $4 AND id > $5)
		ORDER BY ended_at, id LIMIT $6`,
		micros(db.Now().Add(-ProbeWithin)), string(taskcatalog.ClassProbe), broker.ProbeKey, micros(after.EndedAt), after.ID, limit)
}
