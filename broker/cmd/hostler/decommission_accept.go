package main

import (
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func decommissionAcceptCommand(a *app) *cobra.Command {
	var d api.DowngradeAccept
	c := &cobra.Command{
		Use: "accept-downgrade ID", Short: "accept a weaker erase of a disk than requested", Args: exactly("ID"),
		Long: `Accept a weaker erase of a disk than requested (platform admin). The decision covers
one disk of one turnover, as named by the downgrade on the turnover's last
certificate, and only the erase done by then. Your name and the reason appear on the
turnover's next certificate: retry the turnover afterwards.`,
		Example: "  hostler certificate get r-019f2c1a7b3k5x7e2q9d4.1\n  hostler decommission accept-downgrade r-019f2c1a7b3k5x7e2q9d4 --device S5X0A11 --reason 'the node returns to the same project'\n  hostler decommission retry r-019f2c1a7b3k5x7e2q9d4 --wait",
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
				a.note("the turnover's next certificate shows the decision (run hostler decommission retry %s)", t.DecommissionID)
			})
		},
	}
	c.Flags().StringVar(&d.Device, "device", "", "the disk, by its `SERIAL` as the certificate names it")
	reasonFlag(c, &d.Reason)
	return c
}
