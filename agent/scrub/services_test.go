package scrub

import (
	"slices"
	"testing"
	"time"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// A service that holds a GPU is stopped and put back; its process is not killed behind systemd's
// back.
func TestAServiceThatHoldsAGPUIsStoppedAndPutBack(t *testing.T) {
	t.Parallel()
	m := lay(t, map[string]string{
		"proc/4242/cgroup": "0::/system.slice/site-monitor.service\n", "proc/4243/cgroup": "0::/system.slice/site-monitor.service\n",
		"proc/4244/cgroup": "0::/user.slice/user-1000.slice/session-3.scope\n", "proc/4246/cgroup": "0::/system.slice/run-u7.service\n",
		"run/systemd/transient/run-u7.service": "",
	})
	systemd := &units{main: map[string]int{"site-monitor.service": 4242, "run-u7.service": 4246}}
	for pid, want := range map[int]string{4242: "site-monitor.service", 4243: "", 4244: "", 4245: "", 4246: ""} {
		if got, err := ServiceOf(t.Context(), m, systemd, pid); err != nil || got != want {
			t.Errorf("process %d is of %q (%v), want %q", pid, got, err, want)
		}
	}
	l := newLab(t, "nvidia")
	l.systemd.active["a.service"], l.systemd.active["b.service"] = true, true
	l.systemd.onStop = func(string) { l.systemd.active["b.service"] = false } // b.service depends on the first
	if err := l.stop(t.Context(), []string{"a.service", "b.service", "a.service", "idle.service"}); err != nil {
		t.Fatal(err)
	}
	l.putBack(t.Context())
	if !l.systemd.active["a.service"] || !l.systemd.active["b.service"] || l.systemd.active["idle.service"] {
		t.Errorf("after all: %v; asked %q", l.systemd.active, l.systemd.asked)
	}
}

// An unnamed service may be the tenant's, and would use the GPU again as soon as it runs.
func TestAServiceThatNobodyNamedIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.systemd.active["tenant.service"], l.systemd.active["other.service"], l.systemd.active["dcgm.service"] = true, true, true
	l.ledger.unnamed = []string{"of-an-earlier-scrub.service"}
	l.Progress = func(step string, _, _, _ int, message string) {
		if step != profiles.StepOverwrite || message != "" {
			return
		}
		l.systemd.active["dcgm.service"] = true // named, and running again
		l.systemd.onStop = func(string) {
			if !slices.Equal(l.ledger.unnamed, []string{"other.service", "tenant.service"}) {
				t.Errorf("one is stopped while the ledger knows %q", l.ledger.unnamed)
			}
		}
		if err := l.stopOthers(t.Context(), []string{"tenant.service", "other.service", "tenant.service", "dcgm.service"}); err != nil {
			t.Error(err)
		}
	}
	res := l.good()
	if l.systemd.active["tenant.service"] || slices.Contains(l.systemd.asked, "start tenant.service") || !l.systemd.active["dcgm.service"] {
		t.Errorf("asked %q", l.systemd.asked)
	}
	var stayed, back []string
	for _, i := range res.Stopped {
		if i.PutBack {
			back = append(back, i.Unit)
		} else {
			stayed = append(stayed, i.Unit)
		}
	}
	if res.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(stayed, []string{"other.service", "tenant.service"}) || !slices.Equal(back, []string{"dcgm.service"}) {
		t.Errorf("%s, %+v", res.Verdict, res.Stopped)
	}
}

// A tenant with root may give a unit of its own a daemon's name, and would have it started again as
// root.
func TestAUnitThatOnlyGoesByADaemonsNameIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	const lib, etc, transient = "/usr/lib/systemd/system/", "/etc/systemd/system/", "/run/systemd/transient/"
	for name, c := range map[string]struct {
		unit  string
		files []string
		back  bool
	}{
		"a package's":                       {"dcgm.service", []string{lib + "dcgm.service"}, true},
		"a package's, with its own drop-in": {"dcgm.service", []string{"/lib/systemd/system/dcgm.service", lib + "service.d/10-all.conf"}, true},
		"one in its place":                  {"dcgm.service", []string{etc + "dcgm.service"}, false},
		"a package's with something added":  {"dcgm.service", []string{lib + "dcgm.service", etc + "dcgm.service.d/x.conf"}, false},
		"a transient one":                   {"dcgm.service", []string{transient + "dcgm.service"}, false},
		"one of no file":                    {"dcgm.service", []string{""}, false},
		"one that the site names":           {"site.service", []string{etc + "site.service"}, true},
		"one that took the site's name":     {"site.service", []string{transient + "site.service"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Scrub{Stopped: &memory{}, Interval: time.Millisecond}
			l := &lab{t: t, Scrub: s, ledger: s.Stopped.(*memory)}
			l.systemd = &units{lab: l, active: map[string]bool{c.unit: true}, files: map[string][]string{c.unit: c.files}}
			s.Systemd, s.policy.StopServices = l.systemd, []string{"site.service"}
			if err := l.stop(t.Context(), []string{c.unit}); err != nil || l.systemd.active[c.unit] {
				t.Fatalf("%v: %v", err, l.systemd.active)
			}
			l.putBack(t.Context())
			if l.systemd.active[c.unit] != c.back || len(l.stopped) != 1 || l.stopped[0].Unit != c.unit || l.stopped[0].PutBack != c.back || len(l.ledger.names) != 0 {
				t.Errorf("active: %v, told: %+v, in the ledger: %q", l.systemd.active, l.stopped, l.ledger.names)
			}
		})
	}
}

// A service that does not stop is reported like a stopped service, because its state is unknown.
func TestAServiceThatDoesNotStopIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.systemd.failStop = errTest
	var failed error
	l.Progress = func(step string, _, _, _ int, message string) {
		if step == profiles.StepOverwrite && message == "" {
			failed = l.stopOthers(t.Context(), []string{"tenant.service"})
		}
	}
	if res := l.good(); failed == nil || len(res.Stopped) != 1 || res.Stopped[0].Unit != "tenant.service" || res.Stopped[0].PutBack {
		t.Errorf("%v, %+v", failed, res.Stopped)
	}
}
