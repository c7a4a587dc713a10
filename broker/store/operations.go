package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// Types of events about operations. Their subject is operation/ID, and their data names no node.
const (
	OperationRequestedEvent = "operation.requested"
	OperationCompletedEvent = "operation.completed"
	OperationFailedEvent    = "operation.failed"
	OperationCanceledEvent  = "operation.canceled"
)

// operationEvents are the events of the statuses. Reaching running has no event.
var operationEvents = map[broker.OperationStatus]string{
	broker.OperationQueued: OperationRequestedEvent, broker.OperationSucceeded: OperationCompletedEvent,
	broker.OperationFailed: OperationFailedEvent, broker.OperationCanceled: OperationCanceledEvent,
}

// maxLiveOperations is how many operations of a project, or of the platform, may be queued or running.
const maxLiveOperations = 100

const operationColumns = `id, operation, definition_digest, organisation_id, project_id, requested_by, reason, target_kind, target_id,
	allocation_id, site, node_ids, safety, requires, trigger_source, idempotency_key, correlation_id, plan, status, attempt, run_id, code, message,
	canceled_by, cancel_reason, requested_at, started_at, ended_at, canary, batch_size, max_failures, batch, traceparent,
	members, width, batch_at`

// operationInList is operationColumns without the plan and the members, which may be long.
var operationInList = strings.NewReplacer(" plan,", " '{}',", " members,", " '[]',").Replace(operationColumns)

func scanOperation(row sqlkit.Row) (o broker.Operation, err error) {
	err = row.Scan(&o.ID, &o.Operation, &o.DefinitionDigest, &o.OrganisationID, &o.ProjectID, &o.RequestedBy, &o.Reason, &o.Target,
		&o.TargetID, &o.AllocationID, &o.Site, sqlkit.ScanJSON(&o.NodeIDs), &o.Safety, sqlkit.ScanJSON(&o.Requires), &o.Trigger,
		&o.IdempotencyKey, &o.CorrelationID, sqlkit.ScanJSON(&o.Plan), &o.Status, &o.Attempt, &o.RunID, &o.Code, &o.Message,
		&o.CanceledBy, &o.CancelReason, sqlkit.ScanMicros(&o.RequestedAt), sqlkit.ScanMicros(&o.StartedAt), sqlkit.ScanMicros(&o.EndedAt),
		&o.Batches.Canary, &o.Batches.Size, &o.Batches.MaxFailures, &o.Batch, &o.TraceParent,
		sqlkit.ScanJSON(&o.Members), new(int), sqlkit.ScanMicros(new(time.Time)))
	return o, err
}

func operation(ctx context.Context, r sqlkit.Runner, id, lock string) (broker.Operation, error) {
	o, err := scanOperation(r.QueryRowContext(ctx, `SELECT `+operationColumns+` FROM operations WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return o, broker.OperationNotFound(id)
	}
	return o, err
}

// Operation finds an operation by its id. Code: operation_not_found.
func (db *DB) Operation(ctx context.Context, id string) (broker.Operation, error) {
	return operation(ctx, db.reader(), id, "")
}

// ProjectOperation finds an operation of a project. One statement looks, so that another project's
// operation and one that never was get the same answer after the same time. Code: operation_not_found.
func (db *DB) ProjectOperation(ctx context.Context, projectID, id string) (broker.Operation, error) {
	o, err := scanOperation(db.reader().QueryRowContext(ctx,
		`SELECT `+operationColumns+` FROM operations WHERE id = $1 AND project_id = $2`, id, projectID))
	if errors.Is(err, sql.ErrNoRows) {
		return o, broker.OperationNotFound(id)
	}
	return o, err
}

// OperationFilter selects operations; an empty field adds no condition.
type OperationFilter struct {
	ProjectID    string
	Operation    string // a definition, or a type: then of any version
	AllocationID string // also of a group; name the project, too: no index begins with the allocation
	Statuses     []broker.OperationStatus
	From, To     time.Time // of the request; To is exclusive
	Sites        []string  // nil: all
	After        string    // cursor: the id of the last operation of the previous page
	Limit        int       // 0: 100
}

// Operations returns a page without plans, newest first, and the cursor of the next page ("" at the end).
func (db *DB) Operations(ctx context.Context, f OperationFilter) (page []broker.Operation, next string, err error) {
	var w sqlkit.Where
	w.Equal("project_id", f.ProjectID)
	if strings.Contains(f.Operation, "@") {
		w.Equal("operation", f.Operation)
	} else if f.Operation != "" {
		ofType(&w, f.Operation)
	}
	if f.AllocationID != "" {
		w.Add(`(allocation_id = ? OR members LIKE ? ESCAPE '!')`, f.AllocationID, `%"`+literally.Replace(f.AllocationID)+`"%`)
	}
	if !f.From.IsZero() {
		w.Add("requested_at >= ?", sqlkit.Micros(f.From))
	}
	if !f.To.IsZero() {
		w.Add("requested_at < ?", sqlkit.Micros(f.To))
	}
	sqlkit.In(&w, "status", f.Statuses)
	if f.Sites != nil {
		sqlkit.In(&w, "site", append([]string{""}, f.Sites...))
	}
	if f.After != "" {
		last, args := "id = ?", []any{f.After}
		if f.ProjectID != "" { // a project learns nothing from the id of another project's operation
			last, args = last+" AND project_id = ?", append(args, f.ProjectID)
		}
		w.Add("(requested_at, id) < (SELECT requested_at, id FROM operations WHERE "+last+")", args...)
	}
	limit := cmp.Or(f.Limit, 100)
	page, err = sqlkit.Collect(ctx, db.reader(), scanOperation,
		`SELECT `+operationInList+` FROM operations`+w.String()+` ORDER BY requested_at DESC, id DESC`+w.Limit(limit+1), w.Args...)
	if len(page) > limit {
		page, next = page[:limit], page[limit-1].ID
	}
	return page, next, err
}

// literally makes a text one that LIKE takes as it is.
var literally = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// ofType selects the versions of a type. LIKE would take the underscores of a name for any character.
func ofType(w *sqlkit.Where, name string) {
	w.Add("substr(operation, 1, ?) = ?", len(name)+1, name+"@")
}

// requestOperation stores an operation, in the transaction that starts its run.
func (t *tx) requestOperation(ctx context.Context, r chain.Record, o broker.Operation) error {
	if o.ProjectID != "" { // one after another, so that the count holds
		if _, err := t.liveProject(ctx, o.ProjectID, t.ForUpdate()); err != nil {
			return err
		}
	}
	var live int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM operations WHERE project_id = $1 AND ended_at = 0`, o.ProjectID).Scan(&live); err != nil {
		return err
	}
	if live >= maxLiveOperations && !o.Trigger.Bound() { // an allocation has one at most, and no member keeps it from beginning
		return broker.Errorf(broker.Refused, "operation_limit", "cannot begin an operation: %d are queued or running (wait until some have ended)", live)
	}
	if err := t.roomFor(ctx, o); err != nil {
		return err
	}
	if err := t.holdTarget(ctx, o, nil); err != nil {
		return err
	}
	o.Status, o.Attempt, o.RunID, o.RequestedAt = broker.OperationQueued, 1, r.ID, t.clock().UTC().Truncate(time.Microsecond)
	if _, err := t.ExecContext(ctx, `INSERT INTO operations (`+operationColumns+`) VALUES
		($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, '', '', '', '', $22, 0, 0, $23, $24, $25, 1, $26,
		$27, $28, 0)`,
		o.ID, o.Operation, o.DefinitionDigest, o.OrganisationID, o.ProjectID, o.RequestedBy, o.Reason, string(o.Target), o.TargetID,
		o.AllocationID, o.Site, sqlkit.JSON(o.NodeIDs), o.Safety, sqlkit.JSON(o.Requires), string(o.Trigger), o.IdempotencyKey,
		o.CorrelationID, sqlkit.JSON(o.Plan), string(o.Status), o.Attempt, o.RunID, sqlkit.Micros(o.RequestedAt),
		o.Batches.Canary, o.Batches.Size, o.Batches.MaxFailures, string(o.TraceParent), membersOf(o.Members), o.Width()); err != nil {
		return err
	}
	if err := t.tellOperation(ctx, o); err != nil {
		return err
	}
	after := []any{
		"operation", o.Operation, "definition_digest", o.DefinitionDigest, "project", o.ProjectID, "target", o.Target, "target_id", o.TargetID,
		"nodes", o.NodeIDs, "inputs_digest", o.Plan.InputsDigest, "run", o.RunID, "trace_id", o.TraceParent.TraceID(),
	}
	if len(o.PassedOver) > 0 {
		after = append(after, "passed_over", o.PassedOver)
	}
	return t.audit(ctx, broker.AuditEntry{
		Actor: o.RequestedBy, Action: "operation.request", Subject: "operation/" + o.ID, Reason: o.Reason, CorrelationID: o.CorrelationID,
		After: small(after...),
	})
}

// retryOperation queues an operation again, in the transaction that starts its new run.
func (t *tx) retryOperation(ctx context.Context, e broker.RetryOperation) error {
	o, err := operation(ctx, t, e.ID, t.ForUpdate())
	if err != nil {
		return err
	}
	entry := broker.AuditEntry{
		Actor: e.By, Action: "operation.retry", Subject: "operation/" + o.ID, Reason: e.Reason, CorrelationID: o.CorrelationID,
		Before: small("status", o.Status, "code", o.Code, "attempt", o.Attempt),
	}
	if err := broker.TransitionOperation(o, broker.OperationQueued, broker.OperationRequester); err != nil {
		return err
	}
	o.MostRunning = e.MostRunning
	if err := t.roomFor(ctx, o); err != nil {
		return err
	}
	if e.Signatures != nil {
		o.Plan.Signatures = e.Signatures
		if _, err := t.ExecContext(ctx, `UPDATE operations SET plan = $1 WHERE id = $2`, sqlkit.JSON(o.Plan), o.ID); err != nil {
			return err
		}
	}
	if err := t.holdTarget(ctx, o, e.Lost); err != nil {
		return err
	}
	o.Status, o.Attempt, o.RunID, o.StartedAt, o.EndedAt = broker.OperationQueued, o.Attempt+1, e.RunID, time.Time{}, time.Time{}
	o.Code, o.Message, o.CanceledBy, o.CancelReason, o.Batch, o.Members = "", "", "", "", 1, o.Unbegun()
	return t.saveOperation(ctx, o, entry)
}

// CancelOperation asks the run of an operation to end it. An operation whose run ended before it began, or is gone, ends
// here: ended. One that has ended, or was asked to end, stays as it is. Code: operation_not_found.
func (db *DB) CancelOperation(ctx context.Context, actor broker.Actor, id, reason string) (o broker.Operation, ended bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		ended = false
		if o, err = operation(ctx, t, id, t.ForUpdate()); err != nil || o.Status.Ended() {
			return err
		}
		r, err := run(ctx, t, o.RunID, "")
		no, refused := errors.AsType[*chain.Refused](err)
		gone := refused && no.Code == "run_not_found" // it was dropped as old
		over := gone || err == nil && r.Status.Ended()
		if err != nil && !gone || o.CanceledBy != "" && !over {
			return err
		}
		entry := broker.AuditEntry{
			Actor: actor.Name, Action: "operation.cancel", Subject: "operation/" + o.ID, Reason: reason, CorrelationID: o.CorrelationID,
			Before: small("status", o.Status),
		}
		o.CanceledBy, o.CancelReason = actor.Name, reason
		if !over {
			if _, err := t.ExecContext(ctx, `UPDATE operations SET canceled_by = $1, cancel_reason = $2 WHERE id = $3`, o.CanceledBy,
				o.CancelReason, o.ID); err != nil {
				return err
			}
			return t.audit(ctx, entry)
		}
		if err := broker.TransitionOperation(o, broker.OperationCanceled, broker.OperationWorker); err != nil {
			return err
		}
		o.Status, o.Code, o.EndedAt, ended = broker.OperationCanceled, string(taskcatalog.CodeCanceled), t.clock(), true
		return t.saveOperation(ctx, o, entry)
	})
	return o, ended && err == nil, err
}

// cancelOperationOf ends the operation of a run that a person ended before the run began: no stage does.
func (t *tx) cancelOperationOf(ctx context.Context, r chain.Record) error {
	if r.Kind != broker.OperationKind || !r.Status.Ended() {
		return nil
	}
	o, err := operation(ctx, t, strings.TrimPrefix(r.Subject, "operation/"), t.ForUpdate())
	if err != nil || o.RunID != r.ID || o.Status.Ended() {
		return err
	}
	entry := workerEntry(o)
	o.CanceledBy, o.CancelReason = r.AskedBy, r.AskedCause
	if err := broker.TransitionOperation(o, broker.OperationCanceled, broker.OperationWorker); err != nil {
		return err
	}
	o.Status, o.Code, o.EndedAt = broker.OperationCanceled, string(taskcatalog.CodeCanceled), t.clock()
	return t.saveOperation(ctx, o, entry)
}

// startOperation notes that the task of an operation is on its nodes.
func (t *tx) startOperation(ctx context.Context, r chain.Record, id string) error {
	o, err := t.operationOf(ctx, r, id)
	if err != nil || o.Status == broker.OperationRunning {
		return err
	}
	if err := broker.TransitionOperation(o, broker.OperationRunning, broker.OperationWorker); err != nil {
		return err
	}
	entry := workerEntry(o)
	o.Status, o.StartedAt = broker.OperationRunning, t.clock()
	return t.saveOperation(ctx, o, entry)
}

// endOperation ends an operation with the rows of its steps.
func (t *tx) endOperation(ctx context.Context, r chain.Record, e broker.EndOperation) error {
	o, err := t.operationOf(ctx, r, e.ID)
	if err != nil {
		return err
	}
	entry := workerEntry(o)
	o.Code, o.Message, o.Members = e.Code, e.Message, e.Members
	if err := broker.TransitionOperation(o, e.To, broker.OperationWorker); err != nil {
		return err
	}
	o.Status, o.EndedAt = e.To, t.clock()
	if err := t.saveSteps(ctx, o, e.Steps); err != nil {
		return err
	}
	if err := t.saveStatement(ctx, o, e.Statement, e.Receipt); err != nil {
		return err
	}
	return t.saveOperation(ctx, o, entry)
}

// operationOf locks the operation of a run. The run of an earlier attempt changes nothing.
func (t *tx) operationOf(ctx context.Context, r chain.Record, id string) (broker.Operation, error) {
	o, err := operation(ctx, t, id, t.ForUpdate())
	if err == nil && o.RunID != r.ID {
		err = broker.Errorf(broker.Refused, "operation_retried", "cannot change operation %s by run %s: run %s carries it out now", o.ID, r.ID, o.RunID)
	}
	return o, err
}

func workerEntry(o broker.Operation) broker.AuditEntry {
	return broker.AuditEntry{
		Actor: broker.System.Name, Action: "operation.transition", Subject: "operation/" + o.ID, CorrelationID: o.CorrelationID,
		Before: small("status", o.Status),
	}
}

func (t *tx) saveOperation(ctx context.Context, o broker.Operation, e broker.AuditEntry) error {
	if _, err := t.ExecContext(ctx, `UPDATE operations SET status = $1, attempt = $2, run_id = $3, code = $4, message = $5, started_at = $6,
		ended_at = $7, canceled_by = $8, cancel_reason = $9, batch = $10, members = $11,
		batch_at = CASE WHEN batch = $10 AND started_at = $6 THEN batch_at ELSE $6 END WHERE id = $12`,
		string(o.Status), o.Attempt, o.RunID, o.Code, o.Message, sqlkit.Micros(o.StartedAt), sqlkit.Micros(o.EndedAt), o.CanceledBy,
		o.CancelReason, o.Batch, membersOf(o.Members), o.ID); err != nil {
		return err
	}
	if err := t.tellOperation(ctx, o); err != nil {
		return err
	}
	e.Code, e.After = o.Code, small("status", o.Status, "attempt", o.Attempt, "run", o.RunID, "message", o.Message)
	return t.audit(ctx, e)
}

// tellOperation announces a status of an operation.
func (t *tx) tellOperation(ctx context.Context, o broker.Operation) error {
	typ, announced := operationEvents[o.Status]
	if !announced {
		return nil
	}
	return t.send(ctx, told{
		Site: o.Site, CorrelationID: o.CorrelationID,
		Message: chain.Message{Type: typ, Subject: "operation/" + o.ID, Data: map[string]any{
			"operation_id": o.ID, "operation": o.Operation, "organisation_id": o.OrganisationID, "project_id": o.ProjectID,
			"target": o.Target, "allocation_id": o.AllocationID, "group": o.Group(), "status": o.Status, "attempt": o.Attempt,
			"code": o.Code, "correlation_id": o.CorrelationID, "trace_id": o.TraceParent.TraceID(), "by": o.RequestedBy,
		}},
	})
}
