package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func reservationCommand(a *app) *cobra.Command {
	return noun("reservation", "nodes that are kept for a project", "  hostler reservation list --project acme/lab",
		reservationCreateCommand(a), reservationListCommand(a), reservationShowCommand(a), reservationEndCommand(a))
}

func reservationCreateCommand(a *app) *cobra.Command {
	var body api.ReservationCreate
	var from, to string
	c := &cobra.Command{
		Use: "create --project PROJECT --sku SKU --nodes N --to TIME --reason R", Short: "reserve nodes of a SKU for a project", Args: exactly(),
		Long: `Reserve nodes of a SKU for a project, from a time to a time. Meanwhile no other project
is given so many nodes that fewer are left than the project has reserved and does not
hold. The reservation names no nodes. All nodes that the project holds of the SKU
count, whenever they were allocated; without --site those at all sites together.

More nodes than there are cannot be reserved (reservation_overbooked). Nodes that are
in use now count: nobody has to leave when the reservation begins, and what is
released then is kept. The project's quota still applies. It needs a platform_admin.`,
		Example: "  hostler reservation create --project acme/lab --sku h100.8gpu --nodes 4 --to 720h --reason 'contract 17'\n" +
			"  hostler reservation create --project acme/lab --sku h100.8gpu --nodes 4 --site dc1 --from 2027-01-04T08:00:00Z --to 2027-01-11T08:00:00Z --reason training",
		RunE: func(c *cobra.Command, _ []string) error {
			if body.Project == "" || body.SKU == "" || body.Nodes < 1 || to == "" {
				return usage("a reservation needs a project, a SKU, a number of nodes and an end (use --project PROJECT, --sku SKU, --nodes N and --to TIME)")
			}
			if err := needReason(body.Reason); err != nil {
				return err
			}
			var err error
			if body.From, err = a.endFlag("from", from); err != nil {
				return err
			}
			if body.To, err = a.endFlag("to", to); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			made, err := remote.CreateReservation(c.Context(), body)
			if err != nil {
				return err
			}
			return a.showReservation(made, made.Reservation, made)
		},
	}
	c.Flags().StringVar(&body.Project, "project", "", "the `PROJECT`: an id, a name, or ORGANISATION/NAME")
	c.Flags().StringVar(&body.SKU, "sku", "", "the SKU")
	c.Flags().IntVar(&body.Nodes, "nodes", 0, "number of whole nodes")
	c.Flags().StringVar(&body.Site, "site", "", "the site; default: any site that offers the SKU")
	c.Flags().StringVar(&from, "from", "", "begin at this `TIME`: 2006-01-02T15:04:05Z, or from now on, such as 72h; default: now")
	c.Flags().StringVar(&to, "to", "", "end at this `TIME`: 2006-01-02T15:04:05Z, or from now on, such as 720h")
	reasonFlag(c, &body.Reason)
	return c
}

func reservationProjectFlag(c *cobra.Command, project *string) {
	c.Flags().StringVar(project, "project", "",
		"`PROJECT` of the reservation: an id, a name, or ORGANISATION/NAME; default: the project of the token")
}

func reservationListCommand(a *app) *cobra.Command {
	var f client.ReservationFilter
	var project string
	c := &cobra.Command{
		Use: "list", Short: "list reservations", Args: exactly(),
		Long: `List the reservations of a project that are planned or in force. With a token of the
platform and without --project, list those of all projects. HELD are nodes that the
project holds, KEPT are free nodes that no other project is given, and MISSING are
neither: they are in use elsewhere, or out of use.`,
		Example: "  hostler reservation list\n  hostler reservation list --project acme/lab --ended\n  hostler reservation list --sku h100.8gpu -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			me, err := remote.Whoami(c.Context())
			if err != nil {
				return err
			}
			if me.OrganisationID == "" { // of the platform, which sees more
				list, err := remote.Reservations(c.Context(), project, f)
				if err != nil {
					return err
				}
				return a.showReservations(list, list.Items, true)
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			list, err := remote.ProjectReservations(c.Context(), project, f)
			if err != nil {
				return err
			}
			all := make([]api.PlatformReservation, len(list.Items))
			for i, v := range list.Items {
				all[i].Reservation = v
			}
			return a.showReservations(list, all, false)
		},
	}
	reservationProjectFlag(c, &project)
	c.Flags().StringVar(&f.SKU, "sku", "", "only of this SKU")
	c.Flags().BoolVar(&f.Ended, "ended", false, "those that are over or were ended, too")
	return c
}

func (a *app) showReservations(answer any, all []api.PlatformReservation, platform bool) error {
	ids, rows := []string{}, [][]string{}
	columns := []render.Column{
		render.ID("ID"), render.Keep("STATUS"), render.Keep("SKU"), render.Keep("NODES"), render.Keep("HELD"), render.Main("SITE"),
		render.Keep("FROM"), render.Keep("TO"), render.More("PROJECT"),
	}
	if platform {
		columns = append(columns, render.Keep("KEPT"), render.Keep("MISSING"))
	}
	for _, v := range all {
		ids = append(ids, v.ID)
		row := []string{
			v.ID, v.Status, v.SKU, strconv.Itoa(v.Nodes), strconv.Itoa(v.Held), v.Site, render.Time(v.From), render.Time(v.To), v.ProjectID,
		}
		if platform {
			row = append(row, strconv.Itoa(v.Kept), strconv.Itoa(v.Missing))
		}
		rows = append(rows, row)
	}
	return a.show(answer, ids, func(p *render.Page) {
		p.Table(columns, rows)
		if len(rows) == 0 {
			a.note("no reservations")
		}
	})
}

func reservationShowCommand(a *app) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "show ID", Short: "show a reservation", Args: exactly("ID"),
		Example: "  hostler reservation show rsv-019c4e6a2f1k7m2q4s6t8w",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			if project == "" {
				v, err := remote.Reservation(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.showReservation(v, v.Reservation, v)
			}
			v, err := remote.ProjectReservation(c.Context(), project, args[0])
			if err != nil {
				return err
			}
			return a.showReservation(v, *v, nil)
		},
	}
	reservationProjectFlag(c, &project)
	return c
}

// showReservation shows a reservation; platform is nil for a tenant, who does not see the rest.
func (a *app) showReservation(answer any, v api.Reservation, platform *api.PlatformReservation) error {
	kept, missing := "", ""
	if platform != nil {
		kept, missing = strconv.Itoa(platform.Kept), strconv.Itoa(platform.Missing)
	}
	return a.show(answer, []string{v.ID}, func(p *render.Page) {
		p.Fields("id", v.ID, "project", v.ProjectID, "status", v.Status, "sku", v.SKU, "site", v.Site, "nodes", strconv.Itoa(v.Nodes),
			"held", strconv.Itoa(v.Held), "kept", kept, "missing", missing, "from", moment(a, v.From), "to", moment(a, v.To),
			"ended", ifReached(a, v.EndedAt))
	})
}

func reservationEndCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "end ID --reason R", Short: "end a reservation before its time", Args: exactly("ID"),
		Long: `End a reservation now. The project keeps the nodes that it holds; nodes that were kept
for it may go to others. It needs a platform_admin. One that is over, or was ended,
stays as it is.`,
		Example: "  hostler reservation end rsv-019c4e6a2f1k7m2q4s6t8w --reason 'contract 17 ended' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "end reservation %s?", args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			v, err := remote.EndReservation(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.showReservation(v, v.Reservation, v)
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}
