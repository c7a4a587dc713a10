package host

import (
	"context"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Run is a running task on a host.
type Run struct {
	Task   *taskcatalog.Task
	Params any // a pointer to the type's params
	Host   *Host
	// Progress reports the step, its index (from 1) of total, the percent done of the step, and a
	// short message. Progress never blocks and may be nil.
	Progress func(step string, index, total, percent int, message string)
	// Mint asks the broker for a secret that the task may have, once per attempt. The
	// caller overwrites the secret after use.
	Mint func(ctx context.Context, credentialType string) ([]byte, error)
	// MintStep asks the broker for the secret of a step of an operation's plan. Each call gets a fresh
	// one.
	MintStep func(ctx context.Context, step, credentialType string) ([]byte, error)
	// Began is when the task started on this node.
	Began time.Time
}

// Step reports the start of a step.
func (r *Run) Step(name string, index, total int) {
	if r.Progress != nil {
		r.Progress(name, index, total, 0, "")
	}
}

// Wait waits for d, or returns the context's cause when the context ends first.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
