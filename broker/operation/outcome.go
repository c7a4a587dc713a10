package operation

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// mostRows bounds the rows of a task's result, as the schema of the result does.
const mostRows = 704

// outcome judges the ended tasks of the run. The first failure by the order of the nodes is the
// operation's.
func (c *Chains) outcome(ctx context.Context, r *run, o broker.Operation) (broker.EndOperation, error) {
	end := broker.EndOperation{ID: o.ID, Operation: o.Operation, To: broker.OperationSucceeded}
	fail := func(code, message string) {
		if end.To == broker.OperationSucceeded {
			end.To, end.Code, end.Message = broker.OperationFailed, code, taskcatalog.Clean(message, 500)
		}
	}
	switch {
	case r.State.Code != "":
		fail(r.State.Code, r.State.Message)
	case r.State.Stopped != "":
		fail(broker.OperationBatchStopped, r.State.Stopped)
	}
	ended, parts := map[string]string{}, partsOf(o)
	for at, node := range r.State.rest(o) {
		if r.State.untouched(o, at) {
			continue
		}
		all, err := c.Records.Tasks(ctx, node, r.ID)
		if err != nil {
			return end, taskstage.Records(err)
		}
		if len(all) == 0 {
			fail(broker.OperationIncomplete, "node "+node+" has no task")
			continue
		}
		k := all[0] // a run gives a node one task
		rows := Rows(o, k)
		for i := range rows {
			rows[i].Place = slices.Index(o.NodeIDs, node)
		}
		end.Steps = append(end.Steps, rows...)
		code, message := judge(o, k, rows)
		if r.State.Ended[node] == broker.OperationTargetGone {
			code, message = broker.OperationTargetGone, "a task ran on node "+node+", and "+lostMember(parts[node])+" any more"
		}
		if ended[node] = code; code != "" {
			fail(code, message)
		}
	}
	end.Members, end.Skipped = r.State.members(o, ended), r.State.Skipped
	return end, nil
}

// judge says why an ended task did not carry the operation out; an empty code: it did.
func judge(o broker.Operation, k broker.Task, rows []broker.OperationStep) (code, message string) {
	if f, failed := errors.AsType[*chain.Failure](taskstage.Judge(k, chain.Class(broker.InputConfigError))); failed {
		return cmp.Or(f.Code, string(k.Code)), f.Message
	}
	if step := missing(o.Plan, rows); step != "" {
		return broker.OperationIncomplete, "task " + k.ID + " of node " + k.NodeID + " ended well, and its result does not say that step " + step + " did"
	}
	return "", ""
}

// Rows are the rows that a task reported, cleaned. A row of no step of the plan, or of no known status, is
// left out.
func Rows(o broker.Operation, k broker.Task) []broker.OperationStep {
	result, err := taskcatalog.ReadOperationResult(k.Result)
	if err != nil { // also of a task without a result
		return nil
	}
	var rows []broker.OperationStep
	for _, s := range result.Steps[:min(len(result.Steps), mostRows)] {
		i := slices.IndexFunc(o.Plan.Steps, func(p taskcatalog.PlannedStep) bool { return p.ID == s.ID })
		if i < 0 || !slices.Contains(statuses, s.Status) {
			continue
		}
		s.StepKind = o.Plan.Steps[i].Kind
		s.ResolvedProfile, s.HardwareMatch = taskcatalog.Clean(s.ResolvedProfile, 128), taskcatalog.Clean(s.HardwareMatch, 256)
		s.ErrorCode, s.Message = taskcatalog.Code(taskcatalog.Clean(string(s.ErrorCode), 64)), taskcatalog.Clean(s.Message, 1024)
		s.Digest, s.Output = taskcatalog.Clean(s.Digest, 71), ""
		s.AttemptNumber, s.DurationMS, s.Bytes = max(s.AttemptNumber, 0), max(s.DurationMS, 0), max(s.Bytes, 0)
		rows = append(rows, broker.OperationStep{OperationID: o.ID, Task: o.Attempt, Seq: len(rows), OperationStep: s})
	}
	return rows
}

var statuses = []taskcatalog.StepStatus{
	taskcatalog.StepSucceeded, taskcatalog.StepFailed, taskcatalog.StepSkipped, taskcatalog.StepCanceled,
}

// missing is the first step of a plan whose last row is not a good one; empty: none.
func missing(p taskcatalog.OperationPlan, rows []broker.OperationStep) string {
	good := map[string]bool{}
	for _, s := range rows {
		good[s.ID] = s.Status == taskcatalog.StepSucceeded || s.Status == taskcatalog.StepSkipped
	}
	for _, s := range p.Steps {
		if !good[s.ID] {
			return s.ID
		}
	}
	return ""
}
