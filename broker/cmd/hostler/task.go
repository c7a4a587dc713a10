package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func taskCommand(a *app) *cobra.Command {
	return noun("task", "run tasks on nodes, and show their results", "  hostler task list --status failed",
		taskTypesCommand(a),
		taskDescribeCommand(a),
		taskEnqueueCommand(a),
		taskListCommand(a),
		taskShowCommand(a),
		taskArchiveCommand(a),
		taskProbeCommand(a),
		taskRecoverCommand(a),
		taskCancelCommand(a),
		taskWatchCommand(a),
	)
}

var taskHeads = []render.Column{
	render.ID("ID"), render.Keep("NODE"), render.Keep("TYPE"), render.Keep("STATUS"), render.Keep("VERDICT"),
	render.Aside("BY"), render.More("ISSUED"), render.Keep("CODE"),
}

func taskRow(a *app, t api.Task) []string {
	node := t.Hostname
	if node == "" {
		node = t.NodeID
	}
	return []string{t.ID, node, t.Type, t.Status, t.Verdict, t.EnqueuedBy, render.Ago(t.IssuedAt, a.now()), t.Code}
}

func taskListCommand(a *app) *cobra.Command {
	var f client.TaskFilter
	c := &cobra.Command{
		Use: "list", Short: "list tasks, newest first", Args: exactly(),
		Example: "  hostler task list --node gpu-07\n  hostler task list --status failed --type node.validate_clean -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Limit < 0 {
				return usage("--limit takes 0 (all) or a positive number")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			list, err := remote.Tasks(c.Context(), f)
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, t := range list.Items {
				ids, rows = append(ids, t.ID), append(rows, taskRow(a, t))
			}
			return a.show(list, ids, func(p *render.Page) {
				p.Table(taskHeads, rows)
				if len(rows) == 0 {
					a.note("no tasks")
				}
			})
		},
	}
	c.Flags().StringVar(&f.Node, "node", "", "only tasks of this `NODE`")
	c.Flags().StringVar(&f.Status, "status", "", "only tasks of this status, or of several separated by commas; open: not ended")
	c.Flags().StringVar(&f.Type, "type", "", "only tasks of this type")
	c.Flags().IntVar(&f.Limit, "limit", 100, "maximum number of tasks; 0: all")
	return c
}

func taskCancelCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "cancel TASK", Short: "cancel a task; a running task is asked to stop", Args: exactly("TASK"),
		Example: "  hostler task cancel TASK --reason 'wrong node'",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.Cancel(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			if err := a.show(t, []string{t.ID}, func(p *render.Page) { p.Table(taskHeads, [][]string{taskRow(a, *t)}) }); err != nil {
				return err
			}
			if !t.Ended {
				a.note("the node is asked to stop (hostler task watch %s)", t.ID)
			}
			return nil
		},
	}
	reasonFlag(c, &reason)
	return c
}

func taskWatchCommand(a *app) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch TASK", Short: "show a task's progress until it ends, then its result", Args: exactly("TASK"),
		Long: `Show a task's progress until it ends, then its result. The exit status is 0 only if
the task succeeded; the findings of an inspection are in the result.`,
		Example: "  hostler task watch TASK --timeout 30m",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.Task(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.watch(c.Context(), remote, t, timeout)
		},
	}
	timeoutFlag(c, &timeout)
	return c
}

func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// plural counts things in words.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
