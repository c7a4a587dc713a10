package plan

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// errTimeout is the cause of an attempt that has used up its time.
var errTimeout = errors.New("the time of the attempt is over")

// try makes one attempt of a step: Look decides, and Do works. An attempt that a former process began
// only looks. The error has the code of the row.
func (o *Operation) try(ctx context.Context, i int, args steps.Args, interrupted bool) (proof steps.Proof, err error) {
	s := &o.Plan.Steps[i]
	limit := time.Duration(s.TimeoutSeconds) * time.Second
	attempt, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	proof, err = o.within(ctx, attempt, func() (steps.Proof, error) { return o.call(attempt, s, o.prepare(i, args), interrupted) })
	if errors.Is(err, host.ErrStuck) {
		return steps.Proof{}, err
	}
	if err != nil && errors.Is(context.Cause(attempt), errTimeout) {
		err = taskcatalog.Errorf(taskcatalog.CodeStepTimeout, "the step did not end within %s: %v", limit, err)
	}
	if err == nil && o.leaks([]byte(proof.Output)) {
		err = taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "the step would give a secret to later steps as a text")
	}
	if err != nil && proof.Secret != nil {
		proof.Secret.Wipe()
		proof.Secret = nil
	}
	return proof, err
}

// answer is what an attempt has returned.
type answer struct {
	proof steps.Proof
	err   error
}

// within waits for an attempt, and for a grace after its time is over. When the task itself ends, its
// caller waits.
func (o *Operation) within(task, attempt context.Context, call func() (steps.Proof, error)) (steps.Proof, error) {
	answers := make(chan answer, 1)
	go func() {
		defer close(answers)
		proof, err := call()
		answers <- answer{proof, err}
	}()
	grace := make(<-chan time.Time)
	over := attempt.Done()
	for {
		select {
		case a, returned := <-answers:
			if !returned { // the code of the kind has ended its goroutine, and so ends this one
				runtime.Goexit()
			}
			return a.proof, a.err
		case <-over:
			over = nil
			timer := time.NewTimer(stopGrace)
			defer timer.Stop()
			grace = timer.C
		case <-grace:
			if task.Err() == nil {
				return steps.Proof{}, host.ErrStuck
			}
		}
	}
}

// stopGrace is how long an attempt has to stop after its time is over.
const stopGrace = 20 * time.Second

// call calls the code of the kind. A panic is an error, and the text of the panic is kept from the
// log: it may quote a secret.
func (o *Operation) call(ctx context.Context, s *taskcatalog.PlannedStep, st *steps.Step, interrupted bool) (proof steps.Proof, err error) {
	defer func() {
		if p := recover(); p != nil {
			o.Host.Log.Error("a step of an operation panicked", zap.String("step", s.ID), zap.String("kind", s.Kind),
				zap.ByteString("stack", debug.Stack()))
			err = taskcatalog.Errorf(taskcatalog.CodeHandlerPanicked, "the code of %s panicked (see the node's journal)", s.Kind)
		}
	}()
	kind, _ := o.Kinds(s.Kind)
	if kind.Look != nil {
		proof, done, err := kind.Look(ctx, st)
		if err == nil && done {
			return proof, nil
		}
		if ctx.Err() != nil {
			return steps.Proof{}, context.Cause(ctx)
		}
	}
	if interrupted {
		return steps.Proof{}, taskcatalog.Errorf(taskcatalog.CodeStepInterrupted, "the agent's process ended in the middle of the step")
	}
	proof, err = kind.Do(ctx, st)
	return proof, steps.FullDisk(err)
}

// prepare makes what the code of a kind gets.
func (o *Operation) prepare(i int, args steps.Args) *steps.Step {
	s := o.Plan.Steps[i]
	credential, _ := s.With["type"].Literal.(string)
	switch s.Kind {
	case "cluster.verify":
		credential = taskcatalog.CredentialClusterMembership
	case "cluster.leave":
		credential = taskcatalog.CredentialClusterLeave
	}
	return &steps.Step{
		PlannedStep: s, Plan: o.Plan, Host: o.Host, Args: args, Checkpoint: &checkpoint{o: o, step: s.ID},
		Progress: func(percent int, message string) { o.progress(i, percent, message) },
		Mint:     func(ctx context.Context) ([]byte, error) { return o.Mint(ctx, s.ID, credential) },
	}
}
