package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/rollout"
)

func TestASoakLooksAgain(t *testing.T) {
	for code, as := range map[string]func(*machine){
		"agent_silent":        func(m *machine) { m.quiet = true },
		"version_not_running": func(m *machine) { m.version = "1.3.0" },
		"device_missing":      func(m *machine) { m.seen.Unfit = []string{"device_missing"} },
	} {
		t.Run(code, func(t *testing.T) {
			w := newWorld(t, 4)
			w.start(request())
			w.settle(time.Minute)
			as(w.machines[id(0)])
			w.settle(time.Hour)
			m := w.member(0)
			want := rollout.Failed
			if code == "device_missing" {
				want = rollout.TakenBack
			}
			if m.Result != want || m.Code != code {
				t.Errorf("it is %+v", m)
			}
			if r, _ := w.rollout(); r.Status != chain.FailedManual {
				t.Errorf("the rollout is %s", r.Status)
			}
		})
	}
}

// A release that the node's own watcher put back while it proved itself is reported as rolled
// back, whoever sees it.
func TestWhatANodePutsBackItselfIsToldAsThat(t *testing.T) {
	back := func(m *machine, run string) {
		m.version, m.seen.PutBack, m.seen.Delivered = "1.3.0", "crash_loop", run
	}
	for name, c := range map[string]struct {
		run    string // whose delivery the node has put back
		result rollout.Result
		code   string
		says   string
	}{
		"what this run gave it": {"r-n-000", rollout.RolledBack, "rolled_back", "crash_loop"},
		"a delivery of nobody":  {"", rollout.Failed, "version_not_running", "by now"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4)
			w.start(request())
			w.settle(time.Minute)
			back(w.machines[id(0)], c.run)
			w.settle(time.Hour)
			if m := w.member(0); m.Result != c.result || m.Code != c.code || !strings.Contains(m.Why, c.says) || m.Counts != rollout.Counted {
				t.Errorf("in its soak it is %+v", m)
			}
			if r, _ := w.rollout(); r.Status != chain.FailedManual {
				t.Errorf("the rollout is %s", r.Status)
			}

			w = newWorld(t, 4)
			w.machines[id(0)].makes = "version_unverified" // its run looks before the rollout does
			back(w.machines[id(0)], c.run)
			w.start(request())
			w.settle(time.Hour)
			want := c.code
			if c.result == rollout.Failed {
				want = "version_unverified"
			}
			if m := w.member(0); m.Result != c.result || m.Code != want || m.Counts != rollout.Counted {
				t.Errorf("in its run it is %+v", m)
			}
		})
	}
}

// Changes by other parties are no failure of the release, and no node is taken back for them.
func TestASoakIsNotForWhatOthersDo(t *testing.T) {
	for name, as := range map[string]func(*machine){
		"a run has it":               func(m *machine) { m.inRun, m.quiet = "r-other", true },
		"a person drains it":         func(m *machine) { m.seen.OutOfUse, m.seen.Unfit = true, []string{"node_status"} },
		"and it is off":              func(m *machine) { m.seen.OutOfUse, m.quiet = true, true },
		"a person gave it another":   func(m *machine) { m.version, m.seen.Delivered = "1.5.0", "r-other" },
		"its certificate runs short": func(m *machine) { m.seen.Unfit = []string{"certificate_falls_short", "turnover_owed"} },
		"a tenant pulls a device":    func(m *machine) { m.busy, m.seen.Unfit = true, []string{"device_missing"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4)
			req := request()
			req.OnFailure = rollout.Rollback
			w.start(req)
			w.settle(time.Minute)
			as(w.machines[id(0)])
			w.settle(time.Hour)
			w.is(chain.Completed, "", "done 4")
		})
	}
}

// The soak waits for a tenant's reboot, and judges normally afterwards.
func TestASoakWaitsForATenantsReboot(t *testing.T) {
	w := newWorld(t, 4)
	req := request()
	req.Plan.SoakSeconds = 600
	w.start(req)
	w.settle(time.Minute)
	w.machines[id(0)].quiet, w.machines[id(0)].busy = true, true
	w.settle(time.Hour)
	w.is(chain.Running, "", "waiting 3, done 1")
	if r, _ := w.rollout(); !strings.Contains(r.Waiting, "g000 has not") {
		t.Errorf("it waits for %q", r.Waiting)
	}
	w.machines[id(0)].quiet = false
	w.settle(time.Hour)
	w.is(chain.Completed, "", "done 4")
}

// A wave that falls silent once it is confirmed does not pass its soak, however short.
func TestAWaveThatFallsSilent(t *testing.T) {
	for _, seconds := range []int64{1, 60, 600} {
		w := newWorld(t, 20)
		req := request()
		req.Plan.SoakSeconds, req.Plan.Concurrency, req.Plan.MaxFailures = seconds, 20, 9
		for i := 1; i < 10; i++ {
			w.machines[id(i)].mute = true
		}
		w.start(req)
		w.settle(time.Hour)
		w.is(chain.FailedManual, rollout.CodePaused, "waiting 10, done 1, failed 9")
		if m := w.member(5); m.Code != "agent_silent" {
			t.Errorf("with a soak of %d s one is %+v", seconds, m)
		}
	}
}

// A silent node of an earlier wave does not delay the rollout, and has failed.
func TestAWaveBeforeIsWatchedToo(t *testing.T) {
	w := newWorld(t, 20)
	req := request()
	req.Plan.SoakSeconds = 600
	w.start(req)
	for w.member(0).Soak != rollout.Soaked {
		w.settle(time.Second)
	}
	w.machines[id(0)].quiet = true
	w.settle(time.Hour)
	if m := w.member(0); m.Result != rollout.Failed || m.Code != "agent_silent" {
		t.Errorf("it is %+v", m)
	}
}

// Silence counts only while the broker could have heard.
func TestSilenceThatIsTheBrokersOwn(t *testing.T) {
	t.Run("it was away", func(t *testing.T) {
		w := newWorld(t, 4)
		req := request()
		req.Plan.SoakSeconds = 600
		w.start(req)
		w.settle(time.Minute)
		for _, m := range w.machines {
			m.quiet = true
		}
		w.clock.Advance(5 * time.Hour)
		w.settle(time.Minute)
		w.is(chain.Running, "", "waiting 3, done 1")
		for _, m := range w.machines {
			m.quiet = false
		}
		w.settle(time.Hour)
		w.is(chain.Completed, "", "done 4")
	})
	t.Run("nobody at all is heard", func(t *testing.T) {
		w := newWorld(t, 4)
		req := request()
		req.Plan.SoakSeconds, req.Plan.Canary = 600, 3
		w.start(req)
		w.settle(time.Minute)
		w.deaf = true
		w.settle(time.Hour)
		w.is(chain.Running, "", "waiting 1, done 3")
		w.deaf = false
		w.settle(time.Hour)
		w.is(chain.Completed, "", "done 4")
	})
}

// A member that was waited for to the end is watched like all others.
func TestWhatWasWaitedForSoaks(t *testing.T) {
	w := newWorld(t, 4)
	w.machines[id(3)].busy = true
	req := request()
	req.Safety, req.Plan.SoakSeconds = broker.AfterDrain, 600
	w.start(req)
	w.settle(time.Hour)
	w.is(chain.Running, "", "running 1, done 3")
	w.machines[id(3)].busy = false
	for w.member(3).Result != rollout.Done {
		w.settle(time.Second)
	}
	w.machines[id(3)].quiet = true
	w.settle(30 * time.Second)
	if r, s := w.rollout(); r.Status != chain.Running || s.SoakFrom.IsZero() || w.member(3).Soak != rollout.Soaking {
		t.Fatalf("it is %s: %s, %+v", r.Status, r.Waiting, w.member(3))
	}
	w.settle(time.Hour)
	if m := w.member(3); m.Result != rollout.Failed || m.Code != "agent_silent" {
		t.Errorf("it is %+v", m)
	}
	w.is(chain.Completed, "", "done 3, failed 1") // two would have stopped it
}

// A soak of many nodes costs one look at each, at its end.
func TestASoakLooksAtEachOnce(t *testing.T) {
	w := newWorld(t, 60)
	req := request()
	req.Plan.Waves, req.Plan.Concurrency, req.Plan.SoakSeconds = []int{100}, 60, 1200
	w.start(req)
	w.settle(4 * time.Hour)
	w.is(chain.Completed, "", "done 60")
	if w.looks != 60 {
		t.Errorf("it looked at nodes %d times", w.looks)
	}
}
