package scrub

import (
	"slices"
	"testing"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// A service that holds a GPU is stopped and put back; its process is not killed
// behind systemd's back.
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
	l.systemd.onStop = func(string) { l.systemd.active["b.service"] = false } // it depends on the first
	if err := l.stop(t.Context(), []string{"a.service", "b.service", "a.service", "idle.service"}); err != nil {
		t.Fatal(err)
	}
	l.putBack(t.Context())
	if !l.systemd.active["a.service"] || !l.systemd.active["b.service"] || l.systemd.active["idle.service"] {
		t.Errorf("after all: %v; asked %q", l.systemd.active, l.systemd.asked)
	}
}

// A service that nobody named may be the tenant's, with its hands at the GPU again
// as soon as it runs.
func TestAServiceThatNobodyNamedIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.systemd.active["tenant.service"], l.systemd.active["other.service"], l.systemd.active["dcgm.service"] = true, true, true
	l.ledger.unnamed = []string{"of-an-earlier-scrub.service"}
	l.Progress = func(step string, _, _, _ int, message string) {
		if step != profiles.StepOverwrite || message != "" {
			return
		}
		l.systemd.active["dcgm.service"] = true // it is named, and came back
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

// A service that does not stop is told like one that did: nobody knows what of it is
// left.
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
