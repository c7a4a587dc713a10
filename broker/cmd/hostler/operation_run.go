package main

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

// operationOrder are the flags that say what an operation works on.
type operationOrder struct {
	project, allocation, group, node, nodes, inputs, reason string
	canary, batch, maxFailures                              int
}

func (o *operationOrder) flags(c *cobra.Command) {
	operationProjectFlag(c, &o.project)
	c.Flags().StringVar(&o.allocation, "allocation", "", "run on each node of this active allocation of the project, an `ID`")
	c.Flags().StringVar(&o.group, "group", "",
		"run on each node of the project's active allocations that `SELECTOR` names: all, ID,ID or key=value,key=value")
	c.Flags().StringVar(&o.node, "node", "", "run on this `NODE`, which no allocation holds; it needs a token of the platform")
	c.Flags().StringVar(&o.nodes, "nodes", "",
		"run on the nodes that `SELECTOR` names and that no allocation holds: all, NODE,NODE or key=value,key=value; it needs a token of the platform")
	c.Flags().StringVar(&o.inputs, "inputs", "", "`FILE` with the inputs as one JSON object (-: stdin)")
	reasonFlag(c, &o.reason)
	c.Flags().IntVar(&o.canary, "canary", 0, "run on `N` nodes first, and on the others if all of these do well")
	c.Flags().IntVar(&o.batch, "batch", 0, "run on `N` nodes at a time after the canary; 0: on all others at once")
	c.Flags().IntVar(&o.maxFailures, "max-failures", 0, "begin no further batch once `N` nodes have failed; 0: once the first has")
}

// onAllocation is the order of a project.
func (o *operationOrder) onAllocation(operation string, inputs json.RawMessage) api.OperationCreate {
	return api.OperationCreate{
		Operation: operation, AllocationID: o.allocation, Group: o.group, Canary: o.canary, Batch: o.batch, MaxFailures: o.maxFailures,
		Inputs: inputs, Reason: o.reason,
	}
}

// onNodes is the order of the platform.
func (o *operationOrder) onNodes(operation string, inputs json.RawMessage) api.PlatformOperationCreate {
	return api.PlatformOperationCreate{
		Operation: operation, Node: o.node, Nodes: o.nodes, Canary: o.canary, Batch: o.batch, MaxFailures: o.maxFailures, Inputs: inputs,
		Reason: o.reason,
	}
}

// ofPlatform reports whether the order is on nodes.
func (o *operationOrder) ofPlatform() bool { return o.node != "" || o.nodes != "" }

// read reads the inputs, and refuses an order that names no target, or two.
func (o *operationOrder) read(a *app) (json.RawMessage, error) {
	targets := slices.DeleteFunc([]string{o.allocation, o.group, o.node, o.nodes}, func(s string) bool { return s == "" })
	if len(targets) != 1 {
		return nil, usage("an operation needs one target (use --allocation ID, --group SELECTOR, --node NODE or --nodes SELECTOR)")
	}
	if o.ofPlatform() && o.project != "" {
		return nil, usage("an operation on a node is the platform's, and of no project (leave --project out, or use --allocation ID or --group SELECTOR)")
	}
	if o.inputs == "" {
		return nil, nil
	}
	params, err := a.readParams(o.inputs)
	if err != nil {
		return nil, err
	}
	raw, err := taskcatalog.Encode(params)
	return raw, err
}

func operationRunCommand(a *app) *cobra.Command {
	var o operationOrder
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "run OPERATION --allocation ID | --group SELECTOR | --node NODE | --nodes SELECTOR", Short: "begin an operation on an allocation, a group of them, or nodes", Args: exactly("OPERATION"),
		Long: `Begin an operation: a definition with its version, such as runtime.readiness.verify@v1.
A member of a project names an active allocation of the project, and the operation
runs on each of its nodes. An operator of the platform names a node that no allocation
holds, with a reason; nobody gets the node meanwhile. An allocation or node has one
operation at a time. hostler operation plan shows what would be done.

A group is one operation on several allocations of a project: those that are active
now and that the selector names: all, a list of ids, or terms that must all hold, such
as sku=h100.8gpu or the label tier=gold. They are at one site and of one SKU, and at
most 100. One that is released before its nodes have begun is skipped, which show says.

An operator of the platform names several nodes with --nodes: those at one site and of
one SKU that the selector names, and on which the operation can begin now. The others
are passed over, and hostler operation plan says why. A node is kept from allocations
from the begin of its batch to its end. One that does not fit any more by then, for
example because it has got a tenant, is skipped.

With --canary and --batch the nodes come in batches. A batch begins when all nodes of
the one before have ended, and not once --max-failures nodes or a canary have failed:
the operation then is failed with code batch_stopped, and the others are untouched.`,
		Example: "  hostler operation run runtime.readiness.verify@v1 --allocation alc-019c4e6a2f1k7m2q4s6t8w --wait\n" +
			"  hostler operation run runtime.readiness.verify@v1 --group tier=gold --canary 1 --batch 8\n" +
			"  hostler operation run gpu.host.bootstrap@v1 --node gpu-07 --inputs packages.json --reason 'new driver'\n" +
			"  hostler operation run gpu.host.bootstrap@v1 --nodes site=dc1,rack=r12 --canary 1 --batch 4 --inputs packages.json --reason 'new driver'",
		RunE: func(c *cobra.Command, args []string) error {
			inputs, err := o.read(a)
			if err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			var v *seenOperation
			if o.ofPlatform() {
				if err := needReason(o.reason); err != nil {
					return err
				}
				made, err := remote.RunNodeOperation(c.Context(), o.onNodes(args[0], inputs))
				if err != nil {
					return err
				}
				v = platformsOperation(made)
			} else {
				if o.project, err = ownProject(c.Context(), remote, o.project); err != nil {
					return err
				}
				if o.project == "" {
					return usage("no project is named (use --project PROJECT, or --node NODE)")
				}
				made, err := remote.RunOperation(c.Context(), o.project, o.onAllocation(args[0], inputs))
				if err != nil {
					return err
				}
				v = tenantsOperation(made)
			}
			if wait {
				return a.watchOperation(c.Context(), remote, o.project, v.ID, timeout)
			}
			return a.showOperation(v)
		},
	}
	o.flags(c)
	c.Flags().BoolVar(&wait, "wait", false, "wait until the operation has ended")
	timeoutFlag(c, &timeout)
	return c
}
