package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// Operation is one task of an operation on its host.
type Operation struct {
	Plan    *taskcatalog.OperationPlan
	TaskID  string
	Host    *host.Host
	Journal host.Operations
	// Kinds finds the code of a kind: steps.Lookup.
	Kinds func(name string) (steps.Kind, bool)
	// Progress reports the step, its index (from 1) of total, the percent done of the step, and a short
	// message. It never blocks.
	Progress func(step string, index, total, percent int, message string)
	// Mint asks the broker for the credential of a step.
	Mint func(ctx context.Context, step, credentialType string) ([]byte, error)
	// Pause waits between two attempts: host.Wait.
	Pause func(ctx context.Context, d time.Duration) error

	mu      sync.Mutex // guards record: steps save their checkpoints
	record  host.OperationRecord
	outputs map[string]string // by step
	digests map[string]string // by step
	secrets map[string]*steps.Secret
}

// Do carries the plan out, or goes on where an earlier process stopped. It returns the rows of all
// attempts even with an error. A plan that Check refuses has no result and touches nothing.
// host.ErrUnfinished: the agent stops, and its next process calls Do again.
func (o *Operation) Do(ctx context.Context) (result *taskcatalog.OperationResult, report taskcatalog.Report, err error) {
	refused := Check(o.Plan, o.Kinds)
	o.outputs, o.digests, o.secrets = map[string]string{}, map[string]string{}, map[string]*steps.Secret{}
	if err := o.load(); err != nil {
		return nil, report, err
	}
	if refused != nil && len(o.record.Rows) == 0 {
		return nil, report, refused
	}
	defer func() {
		o.abandon()
		result = &taskcatalog.OperationResult{
			OperationID: o.Plan.OperationID, Operation: o.Plan.Operation,
			DefinitionDigest: o.Plan.DefinitionDigest, InputsDigest: o.Plan.InputsDigest,
			Steps: []taskcatalog.OperationStep{}, Wiped: o.wipe(&report),
		}
		for _, row := range o.record.Rows {
			result.Steps = append(result.Steps, row.OperationStep)
		}
	}()
	if refused != nil { // the agent that began the task was another version
		return nil, report, refused
	}
	for i := range o.Plan.Steps {
		if err := o.step(ctx, i); err != nil {
			return nil, report, err
		}
	}
	return nil, report, nil
}

// step runs a step unless the journal proves it done.
func (o *Operation) step(ctx context.Context, i int) error {
	s := &o.Plan.Steps[i]
	digest, err := o.digestOf(s)
	if err != nil {
		return err
	}
	o.digests[s.ID] = digest
	done, known := o.record.Done[s.ID]
	here := done.TaskID == o.TaskID
	if !known || done.Digest != digest || s.Rerun && !here {
		return o.carryOut(ctx, i)
	}
	if !here {
		if still, err := o.stillDone(ctx, i); err != nil {
			return err
		} else if !still {
			return o.carryOut(ctx, i)
		}
	}
	o.outputs[s.ID] = done.Row.Output
	if !here && len(o.rowsOf(s.ID)) == 0 {
		row := done.Row
		row.Earlier = true
		o.record.Rows = append(o.record.Rows, host.OperationRow{OperationStep: row})
	}
	return nil
}

// stillDone reports whether the node still proves what an earlier task did, for a kind that proves it.
// It mints no secret: a proof needs none.
func (o *Operation) stillDone(ctx context.Context, i int) (bool, error) {
	s := &o.Plan.Steps[i]
	kind, _ := o.Kinds(s.Kind)
	if rows := o.rowsOf(s.ID); kind.Look != nil && len(rows) > 0 {
		return rows[0].Earlier, nil // this task has looked, and a former process of the agent may have begun the step
	}
	if kind.Look == nil || kind.Event != nil && kind.Event(s) {
		return true, nil
	}
	if err := ended(ctx); err != nil {
		return false, err
	}
	_, err := o.try(ctx, i, o.public(s), true) // only looks
	if errors.Is(err, host.ErrStuck) {
		return false, err
	}
	return err == nil, ended(ctx)
}

// maxPause is the greatest pause between two attempts.
const maxPause = 30 * time.Second

// carryOut tries a step until it is done or has used up its attempts.
func (o *Operation) carryOut(ctx context.Context, i int) error {
	s := &o.Plan.Steps[i]
	if err := ended(ctx); err != nil {
		return err
	}
	if done, err := o.begun(ctx, i); done || err != nil {
		return err
	}
	// A former task has minted the secret, and this task needs it again.
	o.record.Rows = slices.DeleteFunc(o.record.Rows, func(r host.OperationRow) bool { return r.ID == s.ID && r.Earlier })
	for {
		if fault := o.spent(s); fault != nil {
			return fault
		}
		if err := o.pause(ctx, s); err != nil {
			return err
		}
		args, err := o.bind(ctx, s)
		if err != nil {
			return err
		}
		if err := o.begin(s); err != nil {
			return err
		}
		o.progress(i, 0, "")
		proof, err := o.try(ctx, i, args, false)
		if err == nil {
			return o.succeed(s, proof)
		}
		if err := o.failed(ctx, s, proof, err); err != nil {
			return err
		}
	}
}

// begun looks at what a former process began, before a secret is minted again: a cluster gives a node
// that has joined no second one. It reports whether the node proves the step done. Otherwise an attempt
// that was open has failed.
func (o *Operation) begun(ctx context.Context, i int) (done bool, err error) {
	s := &o.Plan.Steps[i]
	kind, _ := o.Kinds(s.Kind)
	open := o.isOpen(s.ID)
	if !open && (kind.Look == nil || len(o.record.Checkpoints[s.ID]) == 0 || o.minted(s)) {
		return false, nil
	}
	if open {
		o.progress(i, 0, "")
	}
	proof, err := o.try(ctx, i, o.public(s), true)
	switch {
	case err == nil && !open:
		if err := o.begin(s); err != nil {
			return false, err
		}
		return true, o.succeed(s, proof)
	case err == nil:
		return true, o.succeed(s, proof)
	case open:
		return false, o.failed(ctx, s, proof, err)
	case errors.Is(err, host.ErrStuck):
		return false, err
	}
	return false, ended(ctx)
}

// failed records that the open attempt has failed. The error says that the step has no further attempt
// now: the attempt is stuck, or the task ends.
func (o *Operation) failed(ctx context.Context, s *taskcatalog.PlannedStep, proof steps.Proof, why error) error {
	if errors.Is(why, host.ErrStuck) {
		return why // the row stays open
	}
	if stopped := ended(ctx); errors.Is(stopped, host.ErrUnfinished) {
		return stopped // the row stays open
	}
	return o.fail(ctx, s, proof, why)
}

// pause waits before every attempt but the first.
func (o *Operation) pause(ctx context.Context, s *taskcatalog.PlannedStep) error {
	failed := o.failures(s.ID)
	if failed == 0 {
		return nil
	}
	if err := o.Pause(ctx, min(time.Second<<(failed-1), maxPause)); err != nil {
		return ended(ctx)
	}
	return nil
}

// ended returns why no step may begin, or nil.
func ended(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return nil
	case errors.Is(cause, host.ErrStopping):
		return host.ErrUnfinished
	default:
		return cause
	}
}

// spent returns why a step may not be tried again, or nil.
func (o *Operation) spent(s *taskcatalog.PlannedStep) error {
	rows := o.rowsOf(s.ID)
	if len(rows) == 0 {
		return nil
	}
	last := rows[len(rows)-1]
	switch failed := o.failures(s.ID); {
	case last.Status == taskcatalog.StepFailed && steps.Final(last.ErrorCode):
		return taskcatalog.Errorf(last.ErrorCode, "step %s (%s) has failed: %s", s.ID, s.Kind, last.Message)
	case failed >= s.Attempts:
		return taskcatalog.Errorf(taskcatalog.CodeStepFailed, "step %s (%s) has failed, and %s: %s: %s",
			s.ID, s.Kind, attempts(s.Attempts), last.ErrorCode, last.Message)
	case len(rows) >= maxRows:
		return taskcatalog.Errorf(taskcatalog.CodeStepFailed, "step %s (%s) has run %d times: the agent restarts too often", s.ID, s.Kind, len(rows))
	}
	return nil
}

func attempts(n int) string {
	if n == 1 {
		return "its one attempt is used up"
	}
	return fmt.Sprintf("its %d attempts are used up", n)
}

func (o *Operation) progress(i, percent int, message string) {
	if o.Progress != nil {
		s := &o.Plan.Steps[i]
		o.Progress(s.ID, i+1, len(o.Plan.Steps), percent, o.hide(s, message))
	}
}
