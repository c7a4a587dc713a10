package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func newFacts() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "facts",
		Short: "Show the facts of this machine, as the agent reports them",
		Long: `Facts reads PCI, drivers and vendor libraries, and changes nothing. Resolver
profiles match on the keys. A missing GPU, driver or library is an ordinary fact.`,
		Example: "  hostler-agent facts\n  hostler-agent facts -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			m, err := machine.Open("/")
			if err != nil {
				return err
			}
			defer func() { _ = m.Close() }()
			f, err := facts.Gather(cmd.Context(), m, survey(newGPUHelper()))
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), f, format, func(p *page) { factsPage(p, f) })
		},
	}
	formatFlag(cmd, &format)
	return cmd
}

// surveyTime limits how long facts wait for a helper: the agent cannot enrol meanwhile.
const surveyTime = 20 * time.Second

// survey asks each vendor's libraries, in processes of their own.
func survey(h *gpu.Helper) facts.Survey {
	return func(ctx context.Context) ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error) {
		ctx, cancel := context.WithTimeout(ctx, surveyTime)
		defer cancel()
		s := h.Survey(ctx, gpuVendors...)
		return s.GPUs, s.Libraries, nil
	}
}

func factsPage(p *page, f taskcatalog.Facts) {
	for _, k := range slices.Sorted(maps.Keys(f.Keys)) {
		p.line(k, f.Keys[k])
	}
	for _, g := range f.GPUs {
		memory := ""
		if g.MemoryBytes != nil {
			memory = fmt.Sprintf("%d MiB", *g.MemoryBytes>>20)
		}
		p.line(fmt.Sprintf("gpu %d", g.Index),
			strings.Join(slices.DeleteFunc([]string{g.UUID, g.Name, memory, g.PCIAddress, g.Partition}, empty), ", "))
		for _, i := range g.Instances {
			p.line("  instance", strings.TrimSpace(i.UUID+" "+i.Profile))
		}
	}
	for _, d := range f.Drivers {
		p.line("driver", strings.TrimSpace(d.Name+" "+d.Version))
	}
	for _, l := range f.Libraries {
		p.line("library", strings.Join(slices.DeleteFunc([]string{l.Name, l.Version, string(l.Problem), l.Detail}, empty), ", "))
	}
	for _, d := range f.PCI {
		known := slices.DeleteFunc([]string{d.Vendor + ":" + d.Device, "class " + d.Class, d.Driver}, empty)
		p.line("pci "+d.Address, strings.Join(known, ", "))
	}
}

func empty(s string) bool { return s == "" }
