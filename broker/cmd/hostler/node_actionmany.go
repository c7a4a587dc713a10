package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// manyNodes are the flags of an action on the nodes of a selector.
type manyNodes struct {
	selector string
	plan     bool
	atOnce   int
}

func (m *manyNodes) flags(c *cobra.Command) {
	c.Flags().StringVar(&m.selector, "nodes", "", "many nodes, `SELECTOR`: all, NODE,NODE or key=value,key=value")
	c.Flags().BoolVar(&m.plan, "plan", false, "with --nodes: show which nodes are meant, and change nothing")
	c.Flags().IntVar(&m.atOnce, "at-once", 10, "with --nodes: how many nodes at once; the next ones follow when the tasks of these have succeeded")
}

// args checks the arguments and the flags together.
func (m *manyNodes) args(c *cobra.Command, args []string) error {
	switch {
	case m.selector == "" && (m.plan || c.Flags().Changed("at-once")):
		return usage("%s takes --plan and --at-once with --nodes alone", c.CommandPath())
	case m.selector == "":
		return exactly("NODE")(c, args)
	case c.Flags().Changed("override"):
		return usage("%s takes --override for one NODE alone", c.CommandPath())
	case m.atOnce < 1:
		return usage("cannot act on %d nodes at once (--at-once takes 1 and more)", m.atOnce)
	}
	return exactly()(c, args)
}

// passOver leaves out nodes on which an action does nothing, or is never permitted, and says how many and why.
func (a *app) passOver(what action, nodes []api.Node) []api.Node {
	kept, why := []api.Node{}, map[string]int{}
	for _, n := range nodes {
		reason := ""
		if what.passes != nil {
			reason = what.passes(n)
		}
		if reason == "" {
			kept = append(kept, n)
		} else {
			why[reason]++
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		a.note("passed over: %s, %s", plural(why[reason], "node"), reason)
	}
	return kept
}

// notToActivate says why an action on many nodes passes over a node: it is in service, or no operator may activate a node
// of its status. A drain is called off, a node that could not be provisioned is let in again, and of an offline node
// the broker knows whether it still has the mark of a drain.
func notToActivate(n api.Node) string {
	status := broker.NodeStatus(n.Status)
	switch status {
	case broker.Draining, broker.Offline:
		return ""
	case broker.Active:
		if slices.Contains(n.AvailabilityCodes, "provisioning_failing") {
			return ""
		}
		return "already active"
	}
	if broker.Transition(broker.Node{Status: status}, broker.Active, broker.OwnerOperator) != nil {
		return n.Status + ", which activate never ends"
	}
	return ""
}

// atOneSite refuses a selector by place that matches nodes of several sites: each site names its own racks.
func atOneSite(text string, nodes []api.Node) error {
	selector, err := broker.ParseSelector(text)
	if err != nil || selector.Names("site") || !selector.Names(append([]string{"unit"}, broker.PlaceLevels...)...) {
		return err
	}
	named := map[string]bool{}
	for _, n := range nodes {
		named[cmp.Or(n.Site, "no site")] = true
	}
	if len(named) > 1 {
		return usage("the selector %q matches nodes of %s: add site=…", text, strings.Join(slices.Sorted(maps.Keys(named)), " and "))
	}
	return nil
}

// manyActions is an action under way on many nodes.
type manyActions struct {
	*app
	c       *cobra.Command
	remote  *client.Client
	what    action
	ask     api.NodeAction
	wait    bool // for the tasks of the last group, too
	timeout time.Duration
	done    []api.NodeActionResult
}

// actOnMany acts on the nodes of a selector, in groups. A group in which an action or its task failed is the last.
func (a *app) actOnMany(
	c *cobra.Command, remote *client.Client, what action, n api.NodeAction, m manyNodes, wait bool, timeout time.Duration,
) error {
	nodes, err := selectNodes(c.Context(), remote, m.selector)
	if err != nil {
		return err
	}
	if err := atOneSite(m.selector, nodes); err != nil {
		return err
	}
	nodes = a.passOver(what, nodes)
	page := func(p *render.Page) { p.Table(plannedHeads, plannedNodes(nodes)) }
	if m.plan || len(nodes) == 0 {
		return a.show(nodes, idsOf(nodes), page)
	}
	if !saidYes(c) && a.ask {
		p := a.newQuestion()
		page(p)
		_, _ = p.WriteTo(a.err)
	}
	loss := what.asks
	if loss != "" {
		loss = " " + loss + "."
	}
	if err := a.confirm(c, "%s %s, %d at once?%s", what.name, plural(len(nodes), "node"), m.atOnce, loss); err != nil {
		return err
	}
	run := manyActions{app: a, c: c, remote: remote, what: what, ask: n, wait: wait, timeout: timeout}
	left := nodes
	for len(left) > 0 && err == nil {
		group := left[:min(m.atOnce, len(left))]
		if err = run.asPlanned(group); err != nil {
			break
		}
		left = left[len(group):]
		err = run.group(group, len(left) == 0)
	}
	if len(left) > 0 {
		a.note("not begun: %s (see what went wrong, and give the command again)", plural(len(left), "node"))
	}
	if len(run.done) == 0 {
		return err
	}
	return errors.Join(run.show(), err)
}

// asPlanned refuses nodes that have changed since the plan was shown. Hours may lie between the plan and the last group,
// and a tenant may have come to a node meanwhile. Code: changed_since_plan.
func (r *manyActions) asPlanned(nodes []api.Node) error {
	for _, n := range nodes {
		now, err := r.remote.Node(r.c.Context(), n.ID)
		if err != nil {
			return err
		}
		for _, f := range [][3]string{
			{"status", n.Status, now.Status}, {"tenant", n.Tenant, now.Tenant}, {"allocation", n.AllocationID, now.AllocationID},
		} {
			if f[1] != f[2] {
				return broker.Errorf(broker.Refused, "changed_since_plan",
					"cannot %s node %s: its %s was %s when the nodes were found, and is %s now (give the command again)", r.what.name, n.Hostname,
					f[0], cmp.Or(f[1], "none"), cmp.Or(f[2], "none"))
			}
		}
	}
	return nil
}

// group acts on some nodes, and waits for their tasks if other groups follow.
func (r *manyActions) group(nodes []api.Node, last bool) error {
	var tasks []api.Task
	first := len(r.done)
	err := r.each(nodes, func(n api.Node) error {
		out, err := r.remote.Act(r.c.Context(), n.ID, r.what.name, r.ask)
		if err != nil {
			return err
		}
		r.done = append(r.done, *out)
		if out.Task != nil {
			tasks = append(tasks, *out.Task)
		}
		return nil
	})
	if last && !r.wait || len(tasks) == 0 {
		return err
	}
	err = errors.Join(err, r.followAll(r.c.Context(), r.remote, tasks, r.timeout))
	for i := range r.done[first:] {
		d := &r.done[first+i]
		for _, t := range tasks {
			if d.Task != nil && d.Task.ID == t.ID {
				d.Task = &t
			}
		}
		if n, found := r.remote.Node(r.c.Context(), d.Node.ID); found == nil {
			d.Node = *n
		}
	}
	return err
}

func (r *manyActions) show() error {
	rows, ids := [][]string{}, []string{}
	for _, d := range r.done {
		task := ""
		if d.Task != nil {
			task = d.Task.ID + " " + d.Task.Status
		}
		ids = append(ids, d.Node.ID)
		rows = append(rows, []string{d.Node.Hostname, d.Node.Status, d.Node.StatusReason, task})
	}
	return r.app.show(r.done, ids, func(p *render.Page) { p.Table(render.Kept("NODE", "STATUS", "BECAUSE", "TASK"), rows) })
}

var plannedHeads = []render.Column{
	render.Keep("NODE"), render.Main("SITE"), render.Main("RACK"), render.Aside("DOMAIN"), render.Keep("STATUS"),
	render.Keep("AVAILABILITY"), render.Keep("TENANT"), render.Keep("BECAUSE"),
}

func plannedNodes(nodes []api.Node) (rows [][]string) {
	for _, n := range nodes {
		rows = append(rows, []string{n.Hostname, n.Site, n.Rack, n.Domain, n.Status, n.Availability, n.Tenant, n.StatusReason})
	}
	return rows
}
