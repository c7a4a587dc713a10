package main

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// scrubbedUnit is the result of a unit. Steps not reached are missing.
type scrubbedUnit struct {
	gpuUnit
	Verdict         taskcatalog.Verdict `json:"verdict"`
	CoveragePercent *float64            `json:"coverage_percent,omitempty"`
	Scrub           *gpu.ScrubResult    `json:"scrub,omitempty"`
	Probe           *gpu.ProbeResult    `json:"probe,omitempty"` // by a fresh process, afterwards
	ECC             *uint64             `json:"ecc_uncorrected_during,omitempty"`
}

func newGPUScrub() *cobra.Command {
	var device, format string
	var noReset, noQuiesce bool
	cmd := &cobra.Command{
		Use:   "scrub --no-reset --no-quiesce",
		Short: "Overwrite the memory of GPUs, verify it, and check again",
		Long: `Scrub allocates all available memory of a GPU, overwrites it with a pattern that
nobody can know, compares it on the GPU, clears it and checks again in a new
process. Nothing is stopped, reset or set. If a process holds one of the GPUs, or
may hold it, the command exits with status 3 before it touches any. The old content
is lost.

Only the task node.gpu_scrub of a broker stops the holders of a GPU, resets the GPU
and restores what it stopped. Therefore both options must be given.`,
		Example: "  hostler-agent gpu scrub --no-reset --no-quiesce --device 0\n  hostler-agent gpu scrub --no-reset --no-quiesce -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			if !noReset || !noQuiesce {
				return usage("a scrub by hand stops nothing and resets nothing: give --no-reset and --no-quiesce, or enqueue node.gpu_scrub at the broker")
			}
			all, libraries, err := scrubByHand(cmd, device)
			if err != nil {
				return err
			}
			if err := show(cmd.OutOrStdout(), map[string]any{"gpus": all, "libraries": libraries}, format,
				func(p *page) { scrubPage(p, all) }); err != nil {
				return err
			}
			return verdictError(all)
		},
	}
	cmd.Flags().StringVar(&device, "device", "", "only this GPU: its `INDEX` or its uuid, or that of an instance")
	cmd.Flags().BoolVar(&noReset, "no-reset", false, "reset no GPU")
	cmd.Flags().BoolVar(&noQuiesce, "no-quiesce", false, "stop no process that holds a GPU")
	formatFlag(cmd, &format)
	return cmd
}

func scrubByHand(cmd *cobra.Command, device string) ([]scrubbedUnit, []taskcatalog.LibraryFacts, error) {
	ctx, h := cmd.Context(), newGPUHelper()
	units, seen, err := gpuUnits(ctx, h, device)
	if err != nil {
		return nil, nil, err
	}
	if err := findHolders(ctx, h, units, seen.GPUs); err != nil {
		return nil, nil, err
	}
	if i := slices.IndexFunc(units, gpuUnit.held); i >= 0 {
		return nil, nil, taskcatalog.Errorf(taskcatalog.CodeGPUHolderPresent,
			"cannot scrub GPU %d, %s: %s (nothing was touched; end the processes that hold the GPU, then scrub again%s)", units[i].Index,
			units[i].UUID, units[i].heldText(), rootHint())
	}
	nonce := make([]byte, 32)
	if _, err := rand.Read(nonce); err != nil {
		return nil, nil, err
	}
	progress := newGPUProgress(cmd.ErrOrStderr())
	defer progress.end()
	all := make([]scrubbedUnit, len(units))
	var wg sync.WaitGroup
	for i, u := range units {
		wg.Go(func() {
			all[i] = scrubbedUnit{gpuUnit: u, Verdict: taskcatalog.VerdictInconclusive}
			if u.Code == "" {
				all[i].run(cmd, h, nonce, progress.of(u))
			}
		})
	}
	wg.Wait()
	judgeParents(all, seen.GPUs)
	return all, seen.Libraries, ctx.Err()
}

// judgeParents judges the memory of each GPU that is in none of its instances, if the whole GPU was
// requested: nobody overwrote this memory.
func judgeParents(all []scrubbedUnit, seen []taskcatalog.GPUFacts) {
	for _, g := range seen {
		var its []*scrubbedUnit
		var inside uint64
		for i := range all {
			if s := &all[i]; s.Parent == g.UUID {
				its = append(its, s)
				if s.Scrub != nil {
					inside += s.Scrub.Memory.Total
				}
			}
		}
		if len(its) < max(1, len(g.Instances)) {
			continue // a single instance was requested: no statement about its GPU
		}
		why := ""
		if g.MemoryBytes == nil {
			why = fmt.Sprintf("GPU %s does not report how much of its memory belongs to no instance", g.UUID)
		} else if m := (gpu.MemoryInfo{
			Total:    *g.MemoryBytes,
			Reserved: g.ReservedBytes,
		}); !gpu.MeetsPolicy(g.Vendor, m, inside, taskcatalog.GPUScrubPolicy{}) {
			why = fmt.Sprintf("only %.1f percent of GPU %s are in instances that were scrubbed (turn partitioning off, then scrub the whole GPU)", gpu.Coverage(m, inside), g.UUID)
		}
		for _, s := range its {
			if why != "" && s.Verdict == taskcatalog.VerdictClean {
				s.Verdict, s.Code, s.Message = taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, why
			}
		}
	}
}

// run scrubs a unit and probes it in a new process.
func (s *scrubbedUnit) run(cmd *cobra.Command, h *gpu.Helper, nonce []byte, progress func(gpu.Progress)) {
	ctx := cmd.Context()
	fail := func(err error) {
		s.Verdict, s.Code, s.Message = gpu.JudgeFailure(err)
	}
	before, err := h.State(ctx, s.Device)
	if err != nil {
		fail(err)
		return
	}
	scrub, err := h.Scrub(ctx, s.Device, gpu.ScrubOptions{Nonce: nonce}, progress)
	if err != nil {
		fail(err)
		return
	}
	percent := gpu.Coverage(scrub.Memory, scrub.CoveredBytes)
	s.Scrub, s.CoveragePercent = &scrub, &percent
	probe, err := h.Probe(ctx, s.Device, gpu.ProbeOptions{FreePercent: 100}, progress)
	if err != nil {
		fail(err)
		return
	}
	s.Probe = &probe
	s.Verdict, s.Code, s.Message = gpu.JudgeMemory(s.Vendor, scrub, probe, taskcatalog.GPUScrubPolicy{})
	after, err := h.State(ctx, s.Device)
	if err != nil {
		fail(err)
		return
	}
	if was, is := before.Health.ECCUncorrected, after.Health.ECCUncorrected; was != nil && is != nil && *is >= *was {
		more := *is - *was
		if s.ECC = &more; more > 0 {
			s.Verdict, s.Code = taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault
			s.Message = fmt.Sprintf("%d uncorrectable ECC errors during the scrub", more)
		}
	}
}

func scrubPage(p *page, all []scrubbedUnit) {
	p.row("GPU", "UUID", "VERDICT", "COVERED", "RESIDUE", "WRONG", "LEFT", "SEEN AFTER", "WRITTEN", "VERIFIED", "MEMSET")
	for _, s := range all {
		cells := []string{strconv.Itoa(s.Index), s.UUID, string(s.Verdict)}
		if s.Scrub != nil {
			cells = append(cells,
				fmt.Sprintf("%s, %.1f %%", humanize.IBytes(s.Scrub.CoveredBytes), *s.CoveragePercent),
				words(s.Scrub.ResidueWords), words(s.Scrub.MismatchedWords+s.Scrub.ReadBackMismatches), words(s.Scrub.RemainingWords))
			seen := "-"
			if s.Probe != nil {
				seen = words(s.Probe.NonZeroWords + s.Probe.ReadBackNonZero)
			}
			cells = append(cells, seen, rateText(s.Scrub.FillRate), rateText(s.Scrub.VerifyRate), rateText(s.Scrub.MemsetRate))
		}
		p.row(cells...)
	}
	for _, s := range all {
		if s.Code != "" {
			p.row(fmt.Sprintf("gpu %d: %s: %s", s.Index, s.Code, s.Message))
		}
		for _, e := range excludedOf(s) {
			p.row(fmt.Sprintf("gpu %d: left out %s: %s", s.Index, humanize.IBytes(e.Bytes), e.Reason))
		}
	}
}

func excludedOf(s scrubbedUnit) []gpu.Exclusion {
	if s.Scrub == nil {
		return nil
	}
	return s.Scrub.Excluded
}

func words(n uint64) string { return fmt.Sprintf("%d words", n) }

// verdictError returns the command's error: nil only if all units are clean.
func verdictError(all []scrubbedUnit) error {
	n := 0
	for _, s := range all {
		if s.Verdict != taskcatalog.VerdictClean {
			n++
		}
	}
	if n > 0 {
		return taskcatalog.Errorf(codeNotClean, "%d of %d GPUs are not clean, for the reasons above", n, len(all))
	}
	return nil
}
