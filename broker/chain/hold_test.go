package chain_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

func TestStoodCountsEachMomentOnce(t *testing.T) {
	noon := chaintest.NewClock().Now()
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	hold := func(from, to int) chain.SiteHold {
		h := chain.SiteHold{Since: at(from)}
		if to > 0 {
			h.Until = at(to)
		}
		return h
	}
	for _, test := range []struct {
		name  string
		holds []chain.SiteHold
		want  int
	}{
		{"none", nil, 0},
		{"before", []chain.SiteHold{hold(1, 9)}, 0},
		{"within", []chain.SiteHold{hold(12, 15)}, 3},
		{"from before", []chain.SiteHold{hold(1, 15)}, 5},
		{"it stands", []chain.SiteHold{hold(18, 0)}, 2},
		{"all of it", []chain.SiteHold{hold(1, 0)}, 10},
		{"one in another", []chain.SiteHold{hold(11, 19), hold(12, 13)}, 8},
		{"over each other, in any order", []chain.SiteHold{hold(14, 17), hold(11, 15)}, 6},
		{"apart", []chain.SiteHold{hold(16, 17), hold(11, 12)}, 2},
		{"ends later", []chain.SiteHold{hold(18, 30)}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := chain.HeldTime(test.holds, at(10), at(20)); got != time.Duration(test.want)*time.Minute {
				t.Errorf("stood for %v, want %d minutes", got, test.want)
			}
		})
	}
}

// A region is away for four hours in the middle of forty runs: all runs end without help, no
// attempt is spent, no limit passes, and one alert is raised.
func TestARegionThatIsAwayFailsNoRun(t *testing.T) {
	away := false
	script := &chaintest.Script{List: "a"}
	s := newSetting(t, script)
	do := func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
		switch {
		case away:
			return chain.Hold("no answer from the region")
		case len(r.State.Trail) < 3:
			r.State.Trail = append(r.State.Trail, r.Stage)
			return chain.Again(time.Minute, "machine is Deploying")
		}
		return nil
	}
	limit := func(chaintest.ScriptState) chain.Limit { return chain.Limit{After: 10 * time.Minute, Class: "power"} }
	c := chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{{Name: "a", Do: do, Limit: limit}, {Name: "b", Do: do, Limit: limit}}}
	s.engine = newEngine(t, s.store, "one", c)
	for i := range 40 {
		s.start(fmt.Sprintf("r%02d", i))
	}
	steps := 0
	until := func(d time.Duration) {
		t.Helper()
		for end := s.clock.Now().Add(d); s.clock.Now().Before(end); {
			worked, err := s.engine.Step(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if worked {
				steps++
				continue
			}
			next, err := s.store.NextDue(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if next.IsZero() || next.After(end) {
				next = end
			}
			s.clock.AdvanceTo(next)
		}
	}
	until(90 * time.Second)
	away = true
	steps = 0
	until(4 * time.Hour)
	if most := int(4*time.Hour/chain.ProbeEvery) + 40; steps > most {
		t.Errorf("%d calls at a site that is away, want at most %d", steps, most)
	}
	if r := s.run("r07"); r.Waiting != "unreachable: no answer from the region" || r.HeldSince.IsZero() || r.Status != chain.Running {
		t.Errorf("meanwhile: %+v", r)
	}
	away = false
	until(time.Hour)
	for i := range 40 {
		id := fmt.Sprintf("r%02d", i)
		if got := s.story(id); got != "a:succeeded b:succeeded" || s.run(id).Status != chain.Completed {
			t.Errorf("%s: %s, %s", id, got, s.run(id).Status)
		}
	}
	alerts := map[string]int{}
	for _, m := range s.store.Outbox() {
		alerts[m.Type]++
	}
	if alerts["site.unreachable"] != 1 || alerts["site.reachable"] != 1 {
		t.Errorf("alerts %v", alerts)
	}
}

// The runs of a returned site do not all continue at the same moment.
func TestRunsGoOnSpreadOut(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a"})
	if err := s.store.PlaceHold(ctx, ada, chain.SiteHold{Kind: chain.Freeze}); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		s.start(fmt.Sprintf("run-%03d", i*7919))
	}
	if err := s.store.LiftHold(ctx, ada, "", chain.Freeze, ""); err != nil {
		t.Fatal(err)
	}
	most := 0
	for range 6 {
		steps := 0
		for worked := true; worked; steps++ {
			worked, _ = s.engine.Step(ctx)
		}
		most = max(most, steps)
		s.clock.Advance(chain.SpreadOver / 6)
	}
	if most > 30 {
		t.Errorf("%d of 60 runs went on within %v", most, chain.SpreadOver/6)
	}
	s.settle()
	if r := s.run("run-000"); r.Status != chain.Completed {
		t.Error(r.Status)
	}
}

// Clocks of stages stand still in a hold of any kind, and go on afterwards.
func TestAStagesClockStandsStillInAHold(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a", Says: "a: again again again again again again", Limit: chain.Limit{After: 2 * time.Minute, Class: "power"}})
	s.start("r")
	if _, err := s.engine.Step(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []chain.Status{chain.Running, chain.FailedManual} {
		if err := s.store.PlaceHold(ctx, ada, chain.SiteHold{Site: "dc1", Kind: chain.Freeze}); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(time.Hour)
		if err := s.store.LiftHold(ctx, ada, "dc1", chain.Freeze, ""); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(time.Minute)
		if worked, err := s.engine.Step(ctx); err != nil || !worked {
			t.Fatal(worked, err)
		}
		if got := s.run("r").Status; got != want {
			t.Fatalf("it is %s, want %s", got, want)
		}
	}
	// Two hours and two minutes have passed; two minutes count.
	if got := s.story("r"); got != "a:failed" {
		t.Errorf("at the limit: %q", got)
	}
}

// A stage's own clock stands still with its site, like the clock of its limit.
func TestSinceLeavesOutWhatTheSiteStoodStill(t *testing.T) {
	script := &chaintest.Script{List: "a"}
	s := newSetting(t, script)
	var begun time.Time
	var since []time.Duration
	c := script.Chain()
	c.Stages[0].Do = func(ctx context.Context, r *chain.Run[chaintest.ScriptState]) error {
		if begun.IsZero() {
			begun = r.Now
		}
		d, err := r.Since(ctx, begun)
		if since = append(since, d); err != nil || len(since) == 3 {
			return err
		}
		return chain.Again(time.Minute, "it is not there yet")
	}
	s.engine = newEngine(t, s.store, "other", c)
	s.start("r")
	step := func() {
		t.Helper()
		if worked, err := s.engine.Step(ctx); err != nil || !worked {
			t.Fatal(worked, err)
		}
	}
	step()
	if err := s.store.PlaceHold(ctx, ada, chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(time.Hour)
	if err := s.store.LiftHold(ctx, ada, "dc1", chain.Freeze, "x"); err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(time.Minute)
	step()
	s.clock.Advance(time.Minute)
	step()
	if got := fmt.Sprint(since); got != "[0s 1m0s 2m0s]" {
		t.Errorf("since %s", got)
	}
}

// Even if no stage makes a call to the site, the chain's Probe finds out that the site is back.
// Probe runs before the stage; if Probe fails, the stage is not called.
func TestAProbeAsksTheSiteForAStageThatDoesNot(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a"})
	away, asked, worked := true, 0, 0
	s.engine = newEngine(t, s.store, "one", chain.Chain[chaintest.ScriptState]{
		Kind: chaintest.ScriptKind,
		Stages: []chain.Stage[chaintest.ScriptState]{{Name: "a", Do: func(context.Context, *chain.Run[chaintest.ScriptState]) error {
			worked++
			return chain.Again(time.Hour, "its agent has not enrolled")
		}}},
		Probe: func(context.Context, *chain.Run[chaintest.ScriptState]) error {
			if asked++; away {
				return chain.Hold("no answer")
			}
			return nil
		},
	})
	s.start("r")
	if err := s.store.PlaceHold(ctx, chain.Actor{Name: "system"}, chain.SiteHold{Site: s.run("r").Site, Kind: chain.Unreachable, Reason: "no answer"}); err != nil {
		t.Fatal(err)
	}
	stands := func() bool {
		holds, err := s.store.Holds(ctx, s.run("r").Site, s.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		return len(holds) > 0 && holds[0].Until.IsZero()
	}
	step := func() {
		s.clock.Advance(chain.ProbeEvery)
		if _, err := s.engine.Step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if asked != 1 || worked != 0 || !stands() {
		t.Fatalf("while it is away: asked %d times, worked %d times, held %v", asked, worked, stands())
	}
	away = false
	step()
	if asked != 2 || worked != 1 || stands() {
		t.Errorf("when it answers: asked %d times, worked %d times, held %v", asked, worked, stands())
	}
}
