package main

import (
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func decommissionAcceptCommand(a *app) *cobra.Command {
	var d api.DowngradeAccept
	c := &cobra.Command{
		Use: "accept-downgrade ID", Short: "accept what was done to a disk, which is less than was asked for", Args: exactly("ID"),
		Long: `Accept what was done to a disk although it is less than was asked for (platform
admin). It is for one disk of one turnover, as the downgrade on its last certificate
names it, and for what was done to it by then. Your name and the reason are on the
turnover's next certificate: retry it afterwards.`,
		Example: "  hostler certificate get r-019f2c1a7b3k5x7e2q9d4.1\n  hostler decommission accept-downgrade r-019f2c1a7b3k5x7e2q9d4 --device S5X0A11 --reason 'it goes back to the same project'\n  hostler decommission retry r-019f2c1a7b3k5x7e2q9d4 --wait",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needsFlags(c, "device"); err != nil {
				return err
			}
			if err := needReason(d.Reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.AcceptDowngrade(c.Context(), args[0], d)
			if err != nil {
				return err
			}
			return a.show(t, []string{t.DecommissionID}, func(p *render.Page) {
				p.Fields("turnover", t.DecommissionID, "node", t.NodeID, "disk", t.Device, "asked for", t.Asked, "done", t.Did,
					"accepted by", t.AcceptedBy, "because", t.Reason, "accepted", moment(a, t.AcceptedAt), "seen on", t.CertificateID)
				a.note("it is on the turnover's next certificate (hostler decommission retry %s)", t.DecommissionID)
			})
		},
	}
	c.Flags().StringVar(&d.Device, "device", "", "the disk, by its `SERIAL` as the certificate names it")
	reasonFlag(c, &d.Reason)
	return c
}
