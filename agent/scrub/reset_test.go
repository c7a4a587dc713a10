package scrub

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAResetIsWhatItsWitnessesSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault, reset string
		code         taskcatalog.Code // with a policy that requires a proven reset
	}{
		"a true one":      {"", taskcatalog.ResetProven, ""},
		"one that lies":   {"fault.1 lying_reset", taskcatalog.ResetUnproven, taskcatalog.CodeGPUResetUnproven},
		"one that failed": {"fault.1 reset_failed", taskcatalog.ResetRefused, taskcatalog.CodeGPUResetRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "amd")
			l.faults(c.fault)
			res := l.good()
			g := l.want(res, 1, taskcatalog.VerdictClean, "")
			if g.Message != "" {
				t.Errorf("a clean GPU has the message %q", g.Message)
			}
			if g.Assurance.Reset != c.reset || res.Assurance.Reset != c.reset {
				t.Errorf("the reset is %s (%v), of all %s; want %s", g.Assurance.Reset, g.ResetWitnesses, res.Assurance.Reset, c.reset)
			}
			l = newLab(t, "amd")
			l.faults(c.fault)
			l.Params.Policy.RequireReset = true
			want := taskcatalog.VerdictClean
			if c.code != "" {
				want = taskcatalog.VerdictInconclusive
			}
			l.want(l.good(), 1, want, c.code)
		})
	}
}

// A process hidden from every look still blocks the reset of its GPU.
func TestAGPUThatIsInUseByNobodyWhoIsSeenIsNotClean(t *testing.T) {
	t.Parallel()
	for _, vendor := range []string{"amd", "nvidia"} {
		l := newLab(t, vendor)
		if vendor == "nvidia" {
			l.withReset()
		}
		l.faults("fault.1 in_use_on_reset")
		res := l.good()
		g := l.want(res, 1, taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent)
		if g.Assurance.Reset != taskcatalog.ResetRefused || l.of(res, 0).Assurance.Reset == taskcatalog.ResetRefused {
			t.Errorf("%s: %+v, %+v", vendor, g, l.of(res, 0).Assurance)
		}
	}
}

func TestWhatIsKnownToBeAtAGPUExplainsARefusedReset(t *testing.T) {
	busy := taskcatalog.Errorf(gpu.CodeDeviceBusy, "the GPU is in use")
	program, err := filepath.EvalSymlinks("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	was := managers
	t.Cleanup(func() { managers = was })
	managers = []manager{{"nvidia-fabricmanager.service", program}}
	for name, c := range map[string]struct {
		change func(l *lab)
		clean  bool
	}{
		"nothing":              {func(*lab) {}, false},
		"the display":          {func(l *lab) { l.Scrub.Machine = lay(t, map[string]string{"sys/module/nvidia_drm/refcnt": "1"}) }, true},
		"our own stuck helper": {func(l *lab) { l.units[1].failed("test", taskcatalog.Errorf(gpu.CodeHelperStuck, "stuck")) }, true},
		"a helper that hung":   {func(l *lab) { l.units[1].failed("test", taskcatalog.Errorf(gpu.CodeHelperHung, "hung")) }, false},
		"another vendor's":     {func(l *lab) { l.units[1].stuck, l.units[1].device.Vendor = true, "amd" }, false},
		"the fabric manager":   {func(l *lab) { l.systemd.main = map[string]int{"nvidia-fabricmanager.service": os.Getpid()} }, true},
		"one that is none":     {func(l *lab) { l.systemd.main = map[string]int{"nvidia-fabricmanager.service": 1} }, false},
		"a machine that tells no one": {func(l *lab) {
			l.Openers = func(*machine.Machine) ([]gpu.Opener, error) { return nil, errTest }
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, "nvidia")
			l.Openers = func(*machine.Machine) ([]gpu.Opener, error) {
				return []gpu.Opener{{PID: os.Getpid(), Nodes: []string{"/dev/nvidiactl"}}}, nil
			}
			if err := l.survey(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.change(l)
			u := l.units[0]
			l.afterReset([]*unit{u}, busy)
			if l.judgeBusy(t.Context()); (u.out.Verdict == taskcatalog.VerdictClean) != c.clean {
				t.Errorf("%s %s: %s", u.out.Verdict, u.out.Code, u.out.Message)
			}
		})
	}
}

// Persistence switched off with the persistence daemon is switched on again only after the reset,
// because it may block the reset.
func TestPersistenceIsNotSwitchedOnBeforeTheReset(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.withReset()
	on := true
	l.Params.Expected[1].Settings.Persistence = &on
	if g := l.want(l.good(), 1, taskcatalog.VerdictClean, ""); g.Assurance.Reset == taskcatalog.ResetRefused {
		t.Errorf("%+v", g.Assurance)
	}
	state, err := l.Helper.State(t.Context(), gpu.Device{Vendor: "nvidia", UUID: l.uuid(1)})
	if err != nil || state.Settings.Persistence == nil || !*state.Settings.Persistence {
		t.Errorf("persistence is not as before: %+v, %v", state.Settings, err)
	}
}

func TestNoResetIsTriedWhereTheTaskLeavesItOut(t *testing.T) {
	t.Parallel()
	l := newLab(t, "amd")
	l.Params.Reset = "never"
	res := l.good()
	if res.Verdict != taskcatalog.VerdictClean || res.Assurance.Reset != taskcatalog.ResetNotTried {
		t.Errorf("%s, %+v", res.Verdict, res.Assurance)
	}
	l = newLab(t, "nvidia")
	if res := l.good(); res.Assurance.Reset != taskcatalog.ResetUnsupported {
		t.Errorf("profiles without a reset: %+v", res.Assurance)
	}
}

// GPUs of a hive are reset together, or not at all.
func TestAHiveIsResetAsOne(t *testing.T) {
	t.Parallel()
	l := newLab(t, "amd", "hive 7")
	res := l.good()
	if g := l.of(res, 0); len(g.ResetGroup) != gpuCount || g.Assurance.Reset != taskcatalog.ResetProven {
		t.Errorf("%+v", g)
	}
	l = newLab(t, "amd", "hive 7")
	l.faults("hive 7", "fault.1 ecc_in_verify")
	res = l.good()
	if g := l.of(res, 0); g.Assurance.Reset != taskcatalog.ResetRefused || g.Code != taskcatalog.CodeGPUResetRefused {
		t.Errorf("a hive with a GPU that fell out: %+v", g)
	}
}

// A process on a GPU outside the reset loses the GPU all the same.
func TestAResetThatReachesANeighbourIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t, "amd")
	l.faults("fault.0 reset_disturbs 1", "fault.1 holder 4194000")
	l.Params.Policy.KeepHolders = true
	g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent)
	if len(g.ResetWitnesses) < witnesses || g.ResetGroup != nil {
		t.Errorf("%+v", g)
	}
}

// A display module blocks a reset although no process holds the GPU.
func TestWhatMayRefuseAResetIsNamed(t *testing.T) {
	t.Parallel()
	for vendor, want := range map[string]string{"nvidia": " (nvidia_drm and nvidia_modeset loaded, which may be the reason)", "amd": ""} {
		s := &Scrub{Machine: lay(t, map[string]string{"sys/module/nvidia_drm/refcnt": "1", "sys/module/nvidia_modeset/refcnt": "1"}), Log: zap.NewNop()}
		u := &unit{device: gpu.Device{Vendor: vendor}}
		if s.afterReset([]*unit{u}, errTest); u.refused != errTest.Error()+want || u.out.Message != "" || u.out.Assurance.Reset != taskcatalog.ResetRefused {
			t.Errorf("%s: %q, %+v", vendor, u.refused, u.out)
		}
	}
}
