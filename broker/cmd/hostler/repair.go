package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func repairCommand(a *app) *cobra.Command {
	return noun("repair", "history of repairs, by part", "  hostler repair list --serial 1324022000001",
		repairListCommand(a), repairAddCommand(a), repairImportCommand(a), repairReplaceHostCommand(a))
}

func repairListCommand(a *app) *cobra.Command {
	var f client.RepairFilter
	c := &cobra.Command{
		Use: "list", Short: "list repairs", Args: exactly(),
		Long: `List repairs, also those of nodes that are deleted. --serial finds a part in all
machines in which it was, as the old or the new part.`,
		Example: "  hostler repair list --serial 1324022000001\n  hostler repair list --node gpu-07 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			list, err := remote.Repairs(c.Context(), f)
			if err != nil {
				return err
			}
			return a.showRepairs(list, list.Items)
		},
	}
	c.Flags().StringVar(&f.Node, "node", "", "only of this `NODE`; of a deleted one its id")
	c.Flags().StringVar(&f.Serial, "serial", "", "only of this serial number, `SERIAL`")
	c.Flags().StringVar(&f.Site, "site", "", "only of this `SITE`")
	return c
}

func (a *app) showRepairs(answer any, all []api.Repair) error {
	ids, rows := []string{}, [][]string{}
	for _, r := range all {
		ids = append(ids, r.ID)
		closed := ""
		if r.ClosedAt != nil {
			closed = render.Time(*r.ClosedAt)
		}
		rows = append(rows, []string{
			r.ID, r.Hostname, r.NodeID, r.Part, r.Action, r.OldSerial, r.NewSerial, r.OldModel, r.NewModel, r.Category, r.Ticket,
			render.Time(r.OpenedAt), closed, r.RecordedBy, r.Note,
		})
	}
	return a.show(answer, ids, func(p *render.Page) {
		p.Table([]render.Column{
			render.ID("ID"), render.Keep("NODE"), render.Aside("NODE ID"), render.Keep("PART"), render.Keep("ACTION"), render.Keep("OLD"),
			render.Keep("NEW"), render.Aside("OLD MODEL"), render.Aside("NEW MODEL"), render.More("CATEGORY"), render.Main("TICKET"), render.Keep("OPENED"),
			render.More("CLOSED"), render.More("BY"), render.More("NOTE"),
		}, rows)
		if len(rows) == 0 {
			a.note("no repairs")
		}
	})
}

func repairAddCommand(a *app) *cobra.Command {
	var r api.RepairAdd
	var opened, closed string
	c := &cobra.Command{
		Use: "add --part KIND --action ACTION --category C", Short: "record a repair", Args: exactly(),
		Long: `Record a repair of a machine, or of a part that is in no machine on record. The actions:
replaced, repaired, reseated, added, removed and returned (to its vendor). Parts are
found by their serial numbers. A repair that is on record already is left as it is.`,
		Example: "  hostler repair add --node gpu-07 --category gpu --part gpu --action replaced --old 1324022000001 --new 1324022000009 --ticket RMA-4",
		RunE: func(c *cobra.Command, _ []string) error {
			if r.Part == "" || r.Action == "" || r.Category == "" {
				return usage("a repair needs a part, an action and a category (use --part, --action and --category)")
			}
			var err error
			if r.OpenedAt, err = repairTime("opened", opened); err != nil {
				return err
			}
			if r.ClosedAt, err = repairTime("closed", closed); err != nil {
				return err
			}
			return a.addRepairs(c, []api.RepairAdd{r})
		},
	}
	f := c.Flags()
	f.StringVar(&r.Node, "node", "", "the `NODE`; of a deleted one its id")
	f.StringVar(&r.Maintenance, "maintenance", "", "the maintenance in which it was done, `ID`")
	f.StringVar(&r.Category, "category", "", "what the work was about, as of a maintenance")
	f.StringVar(&r.Action, "action", "", "what was done")
	f.StringVar(&r.Part, "part", "", "kind of the part, such as gpu or disk")
	f.StringVar(&r.OldSerial, "old", "", "serial number of the old part")
	f.StringVar(&r.NewSerial, "new", "", "serial number of the new part")
	f.StringVar(&r.OldModel, "old-model", "", "model of the old part")
	f.StringVar(&r.NewModel, "new-model", "", "model of the new part")
	f.StringVar(&r.Ticket, "ticket", "", "number of the ticket")
	f.StringVar(&r.Note, "note", "", "a note")
	f.StringVar(&opened, "opened", "", "when it began, 2006-01-02T15:04:05Z; default: now")
	f.StringVar(&closed, "closed", "", "when it ended, 2006-01-02T15:04:05Z")
	return c
}

func repairTime(name, s string) (at time.Time, err error) {
	if s == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, s); err != nil {
		return at, usage("cannot read %s %q as a time (2006-01-02T15:04:05Z)", name, s)
	}
	return at, nil
}

func (a *app) addRepairs(c *cobra.Command, all []api.RepairAdd) error {
	remote, err := a.connect()
	if err != nil {
		return err
	}
	made, err := remote.AddRepairs(c.Context(), api.RepairsAdd{Items: all})
	if err != nil {
		return err
	}
	if made.Known > 0 {
		a.note("%s on record already", plural(made.Known, "repair"))
	}
	return a.showRepairs(made, made.Recorded)
}

func repairImportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "record repairs of a CSV file, such as RMA records", Args: exactly("FILE"),
		Long: `Record the repairs of a CSV file, up to 1000: all, or none. Its first line names the
columns, in any order: category, action and part, and any of node, old_serial,
new_serial, old_model, new_model, ticket, note, opened_at and closed_at. A file may be
imported again: what is on record already is left as it is, if it has opened_at.`,
		Example: "  hostler repair import rma-2026.csv",
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := a.readUpTo(maxMachinesFile, args[0])
			if err != nil {
				return err
			}
			all, err := repairRows(args[0], raw)
			if err != nil {
				return err
			}
			return a.addRepairs(c, all)
		},
	}
}

func repairRows(name string, raw []byte) (all []api.RepairAdd, err error) {
	const code = "repair_invalid"
	rows, err := csvRows(name, code, raw, []string{"category", "action", "part"}, []string{
		"node", "old_serial", "new_serial", "old_model", "new_model", "ticket", "note", "opened_at", "closed_at",
	})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		r := api.RepairAdd{
			Node: row["node"], Category: row["category"], Action: row["action"], Part: row["part"], OldSerial: row["old_serial"], NewSerial: row["new_serial"],
			OldModel: row["old_model"], NewModel: row["new_model"], Ticket: row["ticket"], Note: row["note"],
		}
		r.Line, _ = strconv.Atoi(row[lineColumn])
		if r.OpenedAt, err = repairTime("opened_at", row["opened_at"]); err == nil {
			r.ClosedAt, err = repairTime("closed_at", row["closed_at"])
		}
		if err != nil {
			return nil, broker.Errorf(broker.Invalid, code, "cannot use %s: line %s: %s", name, row[lineColumn], broker.AsError(err).Message)
		}
		all = append(all, r)
	}
	if len(all) == 0 || len(all) > maxPlaces {
		return nil, broker.Errorf(broker.Invalid, code, "cannot use %s: it has %d repairs, and a file has 1 to %d", name, len(all), maxPlaces)
	}
	return all, nil
}

func repairReplaceHostCommand(a *app) *cobra.Command {
	var r api.HostReplace
	c := &cobra.Command{
		Use: "replace-host NODE NODE --reason R", Short: "record that a machine took the place of another one", Args: exactly("NODE", "NODE"),
		Long: `Record that the second node took the place of the first one. Both nodes stay as they
are. The first one no longer asks for a replacement.`,
		Example: "  hostler repair replace-host gpu-07 gpu-93 --ticket RMA-4 --reason 'three GPUs in a month'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(r.Reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r.Old, r.New = args[0], args[1]
			h, err := remote.ReplaceHost(c.Context(), r)
			if err != nil {
				return err
			}
			return a.show(h, []string{h.OldNodeID}, func(p *render.Page) {
				p.Fields("old", h.OldNodeID, "new", h.NewNodeID, "at", moment(a, h.At), "by", h.By, "ticket", h.Ticket, "reason", h.Reason)
			})
		},
	}
	c.Flags().StringVar(&r.Ticket, "ticket", "", "number of the ticket")
	reasonFlag(c, &r.Reason)
	return c
}
