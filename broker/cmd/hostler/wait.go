package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// tick is how often an idle live line is redrawn, and the pause after an answer of the broker
// without news.
const tick = time.Second

func waitFlags(c *cobra.Command, wait *bool, timeout *time.Duration) {
	c.Flags().BoolVar(wait, "wait", false, "wait until the task has ended, and show its progress")
	timeoutFlag(c, timeout)
}

func timeoutFlag(c *cobra.Command, timeout *time.Duration) {
	c.Flags().DurationVar(timeout, "timeout", 0, "longest time to wait, then exit status 5 (0: no limit)")
}

// follow waits until the task has ended and shows its progress. An interrupt stops only the
// waiting.
func (a *app) follow(ctx context.Context, remote *client.Client, t *api.Task, timeout time.Duration) (*api.Task, error) {
	begin := a.now()
	p := a.progress()
	defer p.done()
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	for !t.Ended {
		p.task(t, render.Span(a.now().Sub(begin)))
		hold := api.MaxWait * time.Second
		if p.live {
			hold = tick
		}
		asked := time.Now()
		next, err := remote.Follow(waiting, t.ID, t.Progress, hold)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return nil, timedOut("task %s is still %s after %s (it continues: hostler task watch %s)", t.ID, t.Status, timeout, t.ID)
		case ctx.Err() != nil:
			return nil, broker.Errorf(broker.Internal, "interrupted",
				"stopped waiting for task %s (it continues: hostler task watch %s, hostler task cancel %s)", t.ID, t.ID, t.ID)
		case err != nil:
			return nil, err
		}
		if sameProgress(t, next) && !next.Ended {
			pause(waiting, tick-time.Since(asked))
		}
		t = next
	}
	if !p.live {
		p.task(t, "")
	}
	return t, nil
}

func sameProgress(a, b *api.Task) bool {
	if a.Progress == nil || b.Progress == nil {
		return a.Progress == b.Progress && a.Status == b.Status
	}
	return a.Progress.At.Equal(b.Progress.At) && a.Status == b.Status
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refusals are the codes with which a node refuses a task before the node changes anything.
var refusals = []taskcatalog.Code{
	taskcatalog.CodeNotAllowed, taskcatalog.CodeCapabilityMissing, taskcatalog.CodeAllocationPresent, taskcatalog.CodeNodeDraining,
}

// verdictOf is the error of a task that did not succeed. Findings of a check are not failures of
// the check.
func verdictOf(t *api.Task) error {
	if t.Status == string(broker.TaskSucceeded) {
		return nil
	}
	kind := broker.Internal
	if t.Outcome == string(taskcatalog.OutcomeRefused) || slices.Contains(refusals, taskcatalog.Code(t.Code)) {
		kind = broker.Refused
	}
	code, text := t.Code, t.Message
	if code == "" {
		code = t.Status
	}
	if text == "" {
		text = "no reason is given"
	}
	return broker.Errorf(kind, code, "task %s ended %s: %s (see hostler task show %s)", t.ID, t.Status, text, t.ID)
}
