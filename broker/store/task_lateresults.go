package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// ProbeWithin is how long after a task's end by outcome_unknown the broker asks the node for the
// outcome. The bound ends the asking.
const ProbeWithin = time.Hour

// noteLate stores a node's late word about a task that ended with outcome_unknown, beside that end.
// The node's own result takes precedence over a probe's finding, and the first of each kind stands.
// Nothing is stored about a task of another node or epoch, or with another end.
func (t *tx) noteLate(ctx context.Context, nodeID, taskID string, epoch int64, w broker.LateWord) error {
	k, err := task(ctx, t, taskID, t.ForUpdate())
	switch {
	case err != nil:
		return err
	case k.NodeID != nodeID || k.NodeEpoch != epoch || k.Code != taskcatalog.CodeOutcomeUnknown:
		return nil
	case k.Late != nil && (w.Probe || !k.Late.Probe):
		return nil
	}
	w.At = t.now
	if _, err := t.ExecContext(ctx, `UPDATE tasks SET late = $1 WHERE id = $2`, sqlkit.JSON(w), taskID); err != nil {
		return err
	}
	if k.Type == "node.self_update" { // the node's report tells which version runs now: see hearDelivery
		if err := t.askReport(ctx, nodeID); err != nil {
			return err
		}
	}
	return t.audit(ctx, broker.AuditEntry{
		Actor: nodeActor(nodeID).Name, Action: "task.late_result", Subject: "task/" + taskID, Reason: w.Message, Code: string(w.Code),
		CorrelationID: auditCorrelation(k),
		After:         small("node", nodeID, "type", k.Type, "outcome", w.Outcome, "running", w.Running, "probe", w.Probe),
	})
}

// NoteLateResult stores a result that came after its task had ended with outcome_unknown, if the
// result's attempt was made.
func (db *DB) NoteLateResult(ctx context.Context, r Result) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		k, err := task(ctx, t, r.TaskID, t.ForUpdate())
		if err != nil || r.Attempt < 1 || r.Attempt > k.Attempt {
			return err
		}
		return t.noteLate(ctx, r.NodeID, r.TaskID, r.Epoch, broker.LateWord{Outcome: r.Outcome, Code: r.Code, Message: r.Message})
	})
}

// Unheard returns tasks that ended with outcome_unknown within ProbeWithin and may have changed
// something, whose nodes were heard since but neither reported the outcome nor were probed. It
// returns at most limit tasks, ordered by end, that ended after the task after (zero: from the
// first task on). The indexes tasks_unheard and tasks_idempotency serve this query.
func (db *DB) Unheard(ctx context.Context, after broker.Task, limit int) ([]broker.Task, error) {
	return sqlkit.Collect(ctx, db.reader(), scanTask, `SELECT `+taskColumns+` FROM tasks
		WHERE code = 'outcome_unknown' AND late = '' AND ended_at > $1 AND class <> $2
			AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = tasks.node_id AND n.epoch = tasks.node_epoch AND n.last_contact_at > tasks.ended_at AND n.status <> 'deleted')
			AND NOT EXISTS (SELECT 1 FROM tasks p WHERE p.node_id = tasks.node_id AND p.idempotency_key = $3 || tasks.id AND p.idempotency_key <> '')
			AND (ended_at > $4 OR ended_at = $4 AND id > $5)
		ORDER BY ended_at, id LIMIT $6`,
		sqlkit.Micros(db.Now().Add(-ProbeWithin)), string(taskcatalog.ClassProbe), broker.ProbeKey, sqlkit.Micros(after.EndedAt), after.ID,
		limit)
}
