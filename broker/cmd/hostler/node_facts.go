package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func nodeFactsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "facts NODE", Short: "show the facts of a node: GPUs, drivers, libraries, devices", Args: exactly("NODE"),
		Long: `Show the hardware and software of a node, as last reported by its agent. Resolver
profiles and selectors (gpu.vendor=nvidia) match on these keys.`,
		Example: "  hostler node facts gpu-07\n  hostler node facts gpu-07 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			f, err := remote.Facts(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(f, []string{f.NodeID}, func(p *render.Page) {
				p.Fields("node", f.NodeID, "hostname", f.Hostname, "serial", f.Facts.ChassisSerial, "reported", moment(a, f.ReportedAt))
				pairs(p, "Keys", f.Facts.Keys)
				gpuTable(p, f.Facts.GPUs)
				softwareTable(p, f.Facts)
				diskTable(p, f.Facts.Disks)
				deviceTable(p, f.Facts.PCI)
			})
		},
	}
}

func gpuTable(p *render.Page, gpus []taskcatalog.GPUFacts) {
	if len(gpus) == 0 {
		return
	}
	p.Title("GPUs")
	rows := [][]string{}
	for _, g := range gpus {
		partition := g.Partition
		if g.PartitionPending != "" {
			partition += " (" + g.PartitionPending + " after a reset)"
		}
		rows = append(rows, []string{
			fmt.Sprint(g.Index), g.UUID, g.Serial, g.Name, g.Architecture, bytesText(g.MemoryBytes), g.PCIAddress,
			partition,
		})
		for _, i := range g.Instances {
			rows = append(rows, []string{"", i.UUID, "", i.Profile, "", bytesText(i.MemoryBytes), "", "instance"})
		}
	}
	p.Table([]render.Column{
		render.Keep("#"), render.Aside("UUID"), render.Main("SERIAL"), render.Keep("NAME"),
		render.Aside("ARCHITECTURE"), render.More("MEMORY"), render.Main("ADDRESS"), render.More("PARTITION"),
	}, rows)
}

// bytesText is empty for a missing figure.
func bytesText(n *uint64) string {
	if n == nil {
		return ""
	}
	return render.Bytes(int64(*n))
}

func softwareTable(p *render.Page, f taskcatalog.Facts) {
	rows := [][]string{}
	for _, d := range f.Drivers {
		rows = append(rows, []string{"driver", d.Name, d.Version, ""})
	}
	for _, l := range f.Libraries {
		rows = append(rows, []string{"library", l.Name, l.Version, strings.TrimSpace(string(l.Problem) + " " + l.Detail)})
	}
	if len(rows) > 0 {
		p.Title("Drivers and libraries")
		p.Table(render.Kept("KIND", "NAME", "VERSION", "PROBLEM"), rows)
	}
}

func diskTable(p *render.Page, disks []taskcatalog.DiskFacts) {
	rows := [][]string{}
	for _, d := range disks {
		size := ""
		if d.SizeBytes > 0 {
			size = render.Bytes(d.SizeBytes)
		}
		rows = append(rows, []string{d.Name, d.Serial, d.WWID, d.Model, size, d.Transport, d.Problem})
	}
	if len(rows) > 0 {
		p.Title("Disks")
		p.Table([]render.Column{
			render.Keep("NAME"), render.Keep("SERIAL"), render.Aside("WWID"), render.More("MODEL"), render.Main("SIZE"),
			render.Aside("TRANSPORT"), render.Keep("PROBLEM"),
		}, rows)
	}
}

func deviceTable(p *render.Page, devices []taskcatalog.PCIDevice) {
	rows := [][]string{}
	for _, d := range devices {
		numa := ""
		if d.NUMANode != nil {
			numa = fmt.Sprint(*d.NUMANode)
		}
		rows = append(rows, []string{d.Address, d.Vendor + ":" + d.Device, d.Class, d.Driver, numa, d.IOMMUGroup})
	}
	if len(rows) > 0 {
		p.Title("PCI")
		p.Table([]render.Column{
			render.Keep("ADDRESS"), render.ID("ID"), render.Keep("CLASS"), render.Main("DRIVER"), render.Aside("NUMA"),
			render.Aside("IOMMU"),
		}, rows)
	}
}
