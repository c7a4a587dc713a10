package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func siteRoCECommand(a *app) *cobra.Command {
	return noun("roce", "addresses of RoCE interfaces, by host", "  hostler site roce import dc1 roce.csv",
		siteRoCEImportCommand(a), siteRoCEListCommand(a), siteRoCEDeleteCommand(a))
}

func siteRoCEImportCommand(a *app) *cobra.Command {
	var put api.RoCEPut
	c := &cobra.Command{
		Use: "import SITE FILE.csv|FILE.json|-", Short: "store a list of addresses, all or none", Args: exactly("SITE", "FILE"),
		Long: `Store a list of addresses of RoCE interfaces, all or none. An interface that already
has an address gets the one from the list; interfaces that the list does not name
stay unchanged.

A CSV file begins with a line of column names, in any order: hostname, interface,
ipv4_cidr. JSON, also from stdin, has the form of the API: {"items": [{...}]}.`,
		Example: "  hostler site roce import dc1 roce.csv --reason 'rack b12'",
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := a.readUpTo(maxRoCEFile, args[1])
			if err != nil {
				return err
			}
			if put.Items, err = roceItems(args[1], raw); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.PutRoCE(c.Context(), args[0], put)
			if err != nil {
				return err
			}
			return a.show(r, nil, func(p *render.Page) {
				p.Line(fmt.Sprintf("%d new, %d changed, %d as they were", r.Created, r.Updated, r.Unchanged))
			})
		},
	}
	reasonFlag(c, &put.Reason)
	return c
}

const maxRoCEFile = 900 << 10 // bytes; the API takes a MiB

var roceColumns = []string{"hostname", "interface", "ipv4_cidr"}

// roceItems reads CSV with a header line, or JSON in the form of the API.
func roceItems(name string, raw []byte) ([]api.RoCEItem, error) {
	if !strings.HasSuffix(strings.ToLower(name), ".csv") {
		var put api.RoCEPut
		if err := taskcatalog.DecodeStrict(plainText(raw), &put); err != nil {
			return nil, broker.Errorf(broker.Invalid, "roce_invalid", `cannot use %s: it is no JSON object with "items" (%v)`, name, err)
		}
		return put.Items, nil
	}
	rows, err := csvRows(name, "roce_invalid", raw, roceColumns, nil)
	if err != nil {
		return nil, err
	}
	items := make([]api.RoCEItem, len(rows))
	for i, row := range rows {
		items[i] = api.RoCEItem{Hostname: row["hostname"], Interface: row["interface"], IPv4CIDR: row["ipv4_cidr"]}
	}
	return items, nil
}

func siteRoCEListCommand(a *app) *cobra.Command {
	var hostname string
	c := &cobra.Command{
		Use: "list SITE", Short: "list a site's addresses, by host", Args: exactly("SITE"),
		Example: "  hostler site roce list dc1 --hostname c07u31",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.RoCE(c.Context(), args[0], hostname)
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, r := range l.Items {
				ids = append(ids, r.ID)
				rows = append(rows, []string{r.Hostname, r.Interface, r.IPv4CIDR, r.ID})
			}
			return a.show(l, ids, func(p *render.Page) {
				p.Table([]render.Column{render.Keep("HOSTNAME"), render.Keep("INTERFACE"), render.Keep("ADDRESS"), render.ID("ID")}, rows)
				if len(rows) == 0 {
					a.note("no RoCE assignments (store some: hostler site roce import)")
				}
			})
		},
	}
	c.Flags().StringVar(&hostname, "hostname", "", "only addresses of this host")
	return c
}

func siteRoCEDeleteCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "delete SITE ID …", Short: "delete addresses", Args: exactly("SITE", "ID …"),
		Example: "  hostler site roce delete dc1 6f1c0f9e-7d0b-4a55-9c57-2f3f3f0f7f10 --reason 'recabled' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "delete %s of site %s?", plural(len(args)-1, "RoCE assignment"), args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			gone, ids := []api.RoCEAssignment{}, []string{}
			for _, id := range args[1:] {
				r, err := remote.RemoveRoCE(c.Context(), args[0], id, reason)
				if err != nil {
					return err
				}
				gone, ids = append(gone, *r), append(ids, r.ID)
			}
			return a.show(api.RoCEList{Items: gone}, ids, func(p *render.Page) {
				for _, r := range gone {
					p.Line("deleted: " + r.IPv4CIDR + " of " + r.Interface + " of " + r.Hostname)
				}
			})
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}
