package health

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// kernel is a kernel's log that stays.
type kernel struct{ lines []string }

func (k *kernel) since(place uint64, keep func(string) bool) (machine.KernelSince, error) {
	s := machine.KernelSince{Next: uint64(len(k.lines))}
	for _, l := range k.lines[min(int(place), len(k.lines)):] {
		if keep(l) {
			s.Lines = append(s.Lines, l)
		}
	}
	return s, nil
}

func newWatch(t *testing.T, k *kernel) *Watch {
	t.Helper()
	now := begin
	return &Watch{
		BootID: "boot-1", File: filepath.Join(t.TempDir(), "health.json"), Rules: func() []profiles.HealthRule { return profiles.Minimal().HealthRules() },
		Ask: func(context.Context, string) (gpu.Looks, error) {
			return gpu.Looks{GPUs: []gpu.Look{well(nvidia)}}, nil
		},
		Lines: k.since, Bus: func(*machine.Machine) (map[string][]string, error) {
			return map[string][]string{"nvidia": {nvidia}}, nil
		},
		Now: func() time.Time { now = now.Add(time.Minute); return now }, Log: zaptest.NewLogger(t),
	}
}

func (w *Watch) must(t *testing.T) taskcatalog.HealthReport {
	t.Helper()
	r, err := w.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const fellOff = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus."

func TestAnAgentThatStartsAgainGoesOn(t *testing.T) {
	k := &kernel{lines: []string{"a line", fellOff}}
	w := newWatch(t, k)
	first := w.must(t)
	again := newWatch(t, k)
	again.File = w.File
	if r := again.must(t); Key(r) != Key(first) || r.Verdict != taskcatalog.HealthFailed || !r.GPUs[0].Reasons[0].Since.Equal(first.GPUs[0].Reasons[0].Since) {
		t.Errorf("%+v, and %+v", first, r)
	}
	// Killed before the state was written: the same lines are read again, and count once.
	if err := os.Remove(w.File); err != nil {
		t.Fatal(err)
	}
	if r := again.must(t); Key(r) != Key(first) || len(r.GPUs[0].Reasons) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestADamagedStateBeginsAnew(t *testing.T) {
	for _, text := range []string{"", "{", "null", `{"gpus":{"nvidia 0000:01:00.0":null}}`, `{"boot_id":"boot-1","place":-1}`} {
		w := newWatch(t, &kernel{lines: []string{fellOff}})
		if err := os.WriteFile(w.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := w.must(t); r.Verdict != taskcatalog.HealthFailed {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

func TestAProvenResetEndsWhatTheKernelLogged(t *testing.T) {
	k := &kernel{lines: []string{fellOff}}
	w := newWatch(t, k)
	w.must(t)
	k.lines = append(k.lines, "NVRM: Xid (PCI:0000:01:00): 48, logged while it was reset", "NVRM: Xid (PCI:0000:02:00): 48, of another GPU")
	if err := w.Reset("nvidia", []string{"GPU-of-another"}); err != nil {
		t.Fatal(err)
	}
	if r := w.must(t); r.Verdict != taskcatalog.HealthFailed {
		t.Errorf("the reset of another GPU: %+v", r)
	}
	if err := w.Reset("nvidia", []string{well(nvidia).UUID}); err != nil {
		t.Fatal(err)
	}
	if r := w.must(t); r.Verdict != taskcatalog.HealthHealthy {
		t.Errorf("after the reset: %+v", r)
	}
	k.lines = append(k.lines, fellOff)
	if r := w.must(t); r.Verdict != taskcatalog.HealthFailed {
		t.Errorf("a fault after the reset: %+v", r)
	}
}

func TestATaskHasTheGPUsForItself(t *testing.T) {
	w := newWatch(t, &kernel{})
	asked := 0
	w.Ask = func(context.Context, string) (gpu.Looks, error) {
		asked++
		return gpu.Looks{GPUs: []gpu.Look{well(nvidia)}}, nil
	}
	release := w.Hold()
	if _, err := w.Look(t.Context()); !errors.Is(err, ErrHeld) || asked != 0 {
		t.Errorf("a look beside a task: %v", err)
	}
	release()
	if w.must(t); asked != 1 {
		t.Errorf("%d looks after it", asked)
	}
}

// Each child that the driver does not let go would stay beside the others.
func TestADriverThatHoldsALookIsAskedSeldom(t *testing.T) {
	w := newWatch(t, &kernel{})
	asked := 0
	w.Ask = func(context.Context, string) (gpu.Looks, error) {
		asked++
		return gpu.Looks{}, taskcatalog.Errorf(gpu.CodeHelperStuck, "process 7 did not end")
	}
	var r taskcatalog.HealthReport
	for range 20 { // each reads the clock some times, of a minute each
		r = w.must(t)
	}
	if asked < 1 || asked > 3 || r.Verdict != taskcatalog.HealthUnknown || r.Reasons[0].Value != "helper_stuck" {
		t.Errorf("asked %d times: %+v", asked, r)
	}
}

func TestAMachineWithoutGPUs(t *testing.T) {
	w := newWatch(t, &kernel{lines: []string{fellOff}})
	w.Bus = func(*machine.Machine) (map[string][]string, error) { return map[string][]string{}, nil }
	if r := w.must(t); r.Verdict != taskcatalog.HealthHealthy || len(r.GPUs) != 0 || len(r.Reasons) != 0 {
		t.Errorf("%+v", r)
	}
	w.Bus = func(*machine.Machine) (map[string][]string, error) {
		return map[string][]string{"other": {"0000:05:00.0"}}, nil
	}
	for range lostLooks {
		w.must(t)
	}
	if r := w.must(t); r.Verdict != taskcatalog.HealthUnknown {
		t.Errorf("an accelerator that no library of ours knows: %+v", r)
	}
}

func TestOneAnswerHasWhatOneLookHides(t *testing.T) {
	w := newWatch(t, &kernel{})
	w.Ask = func(context.Context, string) (gpu.Looks, error) { return gpu.Looks{}, nil }
	if r, err := w.Once(t.Context()); err != nil || r.Verdict != taskcatalog.HealthFailed || r.GPUs[0].Reasons[0].Field != "answers" {
		t.Errorf("a GPU that is on the bus alone: %+v, %v", r, err)
	}
	w = newWatch(t, &kernel{})
	w.Ask = func(context.Context, string) (gpu.Looks, error) {
		return gpu.Looks{Problem: gpu.CodeLibraryMissing}, nil
	}
	if r, err := w.Once(t.Context()); err != nil || r.Verdict != taskcatalog.HealthUnknown || r.Reasons[0].Value != "library_missing" {
		t.Errorf("no library: %+v, %v", r, err)
	}
}

func TestAQuietLookWritesNothing(t *testing.T) {
	w := newWatch(t, &kernel{})
	w.must(t)
	was, err := os.Stat(w.File)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.must(t)
	}
	if is, err := os.Stat(w.File); err != nil || !os.SameFile(was, is) {
		t.Errorf("the state was written again: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(w.File))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func FuzzState(f *testing.F) {
	for _, s := range []string{"", "{}", `{"boot_id":"boot-1","place":1,"missed":{},"since":{},"gpus":{"nvidia 0000:01:00.0":{"base":{},"last":{"pcie_replays":-5},"best":{},"had":{"x":true},"runs":{"missing x":9}}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		name := filepath.Join(t.TempDir(), "health.json")
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _, _ := readState(name)
		n := newNode(t)
		n.state = s
		r := n.look()
		if len(r.GPUs) != 2 || !slices.Contains([]string{nvidia, amd}, r.GPUs[0].PCIAddress) {
			t.Errorf("%+v", r)
		}
	})
}
