package chaintest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

func freezes(s *subject) {
	elsewhere := newRun("r2", s.Store.Now())
	elsewhere.Site = "dc2"
	s.insert("r1")
	s.ok(s.Insert(s.ctx, []chain.NewRun{elsewhere}, nil))
	freeze := chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "storm"}
	s.ok(s.PlaceHold(s.ctx, ada, freeze))
	s.Advance(time.Second)
	s.ok(s.PlaceHold(s.ctx, ada, chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "again"}))
	s.ok(s.PlaceHold(s.ctx, ada, freeze)) // same operator and reason: the same freeze
	s.put(s.claim("r2"), time.Hour)
	s.claim("")
	r := s.read("r1")
	if r.Waiting != "freeze: storm" || !r.HeldSince.Equal(s.Store.Now().Add(-time.Second)) {
		s.Fatalf("waits %q since %v", r.Waiting, r.HeldSince)
	}
	s.ok(s.LiftHold(s.ctx, ada, "dc1", chain.Freeze, "over"))
	s.ok(s.LiftHold(s.ctx, ada, "dc1", chain.Freeze, "over"))
	s.Advance(chain.SpreadOver)
	s.claim("r1")
	s.same("audited", s.Audits(), []string{"run.start", "run.start", "site.freeze", "site.freeze", "site.unfreeze", "site.unfreeze"})
	s.same("messages", s.Outbox(), []string{
		"site.freeze", "site.freeze", ScriptKind + ".started", "site.unfreeze", "site.unfreeze",
		ScriptKind + ".started",
	})
}

func freezesOfAll(s *subject) {
	s.insert("r1")
	r := s.claim("r1")
	s.ok(s.PlaceHold(s.ctx, ada, chain.SiteHold{Kind: chain.Freeze, Reason: "storm"}))
	s.put(r, 0) // a step in flight ends normally
	s.insert("r2")
	s.claim("")
	s.ok(s.LiftHold(s.ctx, ada, "", chain.Freeze, "over"))
	s.Advance(chain.SpreadOver)
	s.claim("r1")
	s.claim("r2")
}

func spreads(s *subject) {
	s.ok(s.PlaceHold(s.ctx, ada, chain.SiteHold{Site: "dc1", Kind: chain.Freeze}))
	for i, place := range []int{0, 250, 500, 999} {
		n := newRun(fmt.Sprint("r", i), s.Store.Now())
		n.Spread = place
		s.ok(s.Insert(s.ctx, []chain.NewRun{n}, nil))
	}
	later := newRun("later", s.Store.Now().Add(2*chain.SpreadOver))
	s.ok(s.Insert(s.ctx, []chain.NewRun{later}, nil))
	s.Advance(time.Second)
	s.ok(s.LiftHold(s.ctx, ada, "dc1", chain.Freeze, ""))
	s.claim("r0")
	s.claim("")
	s.Advance(chain.SpreadOver / 4)
	s.claim("r1")
	s.claim("")
	s.Advance(chain.SpreadOver / 4)
	s.claim("r2")
	s.Advance(chain.SpreadOver / 4)
	s.claim("")
	s.Advance(chain.SpreadOver / 4)
	r := s.read("later")
	if got := r.DueAt.Sub(s.Store.Now()); got <= 0 {
		s.Fatalf("a run that is due later became due %v ago", -got)
	}
}

func probes(s *subject) {
	s.insert("r0", "r1", "r2")
	hold := func(r *chain.Record) {
		s.Helper()
		r.Held, r.DueAt = true, s.Store.Now()
		s.ok(s.Save(s.ctx, chain.Change{Record: *r, Unreachable: "no answer"}))
	}
	r0, r1 := s.claim("r0"), s.claim("r1")
	hold(r1)
	s.put(r0, 0) // the step made no call to the site
	s.claim("")
	s.Advance(chain.ProbeEvery)
	r := s.claim("r1") // first a run that could not reach the site itself
	if !r.Probe {
		s.Fatal("the claim does not say that it is a probe")
	}
	s.claim("")
	hold(r)
	s.claim("")
	s.Advance(chain.ProbeEvery)
	r = s.claim("r1")
	r.Held = false
	s.ok(s.Save(s.ctx, chain.Change{Record: *r, Reached: true}))
	s.Advance(chain.SpreadOver)
	for range 3 {
		if r, err := s.Claim(s.ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{ScriptKind}}); err != nil || r == nil ||
			r.Probe || r.Held {
			s.Fatalf("claimed %+v, %v", r, err)
		}
	}
	s.same("audited", s.Audits(), []string{"run.start", "run.start", "run.start", "site.unreachable", "site.reachable"})
	if !slices.Contains(s.Outbox(), "site.reachable") {
		s.Fatal(s.Outbox())
	}
}

func remembered(s *subject) {
	begin := s.Store.Now()
	place := func(site string, kind chain.HoldKind) {
		s.Helper()
		s.ok(s.PlaceHold(s.ctx, ada, chain.SiteHold{Site: site, Kind: kind, Reason: "r"}))
		s.Advance(time.Minute)
	}
	place("dc1", chain.Freeze)
	place("", chain.Freeze)
	s.ok(s.LiftHold(s.ctx, ada, "dc1", chain.Freeze, ""))
	s.Advance(time.Minute)
	place("dc1", chain.Freeze)
	place("dc2", chain.Unreachable)
	count := func(site string, after time.Time, want int) {
		s.Helper()
		holds, err := s.Holds(s.ctx, site, after)
		s.ok(err)
		if len(holds) != want {
			s.Fatalf("holds of %q: %+v", site, holds)
		}
	}
	count("dc1", begin, 3)
	count("dc1", begin.Add(2*time.Minute), 2)
	count("dc2", begin, 2)
	count("*", begin, 4)
	holds, err := s.Holds(s.ctx, "dc1", begin)
	s.ok(err)
	s.same("a hold", holds[0], chain.SiteHold{
		Site: "dc1", Kind: chain.Freeze, Reason: "r", By: "ada", Since: begin,
		Until: begin.Add(2 * time.Minute),
	})
	if got := chain.HeldTime(holds, begin, s.Store.Now()); got != 5*time.Minute {
		s.Fatalf("stood for %v", got)
	}
}

// runsChains runs whole chains, with an operator in between.
func runsChains(s *subject) {
	script := &Script{
		List: "a b c!(x y>b) d", Says: "a: done; b: again again; c: transient deploy; d: mismatch",
		Retry: chain.Retry{Attempts: 2, First: time.Second},
	}
	e, err := chain.New(s.Store, ScriptClasses, chain.Options{Owner: "one"}, script.Chain())
	s.ok(err)
	_, err = e.Start(s.ctx, chain.Start{ID: "r", Kind: ScriptKind, Site: "dc1", State: ScriptState{}, Locks: []string{"node/n"}})
	s.ok(err)
	settle := func() {
		for range 100 {
			worked, err := e.Step(s.ctx)
			s.ok(err)
			next, err := s.NextDue(s.ctx)
			s.ok(err)
			switch {
			case worked:
			case next.IsZero():
				return
			default:
				s.Advance(next.Sub(s.Store.Now()))
			}
		}
		s.Fatal("it does not come to an end")
	}
	settle()
	if r := s.read("r"); r.Status != chain.FailedManual || r.NextAction != "look at the machine, then resume" ||
		r.Failure.Class != "mismatch" {
		s.Fatalf("stopped as %+v", r)
	}
	_, err = e.Act(s.ctx, chain.Order{ID: "r", Actor: ada, Action: chain.RestartClean, Reason: "mended"})
	s.ok(err)
	settle()
	events, err := s.Events(s.ctx, "r")
	s.ok(err)
	s.same("the story", Story(events), "a:skipped b:succeeded c:failed c:failed x:succeeded y:succeeded b:succeeded c:succeeded d:failed "+
		"d:compensated c:compensated b:compensated a:compensated a:succeeded b:succeeded c:succeeded d:succeeded")
	r := s.read("r")
	if r.Status != chain.Completed || len(script.Keys("b")) == 0 {
		s.Fatalf("ended as %+v", r)
	}
	s.same("keys of b", script.Keys("b"), []string{"r/b/1", "r/b/1", "r/b/1", "r/b/2", "r/b/3"})
	s.same("messages", s.Outbox(), []string{
		"test.script.started", "test.script.manual_intervention_required", "test.script.compensating",
		"test.script.completed",
	})
}
