package main

import (
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func taskEnqueueCommand(a *app) *cobra.Command {
	var order api.TaskCreate
	var pairs []string
	var file string
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "enqueue NODE TYPE [-p key=value …]",
		Short: "ask a node to run a task",
		Long: `Ask a node to run a task. TYPE is a name, or name@version; hostler task describe
TYPE says what it takes.

A param is converted as the type's schema says. A list takes one element from
each -p of its name, or a whole list as JSON: -p 'scratch=["/share*"]'.

An idempotency key makes a repeat harmless: the same key with the same type and
params answers the task that is there. Without one, each call is a new task.`,
		Example: "  hostler task enqueue gpu-07 node.validate_clean --wait\n  hostler task enqueue gpu-07 node.storage_cleanup -p scope=local -p scratch=/share1 --yes --wait",
		Args:    exactly("NODE", "TYPE"),
		ValidArgsFunction: func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return completeType(c, args, word)
			}
			return a.completeNode(c, args, word)
		},
		RunE: func(c *cobra.Command, args []string) error {
			params := map[string]json.RawMessage{}
			if file != "" {
				var err error
				if params, err = a.readParams(file); err != nil {
					return err
				}
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := typeOf(c, remote, args[1])
			if err != nil {
				return err
			}
			s, err := parseSchema(t.ParamsSchema)
			if err != nil {
				return err
			}
			if err := s.setParams(params, pairs); err != nil {
				return err
			}
			if order.Params, err = json.Marshal(params); err != nil {
				return err
			}
			order.Type, order.Version = t.Name, t.Version
			if order.IdempotencyKey == "" {
				order.IdempotencyKey = "cli-" + strings.ToLower(rand.Text())
			}
			ref := args[0]
			if t.Class == string(taskcatalog.ClassDestructive) && !saidYes(c) {
				node, err := remote.Node(c.Context(), ref)
				if err != nil {
					return err
				}
				if err := a.confirm(c, "run %s on node %s (%s, %s)? It may destroy a tenant's data.", t.Name, node.Hostname, node.ID, node.Status); err != nil {
					return err
				}
				ref = node.ID
			}
			task, err := remote.Enqueue(c.Context(), ref, order)
			if err != nil {
				return err
			}
			if wait {
				return a.watch(c.Context(), remote, task, timeout)
			}
			if err := a.show(task, []string{task.ID}, func(p *render.Page) { p.Table(taskHeads, [][]string{taskRow(a, *task)}) }); err != nil {
				return err
			}
			a.note("task %s is %s (hostler task watch %s)", task.ID, task.Status, task.ID)
			return nil
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&pairs, "param", "p", nil, "a param, `key=value` (may be repeated)")
	f.StringVar(&file, "params", "", "read the params from `FILE`, one JSON object, or - for stdin; -p goes over it")
	f.StringVar(&order.IdempotencyKey, "idempotency-key", "", "a `KEY` that makes a repeat harmless")
	f.StringVar(&order.RetryOf, "retry-of", "", "the `TASK` that this one tries again")
	reasonFlag(c, &order.Reason)
	yesFlag(c)
	waitFlags(c, &wait, &timeout)
	return c
}

// typeOf asks the broker for a type by name or name@version.
func typeOf(c *cobra.Command, remote *client.Client, name string) (*api.TaskType, error) {
	bare, version, pinned := strings.Cut(name, "@")
	t, err := remote.TaskType(c.Context(), name)
	if err != nil {
		return nil, err
	}
	if pinned && (t.Name != bare || strconv.Itoa(t.Version) != version) {
		return nil, usage("the broker has no task type %q (see hostler task types)", name)
	}
	return t, nil
}
