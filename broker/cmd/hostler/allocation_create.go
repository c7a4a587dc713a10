package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

func allocationCreateCommand(a *app) *cobra.Command {
	var body api.AllocationCreate
	var project, ends string
	var labels []string
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "create --sku SKU --nodes N --key KEY", Short: "ask for nodes", Args: exactly(),
		Long: `Ask for nodes of a SKU: all of them, at one site, or none. A refusal comes at once:
sku_unavailable (not offered, or not free), quota_exceeded. The broker then makes the
nodes ready. With --wait the exit status is 0 only if the allocation became active.
The nodes' addresses are in the output of hostler allocation show.`,
		Example: "  hostler allocation create --project acme/lab --sku h100.8gpu --nodes 2 --key key-019c4e6b3a2n5p7r9t1v3x --wait\n" +
			"  hostler allocation create --sku h100.8gpu --nodes 1 --key key-019c4e6b3a2n5p7r9t1v3x --ends-at 72h --label team=vision",
		RunE: func(c *cobra.Command, _ []string) error {
			if body.SKU == "" || len(body.SSHKeyIDs) == 0 || body.Nodes < 0 || body.GPUs < 0 || (body.Nodes > 0) == (body.GPUs > 0) {
				return usage("it is not said what to allocate (use --sku SKU, --nodes N or --gpus N, and --key KEY)")
			}
			if err := (broker.Arrangement{Spread: body.Spread, Pack: body.Pack}).Check(); err != nil {
				return err
			}
			var ok bool
			var err error
			if body.Labels, ok = client.Labels(labels); !ok {
				return usage("--label takes key=value")
			}
			if body.EndsAt, err = a.endFlag("ends-at", ends); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			if project == "" {
				return usage("no project is named (use --project PROJECT)")
			}
			made, err := remote.CreateAllocation(c.Context(), project, body)
			if err != nil {
				return err
			}
			if wait {
				return a.watchAllocation(c.Context(), remote, project, made.ID, timeout)
			}
			return a.showAllocation(tenantsAllocation(made))
		},
	}
	allocationProjectFlag(c, &project)
	c.Flags().StringVar(&body.SKU, "sku", "", "the SKU")
	c.Flags().IntVar(&body.Nodes, "nodes", 0, "number of whole nodes")
	c.Flags().IntVar(&body.GPUs, "gpus", 0, "number of GPUs of one node, for a SKU of slices")
	c.Flags().StringVar(&body.Site, "site", "", "the site; default: any site that has enough nodes")
	c.Flags().StringArrayVar(&body.SSHKeyIDs, "key", nil, "id of an SSH `KEY` that lets in (may be repeated)")
	c.Flags().StringVar(&body.Image, "image", "", "one of the SKU's images, for all nodes; a node that has another one is reimaged first; default: whatever the nodes have")
	arrangementFlags(c, &body.Spread, &body.Pack)
	c.Flags().StringVar(&ends, "ends-at", "", "release it at this `TIME`: 2006-01-02T15:04:05Z, or from now on, such as 72h; default: no end")
	c.Flags().StringArrayVar(&labels, "label", nil, "label, `KEY=VALUE` (may be repeated)")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the allocation is active or has failed")
	timeoutFlag(c, &timeout)
	reasonFlag(c, &body.Reason)
	return c
}

// arrangementFlags are the flags that say how the nodes of an allocation stand to each other.
func arrangementFlags(c *cobra.Command, spread, pack *string) {
	c.Flags().StringVar(spread, "spread", "", "take the nodes from as many places of a `PART` as possible: zone, room, row, rack or domain")
	c.Flags().StringVar(pack, "pack", "", "take the nodes from as few places of a `PART` as possible")
}

// endFlag reads a moment that lies ahead: a time, or how long from now.
func (a *app) endFlag(name, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return a.now().Add(d), nil
	}
	return time.Time{}, usage("cannot read --%s %q as a time that lies ahead (2006-01-02T15:04:05Z, or 72h)", name, s)
}
