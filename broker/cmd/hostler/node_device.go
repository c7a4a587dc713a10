package main

import (
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func nodeDeviceCommand(a *app) *cobra.Command {
	return noun("device", "the expected and the present parts of a node, by serial", "  hostler node device list gpu-07",
		nodeDeviceListCommand(a), nodeDeviceAcceptCommand(a))
}

func partTable(a *app, p *render.Page, all []api.NodeDevice) {
	rows := [][]string{}
	for _, d := range all {
		size := ""
		if d.SizeBytes > 0 {
			size = render.Bytes(d.SizeBytes)
		}
		rows = append(rows, []string{
			d.Kind, d.State, d.ID, d.Serial, d.Model, size, d.Place, d.Role, d.Transport,
			render.Ago(d.Since, a.now()), d.Reason,
		})
	}
	p.Table([]render.Column{
		render.Main("KIND"), render.Keep("STATE"), render.ID("ID"), render.More("SERIAL"), render.More("MODEL"),
		render.Aside("SIZE"), render.More("PLACE"), render.Aside("ROLE"), render.More("BUS"), render.More("SINCE"),
		render.Keep("BECAUSE"),
	}, rows)
}

func deviceIDs(all []api.NodeDevice) []string {
	ids := []string{}
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	return ids
}

func nodeDeviceListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list NODE", Short: "list a node's disks and GPUs: expected, found, missing, unexpected, removed", Args: exactly("NODE"),
		Long: `List a node's disks and GPUs by serial: expected (not yet checked), found, missing,
unexpected, or removed (confirmed by an operator). The expected disks are those
found by MAAS's commissioning, the expected GPUs those of the first enrolment.`,
		Example: "  hostler node device list gpu-07",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Devices(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(l, deviceIDs(l.Items), func(p *render.Page) {
				partTable(a, p, l.Items)
				if len(l.Items) == 0 {
					a.note("no parts are on record (parts are recorded when the node is let in)")
				}
			})
		},
	}
}

func nodeDeviceAcceptCommand(a *app) *cobra.Command {
	var d api.DeviceAccept
	c := &cobra.Command{
		Use:   "accept NODE SERIAL … --reason R",
		Short: "accept that missing parts were removed and that unexpected parts belong to the node", Args: exactly("NODE", "SERIAL …"),
		Long: `Accept that a missing part was removed, and that an unexpected part belongs to the
node; a replacement is both. Either all named parts are accepted, or none. A removed
part stays on record, because the data on it has left with it. The node's status
stays unchanged.

For a disk that is present, and whose size, bus or role differs between record and
report, the reported size and bus are recorded. With --system the disk is recorded
as one that the system runs from, which no erase touches; without --system, a disk
that is not recorded as a system disk becomes a data disk. Check the machine first:
this record decides which disks are erased.`,
		Example: "  hostler node device accept gpu-07 S5XANE0R400123 S5XANE0R400987 --reason 'disk replaced, ticket 4711'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(d.Reason); err != nil {
				return err
			}
			d.Devices = args[1:]
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.AcceptDevices(c.Context(), args[0], d)
			if err != nil {
				return err
			}
			return a.show(l, deviceIDs(l.Items), func(p *render.Page) { partTable(a, p, l.Items) })
		},
	}
	c.Flags().BoolVar(&d.System, "system", false, "the named parts are disks that the system runs from")
	reasonFlag(c, &d.Reason)
	return c
}
