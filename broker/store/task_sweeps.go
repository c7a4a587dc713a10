package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// CancelTask cancels a task: at once if the task was never delivered; otherwise the node is asked
// to stop, and the node's result tells how the task ended. An ended task stays unchanged. Codes:
// task_not_found.
func (db *DB) CancelTask(ctx context.Context, actor broker.Actor, taskID, reason string) (k broker.Task, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if k, err = task(ctx, t, taskID, t.ForUpdate()); err != nil {
			return err
		}
		if k.Status.Ended() || k.CancelRequested {
			return nil
		}
		e := broker.AuditEntry{
			Actor: actor.Name, Action: "task.cancel", Subject: "task/" + taskID, Reason: reason,
			CorrelationID: auditCorrelation(k), Before: small("status", k.Status),
		}
		if k.Attempt == 0 {
			k.CancelRequested = true
			if err := t.end(ctx, &k, broker.TaskCanceled, taskcatalog.CodeCanceled, reason); err != nil {
				return err
			}
		} else {
			k.CancelRequested = true
			if _, err := t.ExecContext(ctx, `UPDATE tasks SET cancel_requested = TRUE WHERE id = $1`, taskID); err != nil {
				return err
			}
			t.hint(HintCancel, k.NodeID)
		}
		e.After = small("status", k.Status)
		return t.audit(ctx, e)
	})
	return k, err
}

// end ends a task by the broker's own decision.
func (t *tx) end(ctx context.Context, k *broker.Task, status broker.TaskStatus, code taskcatalog.Code, message string) error {
	k.Status, k.Code, k.Message, k.EndedAt = status, code, message, t.now
	t.hint(HintEnded, k.ID)
	_, err := t.ExecContext(ctx,
		`UPDATE tasks SET status = $1, code = $2, message = $3, ended_at = $4, cancel_requested = $5 WHERE id = $6`,
		string(status), string(code), message, sqlkit.Micros(t.now), k.CancelRequested, k.ID)
	return err
}

// failOpen ends a node's open tasks of epochs below before.
func (t *tx) failOpen(ctx context.Context, actor broker.Actor, nodeID string, before int64, code taskcatalog.Code) error {
	open, err := sqlkit.Collect(ctx, t, scanTask, `SELECT `+taskColumns+` FROM tasks
		WHERE node_id = $1 AND status IN ('queued', 'dispatched') AND node_epoch < $2 ORDER BY id`+t.ForUpdate(), nodeID, before)
	if err != nil {
		return err
	}
	for _, k := range open {
		if err := t.end(ctx, &k, broker.TaskFailed, code, ""); err != nil {
			return err
		}
		if err := t.auditEnd(ctx, actor, k); err != nil {
			return err
		}
	}
	return nil
}

// Swept counts the tasks moved by SweepTasks.
type Swept struct {
	Requeued int // the lease ran out
	Expired  int // never dispatched, and past not_after
	Unknown  int // delivered, and silent until its grace was over
}

const sweepLimit = 200

// SweepTasks moves tasks whose time has come. A task whose lease ran out returns to queued. A task
// never delivered expires after not_after. A delivered task never expires, but ends failed with
// outcome_unknown. At most a few hundred tasks are moved at a time: repeat until no task is moved.
func (db *DB) SweepTasks(ctx context.Context) (swept Swept, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		swept = Swept{}
		silent := func(grace time.Duration) int64 { return sqlkit.Micros(t.now.Add(-grace)) }
		due, err := sqlkit.Collect(ctx, t, scanTask, `SELECT `+taskColumns+` FROM tasks WHERE status IN ('queued', 'dispatched') AND (
				(status = 'dispatched' AND lease_until < $1)
				OR (attempt = 0 AND not_after < $1)
				OR (attempt > 0 AND not_after <= $2 AND alive_until <= $2 AND (type <> $3 OR not_after <= $4 AND alive_until <= $4))
			) ORDER BY node_id, id LIMIT $5`+t.ForUpdate()+t.SkipLocked(), sqlkit.Micros(t.now), silent(UnknownGrace), broker.OperationTask,
			silent(RestartGrace), sweepLimit)
		if err != nil {
			return err
		}
		for _, k := range due {
			if err := t.sweep(ctx, k, silent(graceOf(k.Type)), &swept); err != nil {
				return err
			}
		}
		return nil
	})
	return swept, err
}

func (t *tx) sweep(ctx context.Context, k broker.Task, silent int64, swept *Swept) error {
	var alive int64
	if err := t.QueryRowContext(ctx, `SELECT alive_until FROM tasks WHERE id = $1`, k.ID).Scan(&alive); err != nil {
		return err
	}
	var err error
	switch {
	case k.Attempt > 0 && sqlkit.Micros(k.NotAfter) <= silent && alive <= silent:
		swept.Unknown++
		err = t.end(ctx, &k, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown, "the node did not report how the task ended")
	case k.Attempt == 0:
		swept.Expired++
		err = t.expire(ctx, &k)
	default:
		swept.Requeued++
		t.hint(HintTask, k.NodeID)
		_, err = t.ExecContext(ctx, `UPDATE tasks SET status = 'queued' WHERE id = $1`, k.ID)
		return err
	}
	if err != nil {
		return err
	}
	return t.auditEnd(ctx, broker.Actor{Name: "system"}, k)
}

// expire ends a task that no node fetched in time. If a freeze was the cause, the message says so.
func (t *tx) expire(ctx context.Context, k *broker.Task) error {
	why := "the node did not fetch the task in time"
	if k.Class == taskcatalog.ClassDestructive {
		h, err := t.frozenAt(ctx, k.NodeID, sqlkit.Micros(k.NotAfter))
		if err != nil {
			return err
		}
		if h != nil {
			why = "the task was not delivered in time: " + wording(*h) + " was frozen by " + h.By + " (" + h.Reason + ")"
		}
	}
	return t.end(ctx, k, broker.TaskExpired, taskcatalog.CodeTaskExpired, why)
}
