package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// UnknownGrace is how long a delivered task may stay without a result before the broker ends the
// task with outcome_unknown. The time runs from the latest permitted start, or from the last sign
// of life if later.
const UnknownGrace = 10 * time.Minute

// RestartGrace is UnknownGrace for a task whose steps may restart the machine: a server with many GPUs and much memory
// can take half an hour until its agent is heard again.
const RestartGrace = 45 * time.Minute

func graceOf(taskType string) time.Duration {
	if taskType == broker.OperationTask {
		return RestartGrace
	}
	return UnknownGrace
}

// openTask is the data needed to decide about delivery.
type openTask struct {
	ID, Type             string
	Epoch                int64
	Lane                 taskcatalog.Lane
	Class                taskcatalog.Class
	Status               broker.TaskStatus
	Attempt              int
	Cancel               bool
	NotAfter, AliveUntil time.Time
}

func scanOpen(row sqlkit.Row) (openTask, error) {
	var o openTask
	err := row.Scan(&o.ID, &o.Type, &o.Epoch, &o.Lane, &o.Class, &o.Status, &o.Attempt, &o.Cancel, sqlkit.ScanMicros(&o.NotAfter),
		sqlkit.ScanMicros(&o.AliveUntil))
	return o, err
}

// unknownAt is when a silent delivered task ends with outcome_unknown.
func (o openTask) unknownAt() time.Time {
	last := o.NotAfter
	if o.AliveUntil.After(last) {
		last = o.AliveUntil
	}
	return last.Add(graceOf(o.Type))
}

// deliverable reports whether the task is not canceled, and either may still start in time, or was
// delivered before. In the second case the node may only be asked for the task's outcome.
func (o openTask) deliverable(epoch int64, now time.Time) bool {
	if o.Status != broker.TaskQueued || o.Epoch != epoch || o.Cancel {
		return false
	}
	if o.Attempt == 0 {
		return !now.After(o.NotAfter)
	}
	return now.Before(o.unknownAt())
}

// ClaimTasks leases tasks to the node in creation order and increments their attempt. From the
// exclusive lane it leases one task, and only while none is dispatched. Tasks that may destroy a
// tenant's data stay queued while the site is frozen; while a restored database is held, all tasks
// but probes stay queued. The returned tasks have all fields of a delivery. cancel lists delivered
// tasks that the node must stop. Codes: node_not_found, epoch_superseded.
func (db *DB) ClaimTasks(
	ctx context.Context, nodeID string, epoch int64, lanes []taskcatalog.Lane, limit int,
) (tasks []broker.Task, cancel []string, err error) {
	claim := func(pass bool) error {
		return db.write(ctx, func(ctx context.Context, t *tx) (err error) {
			tasks, cancel, err = t.claimTasks(ctx, nodeID, epoch, lanes, limit, pass)
			return err
		})
	}
	if err = claim(false); errors.Is(err, errGateFirst) {
		err = claim(true)
	}
	return tasks, cancel, err
}

func (t *tx) claimTasks(
	ctx context.Context, nodeID string, epoch int64, lanes []taskcatalog.Lane, limit int, pass bool,
) (tasks []broker.Task, cancel []string, err error) {
	if pass {
		if err := t.passFreezes(ctx); err != nil {
			return nil, nil, err
		}
	}
	// The lock serializes claims of one node, on any replica.
	var has int64
	var site string
	var restored bool
	err = t.QueryRowContext(ctx,
		`SELECT epoch, site, EXISTS (SELECT 1 FROM chain_holds WHERE until_at = 0 AND kind = 'restored') FROM nodes WHERE id = $1`+
			t.ForUpdate(), nodeID).Scan(&has, &site, &restored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil, nodeNotFound(nodeID)
	case err != nil:
		return nil, nil, err
	case has != epoch:
		return nil, nil, superseded(broker.Node{ID: nodeID, Epoch: has}, epoch)
	}
	open, err := t.openTasks(ctx, nodeID)
	if err != nil {
		return nil, nil, err
	}
	cancel = toStop(open)
	held, err := t.heldClasses(ctx, site, restored, pass || t.GateShared() == "", open)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range choose(open, epoch, lanes, limit, held, t.now) {
		k, err := t.lease(ctx, o, nodeID)
		if err != nil {
			return nil, nil, err
		}
		tasks = append(tasks, k)
	}
	return tasks, cancel, nil
}

// NothingOpen reports whether ClaimTasks would do and refuse nothing: the node is at this epoch and
// has no open task. NothingOpen only reads, whereas ClaimTasks locks the node's row and takes a
// turn to write.
func (db *DB) NothingOpen(ctx context.Context, nodeID string, epoch int64) (bool, error) {
	var has, open int64
	err := db.reader().QueryRowContext(ctx,
		`SELECT epoch, (SELECT COUNT(*) FROM tasks WHERE node_id = nodes.id AND status IN ('queued', 'dispatched'))
		FROM nodes WHERE id = $1`, nodeID).Scan(&has, &open)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil // ClaimTasks returns the error
	}
	return err == nil && has == epoch && open == 0, err
}

// NodesToTell returns the nodes with a task to fetch, perhaps once a lane is free, or a task to
// stop. Nodes that only work on dispatched tasks are not included.
func (db *DB) NodesToTell(ctx context.Context) ([]string, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	}, `SELECT DISTINCT node_id FROM tasks WHERE status IN ('queued', 'dispatched') AND (status = 'queued' OR cancel_requested)`)
}

func (t *tx) openTasks(ctx context.Context, nodeID string) ([]openTask, error) {
	return sqlkit.Collect(ctx, t, scanOpen,
		`SELECT id, type, node_epoch, lane, class, status, attempt, cancel_requested, not_after, alive_until FROM tasks
		WHERE node_id = $1 AND status IN ('queued', 'dispatched') ORDER BY id`, nodeID)
}

// choose picks the tasks to deliver now. Tasks of a held class are not delivered, not even again:
// the node may never have seen them.
func choose(open []openTask, epoch int64, lanes []taskcatalog.Lane, limit int, held []taskcatalog.Class, now time.Time) []openTask {
	taken := busy(open)
	var chosen []openTask
	for _, o := range open {
		exclusive := o.Lane == taskcatalog.LaneExclusive
		if slices.Contains(held, o.Class) {
			continue
		}
		if len(chosen) == limit || !slices.Contains(lanes, o.Lane) || !o.deliverable(epoch, now) || exclusive && taken {
			continue
		}
		taken = taken || exclusive
		chosen = append(chosen, o)
	}
	return chosen
}

// busy reports whether the exclusive lane is taken.
func busy(open []openTask) bool {
	return slices.ContainsFunc(open, func(o openTask) bool {
		return o.Lane == taskcatalog.LaneExclusive && o.Status == broker.TaskDispatched
	})
}

func (t *tx) lease(ctx context.Context, o openTask, nodeID string) (broker.Task, error) {
	k := broker.Task{
		ID: o.ID, NodeID: nodeID, NodeEpoch: o.Epoch, Lane: o.Lane, Status: broker.TaskDispatched, DispatchedAt: t.now,
		LeaseUntil: t.now.Add(wire.LeaseTime),
	}
	err := t.QueryRowContext(ctx, `UPDATE tasks SET status = 'dispatched', attempt = attempt + 1, dispatched_at = $1, lease_until = $2
		WHERE id = $3 RETURNING attempt, type, version, not_after, correlation_id, traceparent, (SELECT envelope FROM task_envelopes WHERE task_id = id)`,
		sqlkit.Micros(t.now), sqlkit.Micros(k.LeaseUntil), o.ID).
		Scan(&k.Attempt, &k.Type, &k.Version, sqlkit.ScanMicros(&k.NotAfter), &k.CorrelationID, &k.TraceParent, &k.Envelope)
	return k, err
}

// toStop lists delivered tasks that are to be canceled and have not ended.
func toStop(open []openTask) []string {
	var ids []string
	for _, o := range open {
		if o.Cancel && o.Attempt > 0 {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// RecordProgress renews the lease of a task and returns the tasks that the node must stop. A task
// whose lease ran out, but which was not delivered again, is leased to the node again. Codes:
// task_not_found, task_ended, attempt_superseded.
func (db *DB) RecordProgress(
	ctx context.Context, nodeID, taskID string, attempt int, p broker.Progress,
) (leaseUntil time.Time, cancel []string, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		leaseUntil = t.now.Add(wire.LeaseTime)
		p.At = t.now
		n, err := t.renew(ctx, broker.TaskDispatched, nodeID, taskID, attempt, p)
		if err != nil {
			return err
		}
		if n == 0 {
			if err := t.takeUp(ctx, nodeID, taskID, attempt, p); err != nil {
				return err
			}
		}
		open, err := t.openTasks(ctx, nodeID)
		cancel = toStop(open)
		return err
	})
	return leaseUntil, cancel, err
}

func (t *tx) renew(ctx context.Context, from broker.TaskStatus, nodeID, taskID string, attempt int, p broker.Progress) (int64, error) {
	lease := sqlkit.Micros(t.now.Add(wire.LeaseTime))
	return sqlkit.Changed(t.ExecContext(ctx, `UPDATE tasks SET status = 'dispatched', lease_until = $1, alive_until = $2, progress = $3
		WHERE id = $4 AND node_id = $5 AND attempt = $6 AND status = $7`, lease, lease, sqlkit.JSON(p), taskID, nodeID, attempt, string(from)))
}

// takeUp returns a task whose lease ran out to the node that runs the task, or refuses. The rules
// are those of a claim: the exclusive lane holds one task.
func (t *tx) takeUp(ctx context.Context, nodeID, taskID string, attempt int, p broker.Progress) error {
	if _, err := node(ctx, t, nodeID, t.ForUpdate()); err != nil {
		return err
	}
	k, err := task(ctx, t, taskID, t.ForUpdate())
	switch {
	case err != nil:
		return err
	case k.NodeID != nodeID:
		return taskNotFound(taskID)
	case k.Status.Ended():
		return broker.Errorf(broker.Refused, "task_ended", "task %s has ended: %s", taskID, k.Status)
	case k.Attempt == 0 || k.Attempt != attempt:
		return broker.Errorf(broker.Refused, "attempt_superseded", "task %s is at attempt %d, not %d", taskID, k.Attempt, attempt)
	}
	open, err := t.openTasks(ctx, nodeID)
	if err != nil {
		return err
	}
	if k.Lane == taskcatalog.LaneExclusive && busy(open) {
		return broker.Errorf(broker.Refused, "attempt_superseded",
			"the lease of task %s ran out, and another task holds the node's exclusive lane", taskID)
	}
	_, err = t.renew(ctx, broker.TaskQueued, nodeID, taskID, attempt, p)
	return err
}
