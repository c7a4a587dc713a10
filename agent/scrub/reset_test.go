package scrub

import (
	"testing"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAResetIsWhatItsWitnessesSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault, reset string
		code         taskcatalog.Code // with a policy that wants a proven reset
	}{
		"a true one":       {"", taskcatalog.ResetProven, ""},
		"one that lies":    {"fault.1 lying_reset", taskcatalog.ResetUnproven, taskcatalog.CodeGPUResetUnproven},
		"one that is busy": {"fault.1 in_use_on_reset", taskcatalog.ResetRefused, taskcatalog.CodeGPUResetRefused},
		"one that failed":  {"fault.1 reset_failed", taskcatalog.ResetRefused, taskcatalog.CodeGPUResetRefused},
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

// GPUs of one hive are reset together, or not at all.
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

// Whoever is at a GPU that is left alone loses it all the same.
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

// A module of the display keeps a GPU from being reset, though nobody holds it.
func TestWhatMayRefuseAResetIsNamed(t *testing.T) {
	t.Parallel()
	for vendor, want := range map[string]string{"nvidia": " (nvidia_drm and nvidia_modeset loaded, which may be why)", "amd": ""} {
		s := &Scrub{Machine: lay(t, map[string]string{"sys/module/nvidia_drm/refcnt": "1", "sys/module/nvidia_modeset/refcnt": "1"}), Log: zap.NewNop()}
		u := &unit{device: gpu.Device{Vendor: vendor}}
		if s.afterReset([]*unit{u}, errTest); u.refused != errTest.Error()+want || u.out.Message != "" || u.out.Assurance.Reset != taskcatalog.ResetRefused {
			t.Errorf("%s: %q, %+v", vendor, u.refused, u.out)
		}
	}
}
