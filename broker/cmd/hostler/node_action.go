package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// action is a change of a node's status that an operator may ask for.
type action struct {
	name, short, long, example string
	// asks names the loss, for an action that destroys something.
	asks string
	// many says that the action takes a selector of nodes.
	many bool
	// waits says that the action starts a task.
	waits bool
	flags func(*cobra.Command, *api.NodeAction)
	// passes says why the action on many nodes leaves out a node; empty: it does not.
	passes func(api.Node) string
}

var (
	drain = action{
		name: "drain", short: "take no new tenant, and end the sessions and processes of tenants", waits: true, many: true,
		long: `Take no new tenant, and end the sessions and processes of tenants. The node is then
retired; hostler node activate returns it to service.

With --nodes the nodes of a selector are drained, as many at once as --at-once says. The
next ones follow when these are retired; none follow if one failed. --plan shows which
nodes are meant.`,
		asks: "The sessions and processes of its tenants are ended",
		example: "  hostler node drain gpu-07 --reason 'fan replacement' --wait\n  hostler node drain --nodes site=dc1,rack=c07 --plan\n" +
			"  hostler node drain --nodes site=dc1,rack=c07 --at-once 4 --reason 'new switch' --yes --wait",
		flags: func(c *cobra.Command, n *api.NodeAction) {
			c.Flags().IntVar(&n.GraceSeconds, "grace-seconds", 0, "seconds from SIGTERM to SIGKILL, at most 300")
		},
	}
	resume = action{
		name: "resume", short: "continue an interrupted drain or removal", waits: true,
		example: "  hostler node resume gpu-07",
	}
	quarantine = action{
		name: "quarantine", short: "keep a node from being handed out until a person activates it", many: true,
		example: "  hostler node quarantine gpu-07 --reason 'ECC errors'\n  hostler node quarantine --nodes site=dc1,domain=feed-a --reason 'a fuse blew'",
	}
	activate = action{
		name: "activate", short: "make a quarantined or retired node active, or call off a drain", waits: true, many: true,
		long: `Make a quarantined or retired node active. For a draining node the drain is called
off: the node becomes offline, and active as soon as its agent is heard. A node that
owes a turnover is refused; a platform_admin may override this with --override and a
reason. An active node that is held because it could not be provisioned
(provisioning_failing) may be handed out again.

With --nodes other active nodes are passed over, and so are nodes that activate never
makes active: those that are enrolling or being removed, say.`,
		example: "  hostler node activate gpu-07\n  hostler node activate gpu-07 --override --reason 'disks were replaced'\n" +
			"  hostler node activate --nodes site=dc1,rack=c07 --plan",
		passes: notToActivate,
		flags: func(c *cobra.Command, n *api.NodeAction) {
			c.Flags().BoolVar(&n.Override, "override", false, "ignore an owed turnover (platform_admin, with --reason)")
		},
	}
	retire = action{
		name: "retire", short: "take a node out of service, or stop its removal", waits: true,
		long: `Take a node out of service: a drain that is meant to last. With --force a node that
no longer answers is retired without asking its agent. A node that is being removed
is retired again and keeps its record; if its agent has already begun to uninstall,
the result of that task decides.`,
		asks:    "The node is drained, or no longer removed, and is not handed out",
		example: "  hostler node retire gpu-07 --reason 'end of lease'",
		flags:   forceFlag,
	}
	remove = action{
		name: "remove", short: "uninstall the agent and delete the node", waits: true,
		long: `Uninstall the agent, its identity and its state from a retired node, and delete the
node's record. The id is never reused. A node that never enrolled is deleted at
once. A node that no longer answers needs --force.`,
		asks:    "The agent is uninstalled, and the record is deleted for good",
		example: "  hostler node remove gpu-07 --yes --wait --timeout 10m",
		flags: func(c *cobra.Command, n *api.NodeAction) {
			forceFlag(c, n)
			c.Flags().StringVar(&n.AllocationID, "allocation", "", "the allocation that may still be on the node")
		},
	}
)

func forceFlag(c *cobra.Command, n *api.NodeAction) {
	c.Flags().BoolVar(&n.Force, "force", false, "the node no longer answers (platform_admin, with --reason)")
}

func nodeActionCommand(a *app, what action) *cobra.Command {
	var n api.NodeAction
	var m manyNodes
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: what.name + " NODE", Short: what.short, Long: what.long, Example: what.example, Args: m.args,
		RunE: func(c *cobra.Command, args []string) error {
			if n.Override || n.Force {
				if err := needReason(n.Reason); err != nil {
					return err
				}
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if m.selector != "" {
				return a.actOnMany(c, remote, what, n, m, wait, timeout)
			}
			ref := args[0]
			if what.asks != "" && !saidYes(c) {
				// The question names the node that was found, and the action applies to that node.
				node, err := remote.Node(c.Context(), ref)
				if err != nil {
					return err
				}
				if err := a.confirm(c, "%s node %s (%s, %s)? %s.", what.name, node.Hostname, node.ID, node.Status, what.asks); err != nil {
					return err
				}
				ref = node.ID
			}
			r, err := remote.Act(c.Context(), ref, what.name, n)
			if err != nil {
				return err
			}
			var ended error
			if r.Task != nil && wait {
				task, err := a.follow(c.Context(), remote, r.Task, timeout)
				if err != nil {
					return err
				}
				r.Task, ended = task, verdictOf(task)
				if node, err := remote.Node(c.Context(), r.Node.ID); err == nil {
					r.Node = *node
				}
			}
			if err := a.show(r, []string{r.Node.ID}, func(p *render.Page) {
				p.Fields("node", r.Node.Hostname+" ("+r.Node.ID+")", "status", r.Node.Status, "because", r.Node.StatusReason)
				if r.Task != nil {
					p.Fields("task", r.Task.ID+" "+r.Task.Type+" "+r.Task.Status)
				}
			}); err != nil {
				return err
			}
			if r.Task != nil && !wait {
				a.note("task %s is %s (hostler task watch %s)", r.Task.ID, r.Task.Status, r.Task.ID)
			}
			return ended
		},
	}
	reasonFlag(c, &n.Reason)
	if what.asks != "" || what.many {
		yesFlag(c)
	}
	if what.many {
		m.flags(c)
	}
	if what.waits {
		waitFlags(c, &wait, &timeout)
	}
	if what.flags != nil {
		what.flags(c, &n)
	}
	return c
}
