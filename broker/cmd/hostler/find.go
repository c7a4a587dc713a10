package main

import (
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func findCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "find WORD", Short: "find a thing by its id, name, serial number or address", Args: exactly("WORD"),
		Long: `Find a node, device, allocation, run, task, certificate, attestation, terminal session,
organisation, project, reservation or webhook by a word: an id, name, hostname, serial
number, MAC address, UUID, MAAS id or IP address. Deleted nodes and ended tenants are
found, too. The address of a BMC finds its node. The word must be whole. A MAC address
and a UUID may be written with or without separators. Terminal sessions are for
operators.`,
		Example: "  hostler find 7C3K2X3\n  hostler find aabbcc001122\n  hostler find 10.0.0.7 -o json\n  hostler find acme/lab",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			list, err := remote.Find(c.Context(), args[0])
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, f := range list.Items {
				ids = append(ids, f.ID)
				rows = append(rows, []string{f.Kind, f.ID, f.By, f.Status, f.Hostname, f.NodeID, f.Site, f.What})
			}
			return a.show(list, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.Keep("KIND"), render.ID("ID"), render.Main("MATCHES"), render.Keep("STATUS"), render.Keep("NODE"),
					render.More("NODE ID"), render.Main("SITE"), render.Aside("WHAT"),
				}, rows)
				if len(rows) == 0 {
					a.note("nothing has this name (the whole name is needed, not a part of it)")
				}
				if list.More {
					a.note("some things are left out: more than 100 have this name")
				}
			})
		},
	}
}
