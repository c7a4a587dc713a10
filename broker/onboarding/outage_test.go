package onboarding_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/test/maassim"
)

// heldFor returns how long the site counted as unreachable, once for each reported outage.
func (w *world) heldFor(since time.Time) (times []time.Duration) {
	w.t.Helper()
	holds, err := w.store.Holds(ctx, "dc1", since)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range holds {
		if h.Kind == chain.Unreachable {
			times = append(times, h.Until.Sub(since))
		}
	}
	return times
}

// A run that waits for its agent does not ask MAAS, so progress of the run does not prove an answer
// of MAAS.
func TestOnlyAnAnswerOfTheRegionEndsAnOutage(t *testing.T) {
	const outage = 10 * time.Minute
	for _, meddle := range []struct {
		name string
		do   func(w *world)
	}{
		{"the run that found it is marked", func(w *world) {
			if r := w.run("r2"); r.Status.Moving() && r.Held {
				w.act("r2", chain.MarkManual)
			}
		}},
		{"the site is frozen and unfrozen", func(w *world) {
			if err := w.store.PlaceHold(ctx, ada, chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "trial"}); err != nil {
				w.t.Fatal(err)
			}
			if err := w.store.LiftHold(ctx, ada, "dc1", chain.Freeze, "trial"); err != nil {
				w.t.Fatal(err)
			}
		}},
	} {
		for _, engine := range []string{"memory", "sqlite"} {
			t.Run(meddle.name+"/"+engine, func(t *testing.T) {
				w := newWorld(t, "3.6")
				if engine != "memory" {
					w.store = storetest.Open(t, engine, w.clock.Now)
					w.lossy.Store = w.store
				}
				w.profile.Policy.RequireHWSync, w.silent = false, true
				w.region.PlugIn(w.box(1))
				w.region.PlugIn(w.box(2))
				w.start(1)
				var since time.Time
				done, back := false, false
				w.settle(func() {
					switch now := w.clock.Now(); {
					case since.IsZero() && w.run("r1").Stage == "wait_for_agent_enrollment":
						since = now
						w.region.Inject(maassim.Fault{Kind: maassim.Unreachable, Times: -1})
						w.start(2) // and is held at once
					case since.IsZero():
					case !done && now.Sub(since) > 2*time.Minute:
						done = true
						meddle.do(w)
					case !back && now.Sub(since) > outage:
						back, w.silent = true, false
						w.region.Relent(maassim.Unreachable)
					}
				})
				if times := w.heldFor(since); !done || len(times) != 1 || times[0] < outage {
					t.Errorf("in an outage of %v the site counted as unreachable until %v", outage, times)
				}
			})
		}
	}
}

// The region is gone for four hours while 40 machines are at all stages. All of them become active
// nodes without help, by one deployment each.
func TestASiteThatIsGoneForHoursHoldsItsRunsAndFailsNone(t *testing.T) {
	for name, trouble := range map[string]struct{ down, up func(w *world) }{
		"the region": {
			func(w *world) { w.region.Inject(maassim.Fault{Kind: maassim.Unreachable, Times: -1}) },
			func(w *world) { w.region.Relent(maassim.Unreachable) },
		},
		"its credentials": {
			func(w *world) { w.region.RevokeKeys("admin") },
			func(w *world) { w.credentials(w.region.RenewKeys("admin")) },
		},
		"the secrets": {
			func(w *world) { w.secrets.down = true },
			func(w *world) { w.secrets.down = false },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 40
			if name != "the region" {
				n = 12
			}
			w := newWorld(t, "3.6")
			for i := 1; i <= n; i++ {
				w.region.PlugIn(w.box(i))
			}
			w.region.Timing = maassim.Usual.Faster(3)
			w.profile.Policy.HardwareSyncInterval = "2m"
			begun := w.clock.Now()
			started, down, up := 0, false, false
			w.settle(func() {
				since := w.clock.Now().Sub(begun)
				for started < n && since >= time.Duration(started)*20*time.Second {
					started++
					w.start(started)
				}
				if !down && since > 7*time.Minute {
					down = true
					trouble.down(w)
				}
				if !up && since > 7*time.Minute+4*time.Hour {
					up = true
					trouble.up(w)
				}
			})
			alerts := 0
			for _, m := range w.memory.Outbox() {
				if m.Type == "site.unreachable" {
					alerts++
				}
			}
			if alerts != 1 || !up {
				t.Errorf("%d alerts, want one; up %v", alerts, up)
			}
			for i := 1; i <= n; i++ {
				r, serial := w.run(fmt.Sprintf("r%d", i)), maassim.Box(i).Serial
				if d := w.region.Happened(serial, "deploy"); r.Status != chain.Completed || d != 1 || w.node(hostname(i)).Status != broker.Active {
					t.Errorf("run %s: %s at %s (%+v), %d deployments", r.ID, r.Status, r.Stage, r.Failure, d)
				}
			}
		})
	}
}

// diesAtAllocate plugs in a machine, and has the broker die once between the machine's allocation
// and the save of the allocation.
func (w *world) diesAtAllocate() (maassim.Hardware, *bool) {
	b, killed := w.box(1), new(bool)
	w.region.PlugIn(b)
	w.lossy.Fate = func(int) chaintest.Fate {
		if !*killed && w.machine(b.Serial).Status == maassim.Allocated {
			*killed = true
			return chaintest.Lost
		}
		return chaintest.Done
	}
	return b, killed
}

// A broker dies right after allocate. The allocated machine is recognised by the saved intent and
// the agent name, and is given back if the run is cancelled instead.
func TestACrashBetweenAllocateAndMarkLosesNoMachine(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		t.Run(fmt.Sprint("cancelled ", cancel), func(t *testing.T) {
			w := newWorld(t, "3.6")
			b, killed := w.diesAtAllocate()
			id := w.start(1)
			w.settle(func() {
				if cancel && *killed && w.run(id).Status == chain.Running {
					w.act(id, chain.Cancel)
				}
			})
			r, m := w.run(id), w.machine(b.Serial)
			want, status, deploys := chain.Completed, maassim.Deployed, 1
			if cancel {
				want, status, deploys = chain.Cancelled, maassim.Ready, 0
			}
			if r.Status != want || m.Status != status || w.region.Happened(b.Serial, "deploy") != deploys || w.region.Happened(b.Serial, "allocate") != 1 || !*killed {
				t.Errorf("%s (%+v), machine %+v", r.Status, r.Failure, m)
			}
		})
	}
}

// In addition, MAAS could not complete the first release, which removes the agent name under which
// the run had allocated the machine.
func TestAReleaseThatFailedIsTriedAgainWithoutTheMark(t *testing.T) {
	w := newWorld(t, "3.4.10")
	b, killed := w.diesAtAllocate()
	id := w.start(1)
	w.settle(func() {
		if *killed && w.run(id).Status == chain.Running {
			w.region.Inject(maassim.Fault{Kind: maassim.PowerFails})
			w.act(id, chain.Cancel)
		}
	})
	if r, m := w.run(id), w.machine(b.Serial); r.Status != chain.Cancelled || m.Status != maassim.Ready || m.Owner != "" || r.Failure == nil {
		t.Errorf("%s (%+v), machine %+v", r.Status, r.Failure, m)
	}
}

// The same crash, but somebody with the same key allocates the machine by hand just before the run
// does: this machine is not the run's.
func TestAnIntentAloneProvesNothing(t *testing.T) {
	w := newWorld(t, "3.6")
	b := w.box(1)
	w.region.PlugIn(b)
	w.region.Inject(maassim.Fault{Kind: maassim.Unavailable, Op: "allocate"})
	id := w.start(1)
	taken := false
	w.settle(func() {
		if m := w.machine(b.Serial); !taken && m.Status == maassim.Ready && w.region.Count("allocate") == 1 {
			taken = true
			w.call("POST", "machines/?op=allocate", "system_id="+m.SystemID)
		}
	})
	r, m := w.run(id), w.machine(b.Serial)
	if r.Status != chain.FailedManual || r.Failure.Code != "machine_not_ours" || m.Status != maassim.Allocated || !taken {
		t.Fatalf("%s (%+v), machine %+v", r.Status, r.Failure, m)
	}
	w.act(id, chain.Cancel)
	w.settle(nil)
	if r, m := w.run(id), w.machine(b.Serial); r.Status != chain.Cancelled || m.Status != maassim.Allocated {
		t.Errorf("%s, machine %+v", r.Status, m)
	}
}

// No trace of a run contains a secret.
func TestARunKeepsNoSecret(t *testing.T) {
	w := newWorld(t, "3.6")
	b := w.box(1)
	w.region.PlugIn(b)
	w.region.Inject(maassim.Fault{Kind: maassim.NoBootCard}, maassim.Fault{Kind: maassim.DatasourceFails})
	id := w.start(1)
	secrets := []string{"bmc-secret", strings.Split(w.region.APIKey(), ":")[2]}
	look := func() {
		secrets = append(secrets, w.book.Open()...)
		for _, m := range w.region.Machines() {
			if m.Token != "" {
				secrets = append(secrets, m.Token)
			}
		}
	}
	w.settle(look)
	w.act(id, chain.Resume)
	w.settle(look)
	left, err := json.Marshal([]any{w.run(id), w.history(id), w.memory.Outbox(), w.memory.Audit()})
	if err != nil || w.run(id).Status != chain.Completed {
		t.Fatal(err, w.run(id).Status)
	}
	var state onboarding.Onboarding
	if err := json.Unmarshal(w.run(id).State, &state); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets {
		if strings.Contains(string(left)+string(w.run(id).State), s) {
			t.Errorf("a secret of %d bytes is in what the run left", len(s))
		}
	}
	if state.BundleDigest == "" || state.Deploys != 2 || len(secrets) < 4 {
		t.Errorf("%+v, %d secrets", state, len(secrets))
	}
}

// However many runs wait, a region is asked for its list at most once a second.
func TestManyRunsShareOneList(t *testing.T) {
	w := newWorld(t, "3.6")
	const n = 30
	begun := w.clock.Now()
	for i := 1; i <= n; i++ {
		w.region.PlugIn(w.box(i))
		w.start(i)
	}
	w.settle(nil)
	lists := map[int64]int{}
	for _, c := range w.region.Calls() {
		if c.Op == "list" && c.Params.Get("id") == "" {
			lists[c.At.Unix()]++
		}
	}
	for at, times := range lists {
		if times > 1 {
			t.Errorf("%d lists within a second, after %v", times, time.Unix(at, 0).Sub(begun))
		}
	}
	for i := 1; i <= n; i++ {
		if r := w.run(fmt.Sprintf("r%d", i)); r.Status != chain.Completed {
			t.Errorf("run %s: %s (%+v)", r.ID, r.Status, r.Failure)
		}
	}
}

// If a call of the broker's own book fails for one run only, the failure is that run's alone: the
// site's other runs go on, and no outage of the site is reported.
func TestOneRunsTroubleIsNotTheSites(t *testing.T) {
	for _, method := range []string{"Reseed", "Bundle", "Activate", "Node"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.patience = 3 * time.Hour
			w.region.PlugIn(w.box(1))
			w.region.PlugIn(w.box(2))
			w.region.Inject(maassim.Fault{Kind: maassim.SyncStops, Machine: maassim.Box(1).Serial})
			broken := ""
			w.book.Broken = func(m string) error {
				if m == method && broken == "r1" {
					return broker.Errorf(broker.Unavailable, "secret_forbidden", "cannot write the secret of the run's own: it is denied")
				}
				return nil
			}
			w.lossy.Claimed = func(r chain.Record) { broken = r.ID }
			w.start(1)
			w.start(2)
			w.settle(nil)
			r1, r2 := w.run("r1"), w.run("r2")
			if r2.Status != chain.Completed || r1.Status == chain.Completed {
				t.Errorf("r1 %s at %s (%s); r2 %s at %s: %s (%+v)", r1.Status, r1.Stage, r1.Waiting, r2.Status, r2.Stage, r2.Waiting, r2.Failure)
			}
			for _, m := range w.memory.Outbox() {
				if m.Type == "site.unreachable" {
					t.Errorf("people are told that the site is unreachable: %v", m.Data)
				}
			}
		})
	}
}

// The time of a hold does not count against the time limit of an attempt of
// wait_for_agent_enrollment.
func TestTheClockOfAnEnrolmentStandsStillInAFreeze(t *testing.T) {
	w := newWorld(t, "3.6")
	w.profile.Policy.RequireHWSync = false
	w.profile.Policy.EnrollmentTokenTTLSeconds = 24 * 3600
	w.profile.Policy.StageRetries["wait_for_agent_enrollment"] = 0
	w.region.PlugIn(w.box(1))
	w.silent = true
	id := w.start(1)
	var entered, frozen, lifted time.Time
	w.settle(func() {
		now := w.clock.Now()
		switch {
		case w.run(id).Stage != "wait_for_agent_enrollment":
		case entered.IsZero():
			entered = now
		case frozen.IsZero() && now.Sub(entered) > 2*time.Minute:
			frozen = now
			if err := w.store.PlaceHold(ctx, ada, chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "x"}); err != nil {
				t.Fatal(err)
			}
		case !frozen.IsZero() && lifted.IsZero() && now.Sub(frozen) > time.Hour:
			lifted = now
			if err := w.store.LiftHold(ctx, ada, "dc1", chain.Freeze, "x"); err != nil {
				t.Fatal(err)
			}
		case !lifted.IsZero() && now.Sub(lifted) > 3*time.Minute:
			w.silent = false // the agent comes 5 min into a stage with a limit of 30 min
		}
	})
	if r := w.run(id); r.Status != chain.Completed {
		t.Errorf("%s: %+v\n%s", r.Status, r.Failure, w.story(id))
	}
}

// Calls that fail for as long as a stage may last are no fault of the machine.
func TestCallsThatFailAreNoTroubleOfTheMachines(t *testing.T) {
	for op, stage := range map[string]string{"list": "create_or_find_in_maas", "set_storage_layout": "configure_storage", "commission": "commission_node"} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.region.PlugIn(w.box(1))
			w.region.Inject(maassim.Fault{Kind: maassim.Internal, Op: op, Times: -1})
			id := w.start(1)
			w.settle(nil)
			if r := w.run(id); r.Stage != stage || r.Failure.Class != chain.UpstreamTransient {
				t.Errorf("%s at %s: %+v; next %s", r.Status, r.Stage, r.Failure, r.NextAction)
			}
		})
	}
}
