package chaintest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

var ada = chain.Actor{Name: "ada", Role: "operator"}

// change has an operator change a run as the test says.
func (s *subject) change(id string, how func(c *chain.Change) error) (chain.Record, error) {
	return s.Act(s.ctx, chain.Order{ID: id, Actor: ada, Action: "test", Reason: "because"},
		func(_ time.Time, r chain.Record) (chain.Change, error) {
			c := chain.Change{Record: r}
			err := how(&c)
			return c, err
		})
}

func asks(s *subject) {
	s.insert("r")
	r := s.claim("r")
	ask := func(c *chain.Change) error {
		c.Beside, c.Record.Asked, c.Record.AskedBy, c.Record.AskedCause = true, chain.AskCancel, "ada", "because"
		c.Record.Stage = "not written"
		return nil
	}
	_, err := s.change("r", ask)
	s.ok(err)
	if got := s.read("r"); got.Version != r.Version || got.Owner != "me" || got.Asked != chain.AskCancel || got.Stage != "a" {
		s.Fatalf("asked %+v", got)
	}
	// The step in flight fails for a person; the request goes first.
	r.Status, r.DueAt = chain.FailedManual, s.Store.Now().Add(time.Hour)
	s.ok(s.Save(s.ctx, chain.Change{Record: *r}))
	if got := s.read("r"); got.Status != chain.Running || !got.DueAt.Equal(s.Store.Now()) {
		s.Fatalf("not urged: %+v", got)
	}
	r = s.claim("r")
	if r.Asked != chain.AskCancel || r.AskedBy != "ada" || r.AskedCause != "because" {
		s.Fatalf("claimed %+v", r)
	}
	r.DueAt = s.Store.Now().Add(time.Hour)
	s.ok(s.Save(s.ctx, chain.Change{Record: *r, Honoured: chain.AskCancel}))
	if got := s.read("r"); got.Asked != chain.AskNothing || got.AskedBy != "ada" || got.DueAt.Equal(s.Store.Now()) {
		s.Fatalf("honoured %+v", got)
	}
	// Without a step in flight, an action moves the run, whatever its last owner.
	got, err := s.change("r", func(c *chain.Change) error {
		c.Record.Stage, c.Record.Asked = "b", chain.AskNothing
		return nil
	})
	s.ok(err)
	if now := s.read("r"); now.Stage != "b" || now.Version != got.Version {
		s.Fatalf("acted %+v", now)
	}
}

// asksTooLate asks for a cancel during the step that completes the run.
func asksTooLate(s *subject) {
	s.insert("r")
	r := s.claim("r")
	_, err := s.change("r", func(c *chain.Change) error {
		c.Beside, c.Record.Asked, c.Record.AskedBy, c.Record.AskedCause = true, chain.AskCancel, "ada", "because"
		return nil
	})
	s.ok(err)
	r.Status, r.CompletedAt = chain.Completed, s.Store.Now()
	s.ok(s.Save(s.ctx, chain.Change{Record: *r}))
	if got := s.read("r"); got.Status != chain.Completed || got.Asked != chain.AskNothing || got.AskedBy != "ada" {
		s.Fatalf("it is %+v", got)
	}
	events, err := s.Events(s.ctx, "r")
	s.ok(err)
	if last := events[len(events)-1]; last.Stage != "" || last.Status != chain.Skipped ||
		last.Message != "the action cancel, requested by ada, came too late: the run is completed" {
		s.Fatalf("told %+v", last)
	}
}

func nothings(s *subject) {
	s.insert("r")
	r := s.claim("r")
	before := s.read("r")
	_, err := s.change("r", func(c *chain.Change) error {
		c.Nothing = true
		return nil
	})
	s.ok(err)
	s.same("the row", s.read("r"), before)
	s.put(r, 0)
	s.same("audited", s.Audits(), []string{"run.start", "run.test"})
}

func refusals(s *subject) {
	s.insert("r")
	before := s.read("r")
	_, err := s.change("r", func(c *chain.Change) error {
		c.Record.Stage = "z"
		return &chain.Refused{Code: "run_moving", Message: "no"}
	})
	if code(err) != "run_moving" {
		s.Fatal(err)
	}
	s.same("the row", s.read("r"), before)
	s.same("audited", s.Audits(), []string{"run.start", "run.test!run_moving"})
	if _, err = s.change("x", func(*chain.Change) error { return nil }); code(err) != "run_not_found" {
		s.Fatal(err)
	}
}

func lists(s *subject) {
	for i := range 6 {
		n := newRun(fmt.Sprint("r", i), s.Store.Now())
		if i%2 == 1 {
			n.Site = "dc2"
		}
		n.Kind += []string{"", "", "", "", "s", "/soft"}[i]
		s.ok(s.Insert(s.ctx, []chain.NewRun{n}, nil))
	}
	r := s.claim("r0")
	r.Status, r.Stage, r.Failure = chain.FailedRetryable, "b", &chain.Failure{Class: "power"}
	s.put(r, 0)
	want := func(f chain.Filter, ids ...string) {
		s.Helper()
		all, err := s.Runs(s.ctx, f)
		s.ok(err)
		var got []string
		for _, r := range all {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, ids) {
			s.Fatalf("%+v lists %v, want %v", f, got, ids)
		}
	}
	want(chain.Filter{Site: "dc2"}, "r1", "r3", "r5")
	want(chain.Filter{Limit: 2}, "r0", "r1")
	want(chain.Filter{Limit: 2, After: "r1"}, "r2", "r3")
	want(chain.Filter{Class: "power"}, "r0")
	want(chain.Filter{Stage: "b", Kind: ScriptKind}, "r0")
	want(chain.Filter{Kind: ScriptKind}, "r0", "r1", "r2", "r3", "r5")
	want(chain.Filter{Kind: ScriptKind + "/soft"}, "r5")
	want(chain.Filter{Kind: "unknown"})
	want(chain.Filter{Statuses: []chain.Status{chain.FailedRetryable, chain.FailedManual}}, "r0")
	want(chain.Filter{Batch: "b"})
}

func nextMoments(s *subject) {
	want := func(in time.Duration) {
		s.Helper()
		next, err := s.NextDue(s.ctx)
		s.ok(err)
		if in == 0 && !next.IsZero() || in > 0 && !next.Equal(s.Store.Now().Add(in)) {
			s.Fatalf("next at %v, want in %v of %v", next, in, s.Store.Now())
		}
	}
	want(0)
	s.insert("r")
	want(0) // due already
	r := s.claim("r")
	want(time.Minute) // when its lease is over
	s.put(r, 5*time.Second)
	want(5 * time.Second)
	s.Advance(5 * time.Second)
	r = s.claim("r")
	r.Status = chain.Completed
	s.put(r, time.Hour)
	want(0)
}

func wakes(s *subject) {
	wake := s.Wake(s.ctx)
	s.insert("r")
	select {
	case <-wake:
	case <-time.After(10 * time.Second):
		s.Fatal("nobody was woken")
	}
}

func batchPlaces(s *subject) {
	now := s.Store.Now()
	var runs []chain.NewRun
	for i := range 4 {
		n := newRun(fmt.Sprint("r", i), now)
		n.Batch = "b"
		runs = append(runs, n)
	}
	b := chain.Batch{ID: "b", Kind: ScriptKind, Site: "dc1", Parallel: 2, StopAfter: 3, RequestedBy: "ada", RequestedAt: now}
	s.ok(s.Insert(s.ctx, runs, &b))
	got, err := s.Batch(s.ctx, "b")
	s.ok(err)
	s.same("the batch", got, b)
	r0, r1 := s.claim("r0"), s.claim("r1")
	s.claim("")
	s.put(r0, time.Hour) // the run waits, and keeps its place
	s.claim("")
	r1.Status = chain.FailedManual
	s.put(r1, 0)
	r2 := s.claim("r2")
	s.claim("")
	s.put(r2, time.Second)
	s.insert("alone")
	s.Advance(time.Second)
	s.claim("alone") // the batch's last run may have been due for longer, but waits for a place
	r2 = s.claim("r2")
	r2.Status = chain.Completed
	s.put(r2, 0)
	s.claim("r3")
}

// The limit counts the whole site: two batches do not move twice as many runs; a batch elsewhere
// does not count.
func batchesShareASite(s *subject) {
	now := s.Store.Now()
	for _, b := range []chain.Batch{
		{ID: "a", Site: "dc1", Parallel: 2},
		{ID: "b", Site: "dc1", Parallel: 2},
		{ID: "c", Site: "dc2", Parallel: 1},
	} {
		b.Kind = ScriptKind
		var runs []chain.NewRun
		for i := range 2 {
			n := newRun(fmt.Sprint(b.ID, i), now)
			n.Batch, n.Site = b.ID, b.Site
			runs = append(runs, n)
		}
		s.ok(s.Insert(s.ctx, runs, &b))
	}
	a0 := s.claim("a0")
	s.claim("a1")
	s.claim("c0")
	s.claim("")
	a0.Status = chain.Completed
	s.put(a0, 0)
	s.claim("b0")
	s.claim("")
}

func batchStops(s *subject) {
	var runs []chain.NewRun
	for i := range 8 {
		n := newRun(fmt.Sprint("r", i), s.Store.Now())
		n.Batch = "b"
		runs = append(runs, n)
	}
	s.ok(s.Insert(s.ctx, runs, &chain.Batch{ID: "b", Kind: ScriptKind, Site: "dc1", Parallel: 1, StopAfter: 2}))
	end := func(id string, result chain.Result) {
		s.Helper()
		r := s.claim(id)
		r.Status = chain.Completed
		if result.Failed {
			r.Status = chain.FailedManual
		}
		s.ok(s.Save(s.ctx, chain.Change{Record: *r, Result: &result}))
	}
	power, boot := chain.Result{Failed: true, Stage: "a", Class: "power"}, chain.Result{Failed: true, Stage: "a", Class: "deploy"}
	for i, result := range []chain.Result{power, boot, {}, boot, power, power} {
		end(fmt.Sprint("r", i), result)
	}
	s.claim("")
	b, err := s.Batch(s.ctx, "b")
	s.ok(err)
	if b.StoppedAt.IsZero() || b.StopReason == "" || b.InARow != 2 {
		s.Fatalf("batch %+v", b)
	}
	// A run that had begun, and was retried by hand, is no new run.
	_, err = s.change("r5", func(c *chain.Change) error {
		c.Record.Status, c.Record.DueAt = chain.Pending, s.Store.Now()
		return nil
	})
	s.ok(err)
	end("r5", power)
	s.claim("")
	s.ok(s.ContinueBatch(s.ctx, chain.Order{ID: "b", Actor: ada, Reason: "mended"}))
	end("r6", chain.Result{})
	stopped := 0
	for _, kind := range s.Outbox() {
		if kind == ScriptKind+".batch_stopped" {
			stopped++
		}
	}
	if err := s.ContinueBatch(s.ctx, chain.Order{ID: "x"}); stopped != 1 || code(err) != "batch_not_found" {
		s.Fatalf("stopped %d times; of no batch: %v", stopped, err)
	}
	s.same("audited", s.Audits(), append(slices.Repeat([]string{"run.start"}, 8), "run.test", "batch.continue"))
}
