package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func capacityCommand(a *app) *cobra.Command {
	var site, by string
	c := &cobra.Command{
		Use: "capacity", Short: "count GPUs by site, SKU and availability", Args: exactly(),
		Long: `Count GPUs by site, SKU and availability. Healthy are those that are available,
reserved, allocated without a fault, in turnover or in maintenance. Reserved are free
and kept for a project (hostler reservation list). The minutes are how long the
turnovers of the last seven days kept a node out of use. -o json counts nodes as well.

With --by the rows are counted by a part of the nodes' places, too (hostler node place).
Such rows have no turnovers, and reserved GPUs count as available: a reservation names
no nodes.`,
		Example: "  hostler capacity\n  hostler capacity --by rack\n  hostler capacity --site dc1 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if by != "" && !slices.Contains(broker.PlaceLevels, by) {
				return usage("cannot count by %q (--by takes %s)", by, strings.Join(broker.PlaceLevels, ", "))
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			k, err := remote.Capacity(c.Context(), site, by)
			if err != nil {
				return err
			}
			return a.show(k, nil, func(p *render.Page) { capacityPage(a, p, k) })
		},
	}
	c.Flags().StringVar(&site, "site", "", "only nodes of this site")
	c.Flags().StringVar(&by, "by", "", "count by this `PART` of the places, too: zone, room, row, rack or domain")
	return c
}

var capacityHeads = []render.Column{
	render.Keep("SITE"), render.Keep("SKU"), render.Keep("GPUS"), render.Main("HEALTHY"), render.Keep("AVAILABLE"),
	render.Main("RESERVED"), render.Main("ALLOCATED"), render.More("IN TURNOVER"), render.Main("HELD"), render.Aside("MAINTENANCE"),
	render.Aside("OUT OF SERVICE"), render.Aside("UNKNOWN"), render.Aside("MEDIAN MIN"), render.Aside("P95 MIN"),
}

func capacityPage(a *app, p *render.Page, k *api.Capacity) {
	whole := func(v int64) string { return strconv.FormatInt(v, 10) }
	rows, heads := [][]string{}, slices.Clone(capacityHeads)
	if k.By != "" {
		heads = slices.Insert(heads, 2, render.Keep(strings.ToUpper(k.By)))
	}
	for _, r := range k.Rows {
		median, p95 := "", ""
		if r.Turnovers > 0 {
			median = strconv.FormatFloat(r.TurnoverMedianMinutes, 'f', 1, 64)
			p95 = strconv.FormatFloat(r.TurnoverP95Minutes, 'f', 1, 64)
		}
		row := []string{
			cmp.Or(r.Site, "-"), cmp.Or(r.SKU, "-"), whole(r.GPUs.Delivered), whole(r.GPUs.Healthy), whole(r.GPUs.Available),
			whole(r.GPUs.Reserved), whole(r.GPUs.Allocated), whole(r.GPUs.InTurnover), whole(r.GPUs.Held), whole(r.GPUs.Maintenance),
			whole(r.GPUs.OutOfService), whole(r.GPUs.Unknown), median, p95,
		}
		if k.By != "" {
			row = slices.Insert(row, 2, cmp.Or(r.Place, "-"))
		}
		rows = append(rows, row)
	}
	p.Table(heads, rows)
	if len(rows) == 0 {
		a.note("no nodes (create one: hostler node create)")
	}
}
