package amd_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// helper is the agent's side: it queries this vendor through child processes.
func (l *lab) helper() (*gpu.Helper, []gpu.Device) {
	l.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	h := gpu.NewHelper(exe, helperWord)
	h.Env = l.env()
	h.Deadline, h.Silence, h.Grace = time.Minute, time.Minute, 10*time.Second
	s := h.Survey(l.t.Context(), "amd")
	var all []gpu.Device
	for _, g := range s.GPUs {
		all = append(all, gpu.Device{Vendor: g.Vendor, UUID: g.UUID})
	}
	return h, all
}

type outcome struct {
	result gpu.ScrubResult
	err    error
}

// Eight GPUs side by side, five of them faulty: each has its own true outcome and the others are
// clean.
func TestFaultyGPUsDoNotConcernTheOthers(t *testing.T) {
	l := newLab(t, allLibraries, "devices 8", "scrub_on_free off")
	h, all := l.helper()
	if len(all) != 8 {
		t.Fatalf("%d GPUs", len(all))
	}
	l.configure("devices 8", "scrub_on_free off", "fault.1 crash fill", "fault.2 garbage fill", "fault.3 keeps_chunk 4M", "fault.5 ecc_in_verify", "fault.6 lost_after 4M")
	want := map[int]taskcatalog.Code{1: gpu.CodeHelperCrashed, 2: gpu.CodeHelperGarbage, 5: gpu.CodeECCUncorrectable, 6: gpu.CodeDeviceLost}

	outcomes := gpu.InParallel(all, func(d gpu.Device) outcome {
		r, err := h.Scrub(t.Context(), d, gpu.ScrubOptions{Nonce: []byte("0123456789abcdef0123456789abcdef")}, nil)
		return outcome{r, err}
	})
	for i, o := range outcomes {
		if code := taskcatalog.CodeOf(o.err, ""); code != want[i] || (o.err == nil) != (want[i] == "") {
			t.Errorf("GPU %d: %v, want %q", i, o.err, want[i])
		}
		if o.err != nil {
			continue
		}
		if bad := o.result.MismatchedWords != 0; bad != (i == 3) || !o.result.ComparedOnGPU || o.result.CoveredBytes != 14*mib {
			t.Errorf("GPU %d: %+v", i, o.result)
		}
	}

	// A new process sees the remaining data, with counts.
	l.configure("devices 8", "scrub_on_free off")
	for i, d := range all {
		p, err := h.Probe(t.Context(), d, gpu.ProbeOptions{FreePercent: 100}, nil)
		if i == 6 {
			if taskcatalog.CodeOf(err, "") != gpu.CodeDeviceLost {
				t.Errorf("the lost GPU: %v", err)
			}
		} else if err != nil || i != 2 && (p.NonZeroWords != 0) != (i == 5) {
			// GPU 5 kept the unverified pattern, and GPU 1 was not filled; how far GPU 2 came
			// before its helper was killed is a matter of luck.
			t.Errorf("GPU %d: %+v, %v", i, p, err)
		}
	}
}

// Two devices in the facts, and one fewer at the next tenant's look.
func TestAGPUThatLeftTheBusIsMissing(t *testing.T) {
	l := newLab(t, allLibraries, "fault.0 vanishes_after 1")
	h, all := l.helper()
	if len(all) != 2 {
		t.Fatalf("%d GPUs", len(all))
	}
	o := gpu.ScrubOptions{Nonce: []byte("0123456789abcdef0123456789abcdef")}
	for _, d := range all {
		if _, err := h.Scrub(t.Context(), d, o, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Probe(t.Context(), all[0], gpu.ProbeOptions{FreePercent: 100}, nil); taskcatalog.CodeOf(err, "") != gpu.CodeDeviceMissing {
		t.Errorf("%v", err)
	}
	if _, err := h.Probe(t.Context(), all[1], gpu.ProbeOptions{FreePercent: 100}, nil); err != nil {
		t.Error(err)
	}
}

func TestAHangIsKilledAndNamed(t *testing.T) {
	l := newLab(t, allLibraries)
	h, all := l.helper()
	l.configure("fault.0 hang verify")
	// The machine may be slow to start a child: Silence grows until the child has filled.
	reached := false
	for h.Silence = time.Second / 2; !reached; h.Silence *= 4 {
		_, err := h.Scrub(t.Context(), all[0], gpu.ScrubOptions{Nonce: []byte("0123456789abcdef0123456789abcdef")}, func(p gpu.Progress) {
			reached = reached || p.Phase == gpu.PhaseFill && p.DoneBytes == p.TotalBytes
		})
		if taskcatalog.CodeOf(err, "") != gpu.CodeHelperHung || h.Silence > time.Minute {
			t.Fatalf("%v", err)
		}
	}
	l.configure("fault.0 hang reset")
	if err := h.Reset(t.Context(), "amd", []string{all[0].UUID}); taskcatalog.CodeOf(err, "") != gpu.CodeHelperHung {
		t.Errorf("a reset that hangs: %v", err)
	}
}

func TestHelpersSideBySideDoNotHoldTheGPUForEachOther(t *testing.T) {
	l := newLab(t, allLibraries)
	h, all := l.helper()
	l.configure("fault.0 hang verify")
	ctx, cancel := context.WithCancel(t.Context())
	filled, ended := make(chan bool, 1), make(chan bool)
	go func() {
		defer close(ended)
		_, _ = h.Scrub(ctx, all[0], gpu.ScrubOptions{Nonce: []byte("0123456789abcdef0123456789abcdef")}, func(p gpu.Progress) {
			if p.Phase == gpu.PhaseFill && p.DoneBytes == p.TotalBytes {
				filled <- true
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	select {
	case <-filled:
	case <-ended:
		t.Fatal("the first helper ended")
	}
	if got, err := h.Holders(t.Context(), all[0]); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// This vendor's results pass the checks on a child's output.
func TestTheHelperTakesWhatAMDSays(t *testing.T) {
	l := newLab(t, allLibraries, "devices 2", "hive 9", "bad_pages 2", "instances 2")
	h, all := l.helper()
	st, err := h.State(t.Context(), all[0])
	if err != nil || st.Settings.Partition != "DPX" || st.Domain == "" || len(st.Counters) != 3 || *st.Health.BadPages != 2 {
		t.Errorf("%+v, %v", st, err)
	}
	if got, err := h.Holders(t.Context(), all[0]); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	off, err := h.Apply(t.Context(), all[0], gpu.Settings{Partition: "SPX", ECC: new(false)})
	if err != nil || len(off) != 1 || off[0].Setting != "ecc" {
		t.Errorf("%+v, %v", off, err)
	}
	before := []gpu.State{st, {}}
	if before[1], err = h.State(t.Context(), all[1]); err != nil {
		t.Fatal(err)
	}
	if err := h.Reset(t.Context(), "amd", []string{all[0].UUID, all[1].UUID}); err != nil {
		t.Fatal(err)
	}
	for i, d := range all {
		after, err := h.State(t.Context(), d)
		if got := gpu.ResetWitnesses(before[i], after); err != nil || len(got) != 1 {
			t.Errorf("GPU %d: the witnesses are %v, %v", i, got, err)
		}
	}
	if err := h.CleanLocal(t.Context(), all[1]); err != nil {
		t.Error(err)
	}
}
