package main

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func maintenanceCommand(a *app) *cobra.Command {
	return noun("maintenance", "work of people on nodes: now, or planned", "  hostler maintenance list --site dc1",
		maintenanceOpenCommand(a), maintenanceListCommand(a), maintenanceShowCommand(a), maintenanceNoteCommand(a),
		maintenanceCloseCommand(a))
}

func maintenanceListCommand(a *app) *cobra.Command {
	var f client.MaintenanceFilter
	c := &cobra.Command{
		Use: "list", Short: "list maintenances", Args: exactly(),
		Long: `List the maintenances that are planned or open. UNTIL is the expected end, and BECAUSE
is what keeps one from beginning or from being closed.`,
		Example: "  hostler maintenance list\n  hostler maintenance list --node gpu-07 --ended\n  hostler maintenance list --status open -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			list, err := remote.Maintenances(c.Context(), f)
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, m := range list.Items {
				ids = append(ids, m.ID)
				rows = append(rows, maintenanceRow(m))
			}
			return a.show(list, ids, func(p *render.Page) {
				p.Table(maintenanceHeads, rows)
				if len(rows) == 0 {
					a.note("no maintenances")
				}
			})
		},
	}
	c.Flags().StringVar(&f.Node, "node", "", "only of this `NODE`")
	c.Flags().StringVar(&f.Site, "site", "", "only of this `SITE`")
	c.Flags().StringVar(&f.Status, "status", "", "only of this status, or of several separated by commas")
	c.Flags().BoolVar(&f.Ended, "ended", false, "those that have ended, too")
	return c
}

func maintenanceCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	all, err := remote.Maintenances(ctx, client.MaintenanceFilter{})
	if err != nil {
		return nil, err
	}
	for _, v := range all.Items {
		out = append(out, candidate{v.ID, v.Status + ", " + v.Category + " of " + v.Hostname})
	}
	return out, nil
}

var maintenanceHeads = []render.Column{
	render.ID("ID"), render.Keep("NODE"), render.Main("SITE"), render.Keep("STATUS"), render.Keep("CATEGORY"), render.Main("TENANT"),
	render.Main("TICKET"), render.Main("FROM"), render.Keep("UNTIL"), render.Keep("BECAUSE"),
}

func maintenanceRow(m api.Maintenance) []string {
	until := ""
	if m.Until != nil {
		until = render.Time(*m.Until)
	}
	if m.Overdue {
		until += " overdue"
	}
	return []string{
		m.ID, cmp.Or(m.Hostname, m.NodeID), m.Site, m.Status, m.Category, m.Tenant, m.Ticket, render.Time(m.From), until, m.Because,
	}
}

func maintenanceShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show a maintenance with its notes and checks", Args: exactly("ID"),
		Example: "  hostler maintenance show mnt-019c4e6a2f1k7m2q4s6t8w",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			m, err := remote.Maintenance(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showMaintenance(m)
		},
	}
}

func (a *app) showMaintenance(m *api.MaintenanceDetail) error {
	return a.show(m, []string{m.ID}, func(p *render.Page) { a.maintenancePage(p, m) })
}

func (a *app) maintenancePage(p *render.Page, m *api.MaintenanceDetail) {
	status, planned := m.Status, ""
	if m.Overdue {
		status += ", overdue"
	}
	if m.Planned {
		planned = "begins and ends by itself"
	}
	p.Fields("id", m.ID, "node", cmp.Or(m.Hostname, m.NodeID)+" ("+m.NodeID+")", "site", m.Site, "status", status, "because", m.Because,
		"category", m.Category, "tenant", m.Tenant, "allocation", m.AllocationID, "planned", planned, "ticket", m.Ticket, "reason", m.Reason,
		"by", m.CreatedBy, "from", moment(a, m.From), "until", ifReached(a, m.Until), "opened", ifReached(a, m.OpenedAt),
		"ended", ifReached(a, m.ClosedAt), "ended by", m.ClosedBy)
	var checks, notes [][]string
	for _, k := range m.Checks {
		checks = append(checks, []string{k.Check, k.Result, k.Code, k.Message})
	}
	for _, n := range m.Notes {
		notes = append(notes, []string{strconv.Itoa(n.Number), render.Time(n.At), n.Author, n.Text})
	}
	if len(checks) > 0 {
		p.Table(render.Kept("CHECK", "RESULT", "CODE", "MESSAGE"), checks)
	}
	if len(notes) > 0 {
		p.Table(render.Kept("NOTE", "AT", "BY", "TEXT"), notes)
	}
}

func maintenanceNoteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "note ID TEXT", Short: "add a note to a maintenance", Args: exactly("ID", "TEXT"),
		Example: "  hostler maintenance note mnt-019c4e6a2f1k7m2q4s6t8w 'the spare part has arrived'",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			m, err := remote.NoteMaintenance(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return a.showMaintenance(m)
		},
	}
}

func maintenanceCloseCommand(a *app) *cobra.Command {
	var body api.MaintenanceClose
	c := &cobra.Command{
		Use: "close ID --reason R", Short: "close an open maintenance, or cancel a planned one", Args: exactly("ID"),
		Long: `Close a maintenance when the work is done, if the node passes its checks: the agent was
heard, and no part is missing or unexpected. After work on GPUs, memory, disks or
boards, and of category other, a node without a tenant must have been turned over
since the maintenance was opened. Otherwise it stays open and says why
(maintenance_check_failed).

A planned one that has not begun is cancelled. Closing one again that has ended changes
nothing.`,
		Example: "  hostler maintenance close mnt-019c4e6a2f1k7m2q4s6t8w --reason 'fan replaced'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(body.Reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			m, err := remote.CloseMaintenance(c.Context(), args[0], body)
			if err != nil {
				return err
			}
			if err := a.showMaintenance(m); err != nil || broker.MaintenanceStatus(m.Status).Ended() {
				return err
			}
			return broker.Errorf(broker.Refused, "maintenance_check_failed", "cannot close maintenance %s: %s", m.ID, m.Because)
		},
	}
	reasonFlag(c, &body.Reason)
	c.Flags().BoolVar(&body.Override, "override", false, "close it without checks (platform_admin)")
	return c
}
