package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func maintenanceOpenCommand(a *app) *cobra.Command {
	var body api.MaintenanceCreate
	var from, until string
	var m manyNodes
	c := &cobra.Command{
		Use: "open NODE --category C --reason R", Short: "open a maintenance, or plan one", Args: m.args,
		Long: `Open a maintenance of a node: from now on nobody new is let in, and its availability is
maintenance. Its status does not change. The tenant who is there stays; with --tenant
leaves the platform releases the allocation that has the node, with all its nodes, and
the tenant is told (platform_admin).

With --from the maintenance is planned: the tenant is told now and a day before, and it
begins and ends by itself. It needs --until. A time that overlaps another maintenance of
the node is refused (maintenance_overlaps).

The categories: gpu, cpu, memory, disk, network, power, cooling, board, firmware,
planned and other.`,
		Example: "  hostler maintenance open gpu-07 --category gpu --ticket OPS-17 --until 48h --reason 'GPU 3 has ECC errors'\n" +
			"  hostler maintenance open gpu-07 --category firmware --tenant leaves --from 2027-01-04T08:00:00Z --until 2027-01-04T12:00:00Z --reason 'BIOS 2.4'\n" +
			"  hostler maintenance open --nodes site=dc1,rack=c07 --category power --reason 'new feed' --plan",
		RunE: func(c *cobra.Command, args []string) error {
			if body.Category == "" {
				return usage("a maintenance needs a category (use --category, such as gpu, disk or power)")
			}
			if err := needReason(body.Reason); err != nil {
				return err
			}
			var err error
			if body.From, err = a.endFlag("from", from); err != nil {
				return err
			}
			if body.Until, err = a.endFlag("until", until); err != nil {
				return err
			}
			if !body.From.IsZero() && body.Until.IsZero() {
				return usage("a planned maintenance needs an end (use --until TIME)")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if m.selector != "" {
				return a.openMany(c, remote, body, m)
			}
			body.Node = args[0]
			made, err := remote.CreateMaintenance(c.Context(), body)
			if err != nil {
				return err
			}
			return a.showMaintenance(made)
		},
	}
	c.Flags().StringVar(&body.Category, "category", "", "what the work is about")
	c.Flags().StringVar(&body.Tenant, "tenant", "", "stays or leaves; default: stays")
	c.Flags().StringVar(&body.Ticket, "ticket", "", "number of the ticket")
	c.Flags().StringVar(&from, "from", "", "plan it: begin at this `TIME`: 2006-01-02T15:04:05Z, or from now on, such as 72h; default: now")
	c.Flags().StringVar(&until, "until", "", "expected end, this `TIME`: 2006-01-02T15:04:05Z, or from now on, such as 76h")
	yesFlag(c)
	reasonFlag(c, &body.Reason)
	m.flags(c)
	return c
}

// openMany opens or plans a maintenance of each node of a selector. A group in which one failed is the last.
func (a *app) openMany(c *cobra.Command, remote *client.Client, body api.MaintenanceCreate, m manyNodes) error {
	nodes, err := selectNodes(c.Context(), remote, m.selector)
	if err != nil {
		return err
	}
	if err := atOneSite(m.selector, nodes); err != nil {
		return err
	}
	page := func(p *render.Page) { p.Table(plannedHeads, plannedNodes(nodes)) }
	if m.plan || len(nodes) == 0 {
		return a.show(nodes, idsOf(nodes), page)
	}
	if !saidYes(c) && a.ask {
		p := a.newQuestion()
		page(p)
		_, _ = p.WriteTo(a.err)
	}
	what := action{name: "open a maintenance of"}
	if err := a.confirm(c, "%s %s, %d at once; the tenant %s?", what.name, plural(len(nodes), "node"), m.atOnce, cmp.Or(body.Tenant, "stays")); err != nil {
		return err
	}
	run := manyActions{app: a, c: c, remote: remote, what: what}
	var made []*api.MaintenanceDetail
	left := nodes
	for len(left) > 0 && err == nil {
		group := left[:min(m.atOnce, len(left))]
		if err = run.asPlanned(group); err != nil {
			break
		}
		left = left[len(group):]
		err = a.each(group, func(n api.Node) error {
			ask := body
			ask.Node = n.ID
			one, err := remote.CreateMaintenance(c.Context(), ask)
			if err == nil {
				made = append(made, one)
			}
			return err
		})
	}
	if len(left) > 0 {
		a.note("not begun: %s (see what went wrong, and give the command again)", plural(len(left), "node"))
	}
	if len(made) == 0 {
		return err
	}
	ids, rows := []string{}, [][]string{}
	for _, one := range made {
		ids = append(ids, one.ID)
		rows = append(rows, maintenanceRow(one.Maintenance))
	}
	return errors.Join(a.show(made, ids, func(p *render.Page) { p.Table(maintenanceHeads, rows) }), err)
}
