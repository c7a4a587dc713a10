package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func taskProbeCommand(a *app) *cobra.Command {
	var reason string
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "probe TASK", Short: "ask a node for the outcome of a task, and for the present state", Args: exactly("TASK"),
		Long: `Ask the node what its ledger records about a task, whether the task runs at this
moment, and what the machine shows of its result. The probe is a task of its own,
and changes nothing.`,
		Example: "  hostler task probe TASK --wait",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.ProbeTask(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			if wait {
				return a.watch(c.Context(), remote, t, timeout)
			}
			return a.showEnqueued(t)
		},
	}
	reasonFlag(c, &reason)
	waitFlags(c, &wait, &timeout)
	return c
}

func taskRecoverCommand(a *app) *cobra.Command {
	var reason string
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "recover TASK --reason R", Short: "repeat a task whose outcome is unknown", Args: exactly("TASK"),
		Long: `Repeat a task that was interrupted, or whose outcome is unknown, within a day of its
end. Within the last minutes the node must have reported (hostler task probe) that
it neither runs the task nor has done it. A task is repeated once, however often it
is recovered. A task that a run asked for is recovered by the run.`,
		Example: "  hostler task probe TASK --wait\n  hostler task recover TASK --reason 'the agent was killed in the middle' --wait",
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return usage("task recover needs --reason")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			was, err := remote.Task(c.Context(), args[0])
			if err != nil {
				return err
			}
			if was.Class == string(taskcatalog.ClassDestructive) && !saidYes(c) {
				if err := a.confirm(c, "run %s on node %s again? It may destroy a tenant's data.", was.Type, nodeName(*was)); err != nil {
					return err
				}
			}
			t, err := remote.RecoverTask(c.Context(), was.ID, reason)
			if err != nil {
				return err
			}
			if wait {
				return a.watch(c.Context(), remote, t, timeout)
			}
			return a.showEnqueued(t)
		},
	}
	reasonFlag(c, &reason)
	yesFlag(c)
	waitFlags(c, &wait, &timeout)
	return c
}

// showEnqueued shows a task that was just enqueued.
func (a *app) showEnqueued(t *api.Task) error {
	if err := a.show(t, []string{t.ID}, func(p *render.Page) { p.Table(taskHeads, [][]string{taskRow(a, *t)}) }); err != nil {
		return err
	}
	a.note("task %s is %s (hostler task watch %s)", t.ID, t.Status, t.ID)
	return nil
}
