package steps

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAUnitIsControlledAndItsStateIsTheProof(t *testing.T) {
	const unit = "demo.service"
	for _, c := range []struct {
		action      string
		on, enabled bool
		done        bool
		asks        []string
	}{
		{"start", false, false, false, []string{"start demo.service"}},
		{"start", true, false, true, []string{"start demo.service"}},
		{"stop", true, false, false, []string{"stop demo.service"}},
		{"stop", false, false, true, []string{"stop demo.service"}},
		{"restart", true, true, false, []string{"restart demo.service"}}, // the unit that runs may be the one from before
		{"enable", false, false, false, []string{"enable demo.service", "reload"}},
		{"enable", false, true, true, []string{"enable demo.service", "reload"}},
		{"disable", false, true, false, []string{"disable demo.service", "reload"}},
		{"disable", false, false, true, []string{"disable demo.service", "reload"}},
	} {
		h, _ := hosttest.Box(t)
		d := h.Systemd.(*hosttest.Systemd)
		d.On, d.Enabled = map[string]bool{unit: c.on}, map[string]bool{unit: c.enabled}
		d.Obeys = true
		s := aStep(t, h, "service.control", Args{"unit": unit, "action": c.action})
		if look(t, s) != c.done || len(d.Asked) > 0 {
			t.Errorf("%+v: done is %t, and systemd was asked %q", c, !c.done, d.Asked)
		}
		if _, err := do(t, s); err != nil || !slices.Equal(d.Asked, c.asks) {
			t.Errorf("%+v: systemd was asked %q: %v", c, d.Asked, err)
		}
	}
}

// A start whose condition does not hold, and an enable of a unit that is static, end well.
func TestAUnitThatIsNotAsTheActionLeavesItFailsTheStep(t *testing.T) {
	const unit = "demo.service"
	for _, action := range []string{"start", "stop", "restart", "enable", "disable"} {
		h, _ := hosttest.Box(t)
		d := h.Systemd.(*hosttest.Systemd)
		d.On, d.Enabled = map[string]bool{unit: action == "stop"}, map[string]bool{unit: action == "disable"}
		if _, err := do(t, aStep(t, h, "service.control", Args{"unit": unit, "action": action})); taskcatalog.CodeOf(err, "") != CodeUnitState {
			t.Errorf("%s: %v", action, err)
		}
	}
}

// A unit of the type oneshot that does not remain is inactive when its start has ended: its run is the proof.
func TestAOneshotUnitIsJudgedByItsRun(t *testing.T) {
	const unit = "demo.service"
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	run := func(end time.Duration, result string, exit int, oneshot bool) host.UnitRun {
		return host.UnitRun{StartedAt: at, FinishedAt: at.Add(end), Result: result, ExitStatus: exit, Oneshot: oneshot}
	}
	former := run(time.Second, "success", 0, true)
	running := former
	running.FinishedAt = time.Time{}
	for name, c := range map[string]struct {
		before, after host.UnitRun
		done          bool
	}{
		"the first run":                     {host.UnitRun{Oneshot: true}, run(time.Minute, "success", 0, true), true},
		"another run":                       {former, run(time.Minute, "success", 0, true), true},
		"a run that was joined":             {running, run(time.Minute, "success", 0, true), true},
		"no run: a condition does not hold": {former, former, false},
		"never a run":                       {host.UnitRun{Oneshot: true}, host.UnitRun{Oneshot: true, Result: "success"}, false},
		"a run that goes on":                {former, running, false},
		"a failure":                         {former, run(time.Minute, "exit-code", 1, true), false},
		"a condition that is a program":     {former, run(time.Minute, "exec-condition", 0, true), false},
		"a daemon that ended at once":       {former, run(time.Minute, "success", 0, false), false},
	} {
		for _, action := range []string{"start", "restart"} {
			h, _ := hosttest.Box(t)
			d := h.Systemd.(*hosttest.Systemd)
			d.Runs = map[string]host.UnitRun{unit: c.before}
			d.OnStart = func(string) error { d.Runs[unit] = c.after; return nil }
			s := aStep(t, h, "service.control", Args{"unit": unit, "action": action})
			_, err := do(t, s)
			if c.done && err != nil || !c.done && taskcatalog.CodeOf(err, "") != CodeUnitState {
				t.Errorf("%s, %s: %v", action, name, err)
			}
			if look(t, s) {
				t.Errorf("%s, %s: a look finds a run that may be of others", action, name)
			}
		}
	}
}
