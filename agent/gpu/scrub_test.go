package gpu_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

const mib = 1 << 20

func TestScrubFindsOverwritesAndVerifiesWhatATenantLeft(t *testing.T) {
	l := newLab(t, "scrub_on_free off")
	d := l.device(0)
	_, end := l.tenant(d, "4194304")
	end()
	phases := map[string]bool{}
	var last gpu.Progress
	r, err := l.Scrub(t.Context(), d, gpu.ScrubOptions{Nonce: nonce}, func(p gpu.Progress) { phases[p.Phase], last = true, p })
	if err != nil {
		t.Fatal(err)
	}
	if r.ResidueWords != 4*mib/8 {
		t.Errorf("%d words of residue, want %d", r.ResidueWords, 4*mib/8)
	}
	// The helper's own counter breaks the last piece of 2 MiB.
	if r.CoveredBytes != 12*mib || excluded(r.Excluded, gpu.ReservedByDriver) != 2*mib ||
		excluded(r.Excluded, gpu.NotFree)+excluded(r.Excluded, gpu.NotAllocatable) != 2*mib {
		t.Errorf("covered %d MiB, left out %+v", r.CoveredBytes/mib, r.Excluded)
	}
	if r.MismatchedWords != 0 || r.RemainingWords != 0 || r.ReadBackMismatches != 0 || r.ReadBackBytes < r.CoveredBytes/100 || !r.ComparedOnGPU {
		t.Errorf("%+v", r)
	}
	if r.FillRate == nil || r.VerifyRate == nil || r.MemsetRate == nil {
		t.Errorf("a rate is missing: %+v", r)
	}
	for _, phase := range []string{gpu.PhaseTake, gpu.PhaseFill, gpu.PhaseVerify, gpu.PhaseZero, gpu.PhaseCheck} {
		if !phases[phase] {
			t.Errorf("no progress of %s", phase)
		}
	}
	if last != (gpu.Progress{Phase: gpu.PhaseCheck, DoneBytes: r.CoveredBytes, TotalBytes: r.CoveredBytes}) {
		t.Errorf("the last progress is %+v", last)
	}
	if n, err := l.Count(0, "SECRET-OF-A-TENANT"); n != 0 || err != nil {
		t.Errorf("%d tokens are still there (%v)", n, err)
	}
	if p, err := l.probe(d, 100); err != nil || p.NonZeroWords != 0 || p.ReadBackNonZero != 0 || p.CoveredBytes != r.CoveredBytes {
		t.Errorf("the probe afterwards: %+v, %v", p, err)
	}
}

// A tenant's MPS daemon at the usual place would share a GPU with the helper as well.
func TestTheHelperJoinsNobodysMPS(t *testing.T) {
	l := newLab(t, "fault mps")
	d := l.device(0)
	if r, err := l.scrub(d); err != nil || r.CoveredBytes != 12*mib {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := l.probe(d, 100); err != nil {
		t.Error(err)
	}
}

func TestProbeChangesNothingAndTakesNoMoreThanItsPart(t *testing.T) {
	l := newLab(t)
	d := l.device(2)
	left := bytes.Repeat([]byte{0xa5}, 14*mib)
	if err := l.Plant(2, 2*mib, left); err != nil {
		t.Fatal(err)
	}
	l.faults("scrub_on_free off")
	r, err := l.probe(d, 50)
	if err != nil {
		t.Fatal(err)
	}
	if r.CoveredBytes != 6*mib || r.NonZeroWords != 6*mib/8 {
		t.Errorf("looked at %d MiB of 14 and saw %d words", r.CoveredBytes/mib, r.NonZeroWords)
	}
	if e := excluded(r.Excluded, gpu.NotAskedFor); e < 6*mib {
		t.Errorf("left out %+v", r.Excluded)
	}
	// Except for the counter, which is in this memory too.
	if n, err := l.Count(2, "\xa5"); err != nil || len(left)-n > 8 {
		t.Errorf("%d bytes of %d are as they were (%v)", n, len(left), err)
	}
}

// Each fault has its own true outcome, and affects only its own GPU.
func TestFaultsOfTheLibrary(t *testing.T) {
	cases := map[string]struct {
		config []string
		code   taskcatalog.Code
	}{
		"ECC error while verifying": {[]string{"fault.3 ecc_in_verify"}, gpu.CodeECCUncorrectable},
		"fault of the fill kernel":  {[]string{"fault.3 kernel_fault fill"}, gpu.CodeKernelFault},
		"fault while comparing":     {[]string{"fault.3 kernel_fault verify"}, gpu.CodeKernelFault},
		"lost in the middle":        {[]string{"fault.3 lost_after 4M"}, gpu.CodeDeviceLost},
		"fabric manager down":       {[]string{"fault.3 fabric_down"}, gpu.CodeFabricNotReady},
		"crash while filling":       {[]string{"fault.3 crash fill"}, gpu.CodeHelperCrashed},
		"crash while freeing":       {[]string{"fault.3 crash free"}, gpu.CodeHelperCrashed},
		"noise on every pipe":       {[]string{"fault.3 garbage verify"}, gpu.CodeHelperGarbage},
		"kernels refused":           {[]string{"fault.3 ptx_refused"}, gpu.CodeDriverFailed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			d, neighbour := l.device(3), l.device(4)
			l.faults(c.config...)
			_, err := l.scrub(d)
			if codeOf(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			if r, err := l.scrub(neighbour); err != nil || r.MismatchedWords != 0 || r.CoveredBytes != 12*mib {
				t.Errorf("its neighbour: %+v, %v", r, err)
			}
		})
	}
}

// Memory that ignores writes is found on the GPU, wherever it lies.
func TestAChunkThatKeepsOldDataIsFound(t *testing.T) {
	l := newLab(t, "fault.1 keeps_chunk 5M")
	d := l.device(1)
	if err := l.Plant(1, 5*mib, bytes.Repeat([]byte{0x77}, 65536)); err != nil {
		t.Fatal(err)
	}
	r, err := l.scrub(d)
	if err != nil {
		t.Fatal(err)
	}
	if r.ResidueWords != 8192 || r.MismatchedWords != 8192 || r.RemainingWords != 8192 {
		t.Errorf("%d, %d and %d words, want 8192 each", r.ResidueWords, r.MismatchedWords, r.RemainingWords)
	}
	if p, err := l.probe(d, 100); err != nil || p.NonZeroWords != 8192 {
		t.Errorf("the probe: %+v, %v", p, err)
	}
}

// A driver that drops writes and reports that all compares well is caught by the host's read-back.
func TestADriverThatLiesIsCaughtByReadingBack(t *testing.T) {
	l := newLab(t, "fault.1 drops_writes", "fault.1 lying_compare")
	d := l.device(1)
	r, err := l.scrub(d)
	if err != nil {
		t.Fatal(err)
	}
	if r.MismatchedWords != 0 {
		t.Errorf("the lie was found on the GPU: %+v", r)
	}
	if r.ReadBackMismatches == 0 {
		t.Error("nobody found it")
	}
}

func TestMemoryThatCannotBeHadIsSaidToBeLeftOut(t *testing.T) {
	l := newLab(t, "fault.5 oom_early 7M")
	r, err := l.scrub(l.device(5))
	if err != nil {
		t.Fatal(err)
	}
	if r.CoveredBytes != 6*mib || excluded(r.Excluded, gpu.NotAllocatable) == 0 {
		t.Errorf("covered %d MiB, left out %+v", r.CoveredBytes/mib, r.Excluded)
	}
	var sum uint64
	for _, e := range r.Excluded {
		sum += e.Bytes
	}
	if sum+r.CoveredBytes != r.Memory.Total {
		t.Errorf("%d covered and %d left out are not the %d there are", r.CoveredBytes, sum, r.Memory.Total)
	}
}

func TestAnInstanceIsScrubbedAlone(t *testing.T) {
	l := newLab(t, "fault.0 mig_on", "instances 2", "scrub_on_free off")
	s := l.Survey(t.Context(), "nvidia")
	g := s.GPUs[0]
	if g.Partition != "mig_enabled" || len(g.Instances) != 2 {
		t.Fatalf("%+v", g)
	}
	left := bytes.Repeat([]byte{1}, 14*mib)
	if err := l.Plant(0, 2*mib, left); err != nil {
		t.Fatal(err)
	}
	r, err := l.scrub(gpu.Device{Vendor: "nvidia", UUID: g.Instances[1].UUID})
	if err != nil {
		t.Fatal(err)
	}
	if r.Memory.Total != 7*mib || r.CoveredBytes != 6*mib || r.ResidueWords != 6*mib/8 {
		t.Errorf("%+v", r)
	}
	const want = (14*mib-6*mib)/8 - 1 // one word was the helper's counter
	if n, err := l.Count(0, "\x01\x01\x01\x01\x01\x01\x01\x01"); err != nil || n != want {
		t.Errorf("%d words are as they were, want %d (%v)", n, want, err)
	}
	// The divided GPU itself is no CUDA device any more.
	if _, err := l.scrub(gpu.Device{Vendor: "nvidia", UUID: g.UUID}); codeOf(err) != gpu.CodeDeviceMissing {
		t.Errorf("the divided GPU: %v", err)
	}
}

func TestADeviceThatLeftTheBusIsMissingAtTheProbe(t *testing.T) {
	l := newLab(t, "fault.6 vanishes_after 1")
	d, other := l.device(6), l.device(7)
	if _, err := l.scrub(d); err != nil {
		t.Fatal(err)
	}
	if _, err := l.probe(d, 100); codeOf(err) != gpu.CodeDeviceMissing {
		t.Errorf("%v", err)
	}
	if n := len(l.Survey(t.Context(), "nvidia").GPUs); n != devices-1 {
		t.Errorf("%d GPUs are there, want %d", n, devices-1)
	}
	if _, err := l.probe(other, 100); err != nil {
		t.Errorf("another GPU: %v", err)
	}
}

func TestSideBySideTheOthersFinish(t *testing.T) {
	l := newLab(t)
	var all []gpu.Device
	for _, g := range l.Survey(t.Context(), "nvidia").GPUs {
		all = append(all, gpu.Device{Vendor: g.Vendor, UUID: g.UUID})
	}
	l.faults("fault.1 crash verify", "fault.2 lost_after 1M", "fault.5 hang fill")
	want := map[int]taskcatalog.Code{1: gpu.CodeHelperCrashed, 2: gpu.CodeDeviceLost, 5: gpu.CodeHelperHung}
	for i, err := range gpu.InParallel(all, func(d gpu.Device) error {
		h := *l.Helper
		if d == all[5] {
			h.Silence = time.Second
		}
		_, err := h.Scrub(t.Context(), d, gpu.ScrubOptions{Nonce: nonce}, nil)
		return err
	}) {
		if codeOf(err) != want[i] {
			t.Errorf("GPU %d: %v, want %s", i, err, want[i])
		}
	}
}

func TestScrubWantsANonce(t *testing.T) {
	l := newLab(t)
	_, err := l.Scrub(t.Context(), l.device(0), gpu.ScrubOptions{Nonce: []byte("short")}, nil)
	if codeOf(err) != taskcatalog.CodeMalformed {
		t.Errorf("%v", err)
	}
}
