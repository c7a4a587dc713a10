package main

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// commandPatience is how long to wait for the install commands without --wait.
const commandPatience = 2 * time.Minute

// adoptions are runs whose install commands are printed as soon as they have a node.
type adoptions struct {
	*app
	api        *client.Client
	run, batch string // only one is set
	ttl        int64
	wait       bool
	timeout    time.Duration

	seen  map[string]bool // runs that are finished here
	boots []api.NodeBootstrap
	many  int
}

// follow prints the install commands, and then waits for the end if asked to.
func (w *adoptions) follow(ctx context.Context, ids []string) error {
	if w.quiet && w.output == "table" {
		if err := w.show(nil, ids, nil); err != nil || !w.wait {
			return err
		}
		return w.end(ctx)
	}
	w.many = len(ids)
	patience := commandPatience
	if w.wait {
		patience = w.timeout
	}
	waiting, cancel := within(ctx, patience)
	defer cancel()
	for {
		runs, err := w.runs(waiting)
		if err == nil {
			err = w.give(waiting, runs)
		}
		switch {
		case ctx.Err() != nil:
			return broker.Errorf(broker.Internal, "interrupted",
				"stopped waiting for the install commands (the runs continue: see hostler onboarding list; hostler node token issue NODE prints a command)")
		case waiting.Err() != nil:
			return timedOut("%d of %s have no node yet (their runs continue: see hostler onboarding list; hostler node token issue NODE prints an install command)", len(runs)-len(w.seen), plural(len(runs), "machine"))
		case err != nil:
			return err
		}
		if len(w.seen) == len(runs) || !w.wait && full(runs) {
			break
		}
		pause(waiting, tick)
	}
	if w.output != "table" {
		if err := w.showBoots(); err != nil {
			return err
		}
	}
	return w.end(ctx)
}

func (w *adoptions) runs(ctx context.Context) ([]api.Onboarding, error) {
	if w.batch != "" {
		l, err := w.api.Onboardings(ctx, client.OnboardingFilter{RunFilter: client.RunFilter{Batch: w.batch}})
		if err != nil {
			return nil, err
		}
		return l.Items, nil
	}
	o, err := w.api.Onboarding(ctx, w.run)
	if err != nil {
		return nil, err
	}
	return []api.Onboarding{o.Onboarding}, nil
}

// full reports whether all runs that have not begun wait for a place in their batch.
func full(runs []api.Onboarding) bool {
	waits := false
	for _, o := range runs {
		if bound(o) {
			waits = true
		} else if !stopped(o) && o.Status != "pending" {
			return false
		}
	}
	return waits
}

// bound reports whether a run has a node that waits for its agent.
func bound(o api.Onboarding) bool {
	return o.NodeID != nil && o.Status == "running" && o.Direction == "forward" && o.CurrentStage == "wait_for_agent_enrollment"
}

func stopped(o api.Onboarding) bool { return o.Ended || strings.HasPrefix(o.Status, "failed_") }

// give prints the install commands of runs that have a node.
func (w *adoptions) give(ctx context.Context, runs []api.Onboarding) error {
	for _, o := range runs {
		switch {
		case w.seen[o.OnboardingID]:
		case stopped(o):
			w.seen[o.OnboardingID] = true
			if o.ErrorCode != "" && !w.wait && w.many > 1 {
				w.note("%s (%s): %s: %s", o.OnboardingID, o.Hostname, o.ErrorCode, o.ErrorMessage)
			}
		case bound(o):
			boot, err := w.api.IssueToken(ctx, *o.NodeID, api.TokenRequest{
				TTLSeconds: w.ttl,
				Reason:     "install command of " + o.OnboardingID,
			})
			if err != nil {
				return err
			}
			w.seen[o.OnboardingID] = true
			if w.boots = append(w.boots, *boot); w.output != "table" {
				continue
			}
			if w.many > 1 {
				w.note("on %s:", boot.Node.Hostname)
			}
			if err := w.showBootstrap(boot, "to be installed"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *adoptions) showBoots() error {
	if w.run != "" && len(w.boots) == 1 {
		return w.show(w.boots[0], nil, nil)
	}
	return w.show(w.boots, nil, nil)
}

// end says how to continue, or waits for the end.
func (w *adoptions) end(ctx context.Context) error {
	if w.wait {
		if w.batch != "" {
			return onboardings.watchBatch(w.app, ctx, w.api, w.batch, w.timeout)
		}
		return w.watchOnboarding(ctx, w.api, w.run, w.timeout)
	}
	if w.batch != "" {
		if more := w.many - len(w.seen); more > 0 {
			w.note("not started yet: %s (once a machine has a node, hostler node token issue NODE prints its install command)",
				plural(more, "machine"))
		}
		w.note("the batch continues by itself (hostler onboarding list --batch %s)", w.batch)
		return nil
	}
	o, err := w.api.Onboarding(ctx, w.run)
	if err != nil {
		return err
	}
	if stopped(o.Onboarding) {
		return onboardingEnd(o.Onboarding)
	}
	w.note("the run continues by itself after the command was run on the machine (hostler onboarding watch %s)", w.run)
	return nil
}
