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

// taskOrder is what an operator asks of task enqueue.
type taskOrder struct {
	*app
	task    api.TaskCreate
	pairs   []string // key=value
	file    string   // with params
	wait    bool
	timeout time.Duration
}

func taskEnqueueCommand(a *app) *cobra.Command {
	o := &taskOrder{app: a}
	c := &cobra.Command{
		Use:   "enqueue NODE TYPE [-p key=value …]",
		Short: "run a task on a node",
		Long: `Run a task on a node. TYPE is a name, or name@version; hostler task describe TYPE
shows its params.

A param is converted according to the type's schema. A list takes one element from
each -p of its name, or a whole list as JSON: -p 'scratch=["/share*"]'.

An idempotency key makes a repeat harmless: the same key with the same type and
params returns the existing task. Without a key, each call creates a new task.`,
		Example: "  hostler task enqueue gpu-07 node.validate_clean --wait\n  hostler task enqueue gpu-07 node.storage_cleanup -p scope=local -p scratch=/share1 --yes --wait",
		Args:    exactly("NODE", "TYPE"),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c, args[0], args[1]) },
	}
	f := c.Flags()
	f.StringArrayVarP(&o.pairs, "param", "p", nil, "a param, `key=value` (may be repeated)")
	f.StringVar(&o.file, "params", "", "read the params from `FILE`, one JSON object, or - for stdin; -p takes precedence")
	f.StringVar(&o.task.IdempotencyKey, "idempotency-key", "", "a `KEY` that makes a repeat harmless")
	f.StringVar(&o.task.RetryOf, "retry-of", "", "the `TASK` that this task retries")
	reasonFlag(c, &o.task.Reason)
	yesFlag(c)
	waitFlags(c, &o.wait, &o.timeout)
	return c
}

func (o *taskOrder) run(c *cobra.Command, ref, taskType string) error {
	params := map[string]json.RawMessage{}
	if o.file != "" {
		var err error
		if params, err = o.readParams(o.file); err != nil {
			return err
		}
	}
	remote, err := o.connect()
	if err != nil {
		return err
	}
	t, err := typeOf(c, remote, taskType)
	if err != nil {
		return err
	}
	s, err := parseSchema(t.ParamsSchema)
	if err != nil {
		return err
	}
	if err := s.setParams(params, o.pairs); err != nil {
		return err
	}
	if o.task.Params, err = json.Marshal(params); err != nil {
		return err
	}
	o.task.Type, o.task.Version = t.Name, t.Version
	if o.task.IdempotencyKey == "" {
		o.task.IdempotencyKey = "cli-" + strings.ToLower(rand.Text())
	}
	if t.Class == string(taskcatalog.ClassDestructive) && !saidYes(c) {
		node, err := remote.Node(c.Context(), ref)
		if err != nil {
			return err
		}
		if err := o.confirm(c, "run %s on node %s (%s, %s)? It may destroy a tenant's data.", t.Name, node.Hostname, node.ID,
			node.Status); err != nil {
			return err
		}
		ref = node.ID
	}
	task, err := remote.Enqueue(c.Context(), ref, o.task)
	if err != nil {
		return err
	}
	if o.wait {
		return o.watch(c.Context(), remote, task, o.timeout)
	}
	if err := o.show(task, []string{task.ID}, func(p *render.Page) { p.Table(taskHeads, [][]string{taskRow(o.app, *task)}) }); err != nil {
		return err
	}
	o.note("task %s is %s (hostler task watch %s)", task.ID, task.Status, task.ID)
	return nil
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
