package plan

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// maxRows is how often one step can run in a task: its attempts, and a secret once more after a
// restart. The schema of the result has room for them.
const maxRows = 11

// maxMessage bounds the message of a row, in bytes: a result has hundreds.
const maxMessage = 300

// load reads the record of the operation. Rows of a former task are left behind.
func (o *Operation) load() error {
	r, _, err := o.Journal.Operation(o.Plan.OperationID)
	if err != nil {
		return err
	}
	if r.TaskID != o.TaskID {
		r.TaskID, r.Rows = o.TaskID, nil
	}
	if r.Done == nil {
		r.Done = map[string]host.StepDone{}
	}
	if r.Checkpoints == nil {
		r.Checkpoints = map[string][]byte{}
	}
	o.record = r
	return nil
}

func (o *Operation) save() error { return o.Journal.PutOperation(o.Plan.OperationID, o.record) }

func (o *Operation) rowsOf(step string) (rows []host.OperationRow) {
	for _, r := range o.record.Rows {
		if r.ID == step {
			rows = append(rows, r)
		}
	}
	return rows
}

// failures counts the attempts of a step that are used up.
func (o *Operation) failures(step string) (n int) {
	for _, r := range o.rowsOf(step) {
		if r.Status == taskcatalog.StepFailed {
			n++
		}
	}
	return n
}

// isOpen reports whether a former process began an attempt of the step, and did not record its end.
func (o *Operation) isOpen(step string) bool {
	return slices.ContainsFunc(o.record.Rows, func(r host.OperationRow) bool { return r.ID == step && r.Open })
}

// begin records that an attempt begins.
func (o *Operation) begin(s *taskcatalog.PlannedStep) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	row := host.OperationRow{StartedAt: o.Host.Now().UTC(), Open: true}
	row.ID, row.StepKind, row.AttemptNumber = s.ID, s.Kind, len(o.rowsOf(s.ID))+1
	o.record.Rows = append(o.record.Rows, row)
	err := o.save()
	if err != nil { // it does not begin
		o.record.Rows = o.record.Rows[:len(o.record.Rows)-1]
	}
	return err
}

// succeed records that the open attempt has proven the step done.
func (o *Operation) succeed(s *taskcatalog.PlannedStep, proof steps.Proof) error {
	o.outputs[s.ID] = proof.Output
	if proof.Secret != nil {
		o.secrets[s.ID] = proof.Secret
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	row := o.end(s, proof, proof.Message)
	row.Status = taskcatalog.StepSucceeded
	if proof.Nothing {
		row.Status = taskcatalog.StepSkipped
	}
	row.Output, row.Digest, row.Bytes = proof.Output, proof.Digest, proof.Bytes
	o.record.Done[s.ID] = host.StepDone{Digest: o.digests[s.ID], TaskID: o.TaskID, Row: row.OperationStep}
	if kind, _ := o.Kinds(s.Kind); !kind.Keeps {
		delete(o.record.Checkpoints, s.ID)
	}
	return o.save()
}

// fail records that the open attempt has failed, or was ended. It returns why the operation ends; nil:
// the step may have another attempt.
func (o *Operation) fail(ctx context.Context, s *taskcatalog.PlannedStep, proof steps.Proof, why error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	row := o.end(s, proof, why.Error())
	row.Status, row.ErrorCode = taskcatalog.StepFailed, taskcatalog.CodeOf(why, taskcatalog.CodeHandlerFailed)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		row.ErrorCode = taskcatalog.CodeDeadlineExceeded
	case ctx.Err() != nil:
		row.Status, row.ErrorCode = taskcatalog.StepCanceled, taskcatalog.CodeCanceled
	}
	return errors.Join(o.save(), context.Cause(ctx))
}

// end closes the open row of a step.
func (o *Operation) end(s *taskcatalog.PlannedStep, proof steps.Proof, message string) *host.OperationRow {
	i := slices.IndexFunc(o.record.Rows, func(r host.OperationRow) bool { return r.ID == s.ID && r.Open })
	row := &o.record.Rows[i]
	row.Open = false
	row.ResolvedProfile, row.HardwareMatch = taskcatalog.Clean(proof.Profile, 128), taskcatalog.Clean(proof.Match, 128)
	row.DurationMS = max(o.Host.Now().Sub(row.StartedAt), 0).Milliseconds()
	row.Message = taskcatalog.Clean(o.hide(s, message), maxMessage)
	return row
}

// abandon closes rows that nobody goes on with in this process: what they wait for has failed, or the
// task has ended. The journal keeps them open, for the case that the agent's next process goes on.
func (o *Operation) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.record.Rows {
		if row := &o.record.Rows[i]; row.Open {
			row.Open, row.Status, row.ErrorCode = false, taskcatalog.StepFailed, taskcatalog.CodeStepInterrupted
			row.Message = "the agent's process ended in the middle of the step, and the task ended before the step could go on"
		}
	}
}
