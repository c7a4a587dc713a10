package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// probePercent is the share of the free memory that is read: the rest is left for a program that
// starts meanwhile.
const probePercent = 50

//go:embed gpu_probe.html
var probeHTML string

var probeTemplate = template.Must(template.New("probe").Funcs(template.FuncMap{"bytes": humanize.IBytes}).Parse(probeHTML))

// probedUnit is the next tenant's view of a unit.
type probedUnit struct {
	gpuUnit
	Probe *gpu.ProbeResult `json:"probe,omitempty"`
}

// Sees is the sentence of the report.
func (u probedUnit) Sees() string {
	switch {
	case u.Code != "":
		return fmt.Sprintf("not known: %s: %s", u.Code, u.Message)
	case u.held():
		return "not looked at: " + u.heldText()
	case u.Probe.CoveredBytes == 0:
		return "not looked at: it has no free memory"
	case u.Probe.NonZeroWords+u.Probe.ReadBackNonZero > 0:
		return fmt.Sprintf("%d words of somebody's data in %s", max(u.Probe.NonZeroWords, u.Probe.ReadBackNonZero),
			humanize.IBytes(u.Probe.CoveredBytes))
	case short(*u.Probe):
		return fmt.Sprintf("not looked at as a whole: nothing but zeros in %s, less than half of the free memory",
			humanize.IBytes(u.Probe.CoveredBytes))
	}
	return fmt.Sprintf("nothing but zeros in %s", humanize.IBytes(u.Probe.CoveredBytes))
}

// Finds reports whether non-zero data was found.
func (u probedUnit) Finds() bool {
	return u.Probe != nil && u.Probe.NonZeroWords+u.Probe.ReadBackNonZero > 0
}

// codeGPUNotLookedAt: nobody knows what the next tenant would see in a GPU.
const codeGPUNotLookedAt taskcatalog.Code = "gpu_not_looked_at"

type probeReport struct {
	Host      string                     `json:"host"`
	At        time.Time                  `json:"at"`
	Version   string                     `json:"agent_version"`
	GPUs      []probedUnit               `json:"gpus"`
	Libraries []taskcatalog.LibraryFacts `json:"libraries"`
}

// found returns the command's error: nil only if memory of every unit was looked at and had nothing
// but zeros.
func (r probeReport) found() error {
	dirty, dark := 0, 0
	for _, u := range r.GPUs {
		switch {
		case u.Finds():
			dirty++
		case u.Probe == nil || short(*u.Probe):
			dark++
		}
	}
	switch {
	case dirty > 0:
		return taskcatalog.Errorf(codeNotClean,
			"%d of %d GPUs hold somebody's data, and %d were not looked at (hostler-agent gpu scrub overwrites the memory)", dirty,
			len(r.GPUs), dark)
	case dark > 0:
		return taskcatalog.Errorf(codeGPUNotLookedAt,
			"%d of %d GPUs were not looked at, for the reasons above (end the processes that hold a GPU, repair what failed, then probe again%s)",
			dark, len(r.GPUs), rootHint())
	}
	return nil
}

// short reports that less than the requested share of the free memory was looked at, such as beside a
// program that started meanwhile. The smallest piece that can be taken is 2 MiB.
func short(r gpu.ProbeResult) bool {
	return r.CoveredBytes == 0 || r.CoveredBytes+2<<20 <= r.Memory.Free*probePercent/100
}

func newGPUProbe() *cobra.Command {
	var device, format, file string
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Show what the next tenant would see in the memory of the GPUs",
		Long: `Probe allocates half of the free memory of each GPU that nobody uses, counts the
non-zero words in it, and frees it. Probe writes nothing into the memory, changes no
setting, stops no process and talks to no broker. A GPU that a process holds, or may
hold, is left alone; only root can inspect the processes of others. Non-zero words
are counted and never shown, because they are somebody's data.

The exit status is 0 only if that half was checked on every GPU and held nothing but
zeros; the other half is not checked. The exit status is 1 if data was found, and 3
if a GPU was not checked, because it is held, has no free memory, or for another
reason.`,
		Example: "  hostler-agent gpu probe\n  hostler-agent gpu probe --device 0 -o json\n  hostler-agent gpu probe --html report.html",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			r, err := probeByHand(cmd, device)
			if err != nil {
				return err
			}
			if file != "" {
				if err := writeReport(file, r); err != nil {
					return err
				}
			}
			if err := show(cmd.OutOrStdout(), r, format, func(p *page) {
				p.row("GPU", "UUID", "NAME", "THE NEXT TENANT WOULD SEE")
				for _, u := range r.GPUs {
					p.row(strconv.Itoa(u.Index), u.UUID, u.Name, u.Sees())
				}
			}); err != nil {
				return err
			}
			return r.found()
		},
	}
	cmd.Flags().StringVar(&device, "device", "", "only this GPU: its `INDEX` or its uuid, or that of an instance")
	cmd.Flags().StringVar(&file, "html", "", "also write an HTML report to `FILE`")
	formatFlag(cmd, &format)
	return cmd
}

func probeByHand(cmd *cobra.Command, device string) (probeReport, error) {
	ctx, h := cmd.Context(), newGPUHelper()
	r := probeReport{At: time.Now().UTC().Truncate(time.Second), Version: version}
	r.Host, _ = os.Hostname()
	units, seen, err := gpuUnits(ctx, h, device)
	if err != nil {
		return r, err
	}
	r.Libraries = seen.Libraries
	if err := findHolders(ctx, h, units, seen.GPUs); err != nil {
		return r, err
	}
	progress := newGPUProgress(cmd.ErrOrStderr())
	defer progress.end()
	r.GPUs = make([]probedUnit, len(units))
	var wg sync.WaitGroup
	for i, u := range units {
		wg.Go(func() { r.GPUs[i] = probeUnit(ctx, h, u, progress.of(u)) })
	}
	wg.Wait()
	return r, ctx.Err()
}

func probeUnit(ctx context.Context, h *gpu.Helper, u gpuUnit, progress func(gpu.Progress)) probedUnit {
	p := probedUnit{gpuUnit: u}
	if u.held() || u.Code != "" {
		return p
	}
	result, err := h.Probe(ctx, u.Device, gpu.ProbeOptions{FreePercent: probePercent}, progress)
	if err != nil {
		p.fail(err)
		return p
	}
	p.Probe = &result
	return p
}

// writeReport replaces the file atomically.
func writeReport(name string, r probeReport) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".gpu-probe-*")
	if err != nil {
		return fmt.Errorf("cannot write the report %s: %w", name, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = errors.Join(probeTemplate.Execute(f, r), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("cannot write the report %s: %w", name, err)
	}
	return nil
}
