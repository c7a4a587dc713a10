package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// onNodes makes a command that works on a NODE, or with --nodes on all nodes of a selector. If one
// node fails, the other nodes still get their turn, and the command fails in the end.
func onNodes(a *app, c *cobra.Command, run func(c *cobra.Command, remote *client.Client, nodes []api.Node) error) *cobra.Command {
	var selector string
	c.Flags().StringVar(&selector, "nodes", "", "many nodes, `SELECTOR`: all, NODE,NODE or key=value,key=value")
	c.Args = func(c *cobra.Command, args []string) error {
		if selector != "" {
			return exactly()(c, args)
		}
		return exactly("NODE")(c, args)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		remote, err := a.connect()
		if err != nil {
			return err
		}
		if selector == "" {
			n, err := remote.Node(c.Context(), args[0])
			if err != nil {
				return err
			}
			return run(c, remote, []api.Node{*n})
		}
		nodes, err := selectNodes(c.Context(), remote, selector)
		if err != nil {
			return err
		}
		return run(c, remote, nodes)
	}
	return c
}

// each calls do for every node and sums up the failures.
func (a *app) each(nodes []api.Node, do func(n api.Node) error) error {
	var first error
	failed := 0
	for _, n := range nodes {
		if err := do(n); err != nil {
			if len(nodes) > 1 {
				e := broker.AsError(err)
				a.note("%s: %s: %s", n.Hostname, e.Code, e.Message)
			}
			failed++
			first = errors.Join(first, err)
		}
	}
	if failed > 0 && len(nodes) > 1 {
		e := broker.AsError(first)
		return broker.Errorf(e.Kind, e.Code, "%d of %s failed: %s", failed, plural(len(nodes), "node"), e.Message)
	}
	return first
}

// showAll prints a single thing as itself, and several as a list.
func showAll[T any](a *app, list []T, names []string, page func(*render.Page)) error {
	if len(list) == 1 {
		return a.show(list[0], names, page)
	}
	return a.show(list, names, page)
}

// followAll waits for several tasks, one after the other, within one common timeout. Each task is
// replaced by its final state.
func (a *app) followAll(ctx context.Context, remote *client.Client, tasks []api.Task, timeout time.Duration) error {
	ctx, cancel := within(ctx, timeout)
	defer cancel()
	var all error
	for i := range tasks {
		left := time.Duration(0)
		if end, ok := ctx.Deadline(); ok {
			left = max(time.Until(end), time.Millisecond)
		}
		t, err := a.follow(ctx, remote, &tasks[i], left)
		if err != nil {
			return errors.Join(all, err)
		}
		tasks[i] = *t
		all = errors.Join(all, verdictOf(t))
	}
	return all
}
