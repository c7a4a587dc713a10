package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// TaskFilter selects tasks; an empty field adds no condition.
type TaskFilter struct {
	NodeID        string
	Sites         []string // nil: all
	Statuses      []broker.TaskStatus
	Type          string
	CorrelationID string
	After         string // cursor returned by ListTasks
	Limit         int    // 0: 100
}

// taskColumns are the columns of every read of a task; result and envelope are read separately.
const taskColumns = `id, node_id, node_epoch, type, version, class, lane, params, envelope_digest, key_id, nonce, status, attempt,
	retry_of, idempotency_key, correlation_id, traceparent, enqueued_by, issued_at, not_after, dispatched_at, lease_until,
	cancel_requested, ended_at, outcome, code, message, verdict, progress, late`

func taskFields(k *broker.Task) []any {
	return []any{
		&k.ID, &k.NodeID, &k.NodeEpoch, &k.Type, &k.Version, &k.Class, &k.Lane, sqlkit.ScanRawJSON(&k.Params), &k.EnvelopeDigest, &k.KeyID,
		&k.Nonce, &k.Status, &k.Attempt,
		&k.RetryOf, &k.IdempotencyKey, &k.CorrelationID, &k.TraceParent, &k.EnqueuedBy, sqlkit.ScanMicros(&k.IssuedAt),
		sqlkit.ScanMicros(&k.NotAfter), sqlkit.ScanMicros(&k.DispatchedAt), sqlkit.ScanMicros(&k.LeaseUntil),
		&k.CancelRequested, sqlkit.ScanMicros(&k.EndedAt), &k.Outcome, &k.Code, &k.Message, &k.Verdict, sqlkit.ScanJSON(&k.Progress),
		sqlkit.ScanJSON(&k.Late),
	}
}

func scanTask(row sqlkit.Row) (broker.Task, error) {
	var k broker.Task
	err := row.Scan(taskFields(&k)...)
	return k, err
}

func taskNotFound(id string) *broker.Error {
	return broker.Errorf(broker.NotFound, "task_not_found", "there is no task %q (see hostler task list)", id)
}

// task reads one task without envelope, result and evidence.
func task(ctx context.Context, r sqlkit.Runner, id, lock string) (broker.Task, error) {
	k, err := scanTask(r.QueryRowContext(ctx, `SELECT `+taskColumns+` FROM tasks WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return k, taskNotFound(id)
	}
	return k, err
}

// Task reads one task with envelope, result and evidence. Codes: task_not_found.
func (db *DB) Task(ctx context.Context, id string) (broker.Task, error) {
	var k broker.Task
	row := db.reader().QueryRowContext(ctx, `SELECT `+taskColumns+`, result, evidence, envelope FROM tasks
		JOIN task_envelopes ON task_id = id WHERE id = $1`, id)
	err := row.Scan(append(taskFields(&k), sqlkit.ScanRawJSON(&k.Result), &k.Evidence, &k.Envelope)...)
	if errors.Is(err, sql.ErrNoRows) {
		return k, taskNotFound(id)
	}
	return k, err
}

// Asked returns a task without envelope, result and evidence: enough to judge a result. Codes:
// task_not_found.
func (db *DB) Asked(ctx context.Context, id string) (broker.Task, error) {
	return task(ctx, db.reader(), id, "")
}

// TaskByKey finds the task of a node with an idempotency key.
func (db *DB) TaskByKey(ctx context.Context, nodeID, idempotencyKey string) (broker.Task, bool, error) {
	return taskByKey(ctx, db.reader(), nodeID, idempotencyKey)
}

func taskByKey(ctx context.Context, r sqlkit.Runner, nodeID, key string) (broker.Task, bool, error) {
	if key == "" {
		return broker.Task{}, false, nil
	}
	k, err := scanTask(r.QueryRowContext(ctx, `SELECT `+taskColumns+
		` FROM tasks WHERE node_id = $1 AND idempotency_key = $2 AND idempotency_key <> ''`, nodeID, key))
	if errors.Is(err, sql.ErrNoRows) {
		return k, false, nil
	}
	return k, err == nil, err
}

// InsertTask queues a signed task. If the node has a task with the same idempotency key and the
// same request, InsertTask returns that task with repeat. Task ids must sort by creation time.
// Codes: node_not_found, idempotency_conflict, node_changed (the node enrolled again meanwhile, or
// was deleted), and for a task that lets a tenant in the codes of broker.Handout.
func (db *DB) InsertTask(ctx context.Context, actor broker.Actor, k broker.Task) (got broker.Task, repeat bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if got, repeat, err = taskByKey(ctx, t, k.NodeID, k.IdempotencyKey); err != nil {
			return err
		}
		if repeat {
			return sameRequest(got, k)
		}
		var epoch int64
		var status broker.NodeStatus
		lock := t.ForKeyShare()
		if k.Type == provisionUser {
			lock = t.ForUpdate()
			if err := t.passFreezes(ctx); err != nil { // before the node's row is locked, as a placement does
				return err
			}
		}
		err := t.QueryRowContext(ctx, `SELECT epoch, status FROM nodes WHERE id = $1`+lock, k.NodeID).Scan(&epoch, &status)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nodeNotFound(k.NodeID)
		case err != nil:
			return err
		case epoch != k.NodeEpoch || status == broker.Deleted:
			return broker.Errorf(broker.Refused, "node_changed",
				"cannot enqueue %s: node %s enrolled again or was deleted meanwhile (try again)", k.Type, k.NodeID)
		}
		k.Status, k.EnqueuedBy = broker.TaskQueued, actor.Name
		if k.Type == provisionUser {
			if err := t.handTo(ctx, k); err != nil {
				return err
			}
		}
		if err := t.insertTask(ctx, k); err != nil {
			return err
		}
		got = k
		t.hint(HintTask, k.NodeID)
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "task.enqueue", Subject: "task/" + k.ID, CorrelationID: auditCorrelation(k),
			After: small("node", k.NodeID, "type", k.Type, "version", k.Version, "envelope", k.EnvelopeDigest),
		})
	})
	return got, repeat, err
}

func (t *tx) insertTask(ctx context.Context, k broker.Task) error {
	_, err := t.ExecContext(ctx,
		`INSERT INTO tasks (id, node_id, node_epoch, type, version, class, lane, params, envelope_digest, key_id, nonce, status,
		retry_of, idempotency_key, correlation_id, traceparent, enqueued_by, issued_at, not_after)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		k.ID, k.NodeID, k.NodeEpoch, k.Type, k.Version, string(k.Class), string(k.Lane), string(k.Params), k.EnvelopeDigest, k.KeyID,
		k.Nonce, string(k.Status),
		k.RetryOf, k.IdempotencyKey, k.CorrelationID, k.TraceParent, k.EnqueuedBy, sqlkit.Micros(k.IssuedAt), sqlkit.Micros(k.NotAfter))
	if err != nil {
		return err
	}
	_, err = t.ExecContext(ctx, `INSERT INTO task_envelopes (task_id, envelope) VALUES ($1, $2)`, k.ID, k.Envelope)
	return err
}

func sameRequest(had, asked broker.Task) error {
	if had.Type == asked.Type && had.Version == asked.Version && sameJSON(had.Params, asked.Params) {
		return nil
	}
	return broker.Errorf(broker.Refused, "idempotency_conflict",
		"cannot enqueue %s on node %s: idempotency key %q belongs to task %s, whose request was different (use another key)", asked.Type,
		asked.NodeID, asked.IdempotencyKey, had.ID)
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return string(a) == string(b)
	}
	return sqlkit.JSON(x) == sqlkit.JSON(y) // map keys are sorted
}

// ListTasks returns a page, newest first, without envelopes, evidence and results, and the cursor
// of the next page ("" at the end).
func (db *DB) ListTasks(ctx context.Context, f TaskFilter) (page []broker.Task, next string, err error) {
	var w sqlkit.Where
	w.Equal("node_id", f.NodeID)
	w.Equal("type", f.Type)
	if w.Equal("correlation_id", f.CorrelationID); f.CorrelationID != "" {
		w.Add("correlation_id <> ''") // as the index requires
	}
	sqlkit.In(&w, "status", f.Statuses)
	order := "id"
	if len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, broker.TaskStatus.Ended) {
		w.Add(openTasks)
		order = "id || ''" // else SQLite reads all tasks, in the order of their id
	}
	if f.After != "" {
		w.Add("id < ?", f.After)
	}
	atSites(&w, f.Sites)
	limit := cmp.Or(f.Limit, 100)
	page, err = sqlkit.Collect(ctx, db.reader(), scanTask,
		`SELECT `+taskColumns+` FROM tasks`+w.String()+` ORDER BY `+order+` DESC`+w.Limit(limit+1), w.Args...)
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	return page, next, err
}

// OpenTasksByKey counts the open tasks that each task key has signed: a key may leave the bundle
// only when its count is zero.
func (db *DB) OpenTasksByKey(ctx context.Context) (map[string]int, error) {
	return sqlkit.Count[string](ctx, db.reader(), `SELECT key_id, COUNT(*) FROM tasks WHERE `+openTasks+` GROUP BY key_id`)
}

// openTasks selects tasks that have not ended, as the index tasks_open requires.
const openTasks = `status IN ('queued', 'dispatched')`

// atSites restricts tasks to nodes at sites; an empty list adds no condition.
func atSites(w *sqlkit.Where, sites []string) {
	if len(sites) == 0 {
		return
	}
	nodes := sqlkit.Where{Args: w.Args}
	sqlkit.In(&nodes, "site", sites)
	w.Terms, w.Args = append(w.Terms, "node_id IN (SELECT id FROM nodes"+nodes.String()+")"), nodes.Args
}

// CountOpenTasks counts queued and dispatched tasks at sites (nil: all).
func (db *DB) CountOpenTasks(ctx context.Context, sites []string) (map[broker.TaskStatus]int, error) {
	w := sqlkit.Where{Terms: []string{openTasks}}
	atSites(&w, sites)
	return sqlkit.Count[broker.TaskStatus](ctx, db.reader(), `SELECT status, COUNT(*) FROM tasks`+w.String()+` GROUP BY status`, w.Args...)
}
