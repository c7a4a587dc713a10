package chaintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

// Backend is a store under test, with the access that the suite needs.
type Backend struct {
	chain.Store
	Advance func(time.Duration) // moves its clock
	Outbox  func() []string     // types of messages, oldest first
	Audits  func() []string     // action, or action!code of a refusal
	Effect  func(name string) any
	Applied func() []string // names of the effects
}

// Suite tests a store against the contract of chain.Store. open makes an empty store.
func Suite(t *testing.T, open func(t *testing.T) *Backend) {
	for _, test := range []struct {
		name string
		rule func(*subject)
	}{
		{"a row comes back as it was written", wholeRows},
		{"a run's times are those of its rows", stamps},
		{"runs are claimed in the order in which they are due", claimOrder},
		{"a run of a list that is not known is left to who knows it", knownLists},
		{"a claimed run is nobody else's until its lease is over", claimedRuns},
		{"a lease is renewed by who has it", renewals},
		{"a step that was never saved is remembered", lostSteps},
		{"an old version saves nothing", oldVersions},
		{"a save is whole", wholeSaves},
		{"an attempt has one start and one end", uniqueEvents},
		{"runs are inserted with their locks or not at all", insertedLocks},
		{"locks end with their run", endingLocks},
		{"what is asked stands beside the fence", asks},
		{"what is asked of a run that ends with that step is told of, and forgotten", asksTooLate},
		{"an action that changes nothing leaves a step in flight", nothings},
		{"refusals are audited", refusals},
		{"lists are filtered and paged", lists},
		{"the next moment is known", nextMoments},
		{"who waits is woken", wakes},
		{"a batch has so many places", batchPlaces},
		{"batches at one site share its places", batchesShareASite},
		{"a batch stops after failures in a row", batchStops},
		{"a freeze holds its site and no other", freezes},
		{"a freeze of all holds all", freezesOfAll},
		{"runs go on spread out", spreads},
		{"an unreachable site is tried by one run at a time", probes},
		{"holds are remembered", remembered},
		{"chains run on it", runsChains},
	} {
		t.Run(test.name, func(t *testing.T) { test.rule(&subject{open(t), t, context.Background()}) })
	}
}

// subject is a store with the suite's helpers.
type subject struct {
	*Backend
	*testing.T
	ctx context.Context
}

func (s *subject) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *subject) insert(ids ...string) {
	s.Helper()
	for _, id := range ids {
		s.ok(s.Insert(s.ctx, []chain.NewRun{newRun(id, s.Store.Now())}, nil))
	}
}

func newRun(id string, due time.Time) chain.NewRun {
	return chain.NewRun{Record: chain.Record{
		ID: id, Kind: ScriptKind, Site: "dc1", Status: chain.Pending, Stage: "a", Direction: chain.Forward, Attempt: 1,
		State:    json.RawMessage(`{"trail":null}`),
		Progress: chain.Progress{Reached: "a", Tries: map[string]int{"a": 1}}, DueAt: due, RequestedBy: "ada", RequestedAt: due,
		UpdatedAt: due,
	}}
}

// claim expects to get a run; "" means none.
func (s *subject) claim(id string) *chain.Record {
	s.Helper()
	r, err := s.Claim(s.ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{ScriptKind}})
	s.ok(err)
	switch {
	case r == nil && id != "":
		s.Fatalf("nothing was claimed, want %s", id)
	case r != nil && r.ID != id:
		s.Fatalf("claimed %s, want %q", r.ID, id)
	}
	return r
}

// put saves a claimed run unchanged, due after d.
func (s *subject) put(r *chain.Record, d time.Duration) {
	s.Helper()
	r.DueAt = s.Store.Now().Add(d)
	s.ok(s.Save(s.ctx, chain.Change{Record: *r}))
}

func (s *subject) read(id string) chain.Record {
	s.Helper()
	r, err := s.Run(s.ctx, id)
	s.ok(err)
	return r
}

// Run is the store's method; the test's method is not used.
func (s *subject) Run(ctx context.Context, id string) (chain.Record, error) {
	return s.Store.Run(ctx, id)
}

func (s *subject) same(what string, got, want any) {
	s.Helper()
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("%s:\n  %+v\nwant\n  %+v", what, got, want)
	}
}

func wholeRows(s *subject) {
	s.insert("r")
	r := s.claim("r")
	at := func(minutes int) time.Time { return s.Store.Now().Add(time.Duration(minutes) * time.Minute) }
	r.Status, r.Stage, r.Direction, r.Attempt = chain.FailedManual, "b", chain.Undo, 3
	r.Progress = chain.Progress{
		Begun: true, Spent: 2, Reached: "c", Tries: map[string]int{"a": 1, "b/undo": 3}, Restart: true,
		Adopted: true, Accepts: "a/c", LostAt: at(6),
	}
	r.State = json.RawMessage(`{"trail":["a"]}`)
	r.EnteredAt, r.DueAt, r.StartedAt, r.CompletedAt = at(1), at(2), at(3), at(4)
	r.Waiting, r.NextAction, r.Held = "machine is Deploying", "look", true
	r.Failure = &chain.Failure{Class: "power", Code: "bmc", Message: "no answer", Details: json.RawMessage(`{"n":1}`)}
	s.ok(s.Save(s.ctx, chain.Change{Record: *r}))
	want := *r
	want.Version, want.Owner, want.LeaseTill, want.Probe = r.Version+1, "", time.Time{}, false
	s.same("the row", s.read("r"), want)
	if _, err := s.Run(s.ctx, "x"); code(err) != "run_not_found" {
		s.Fatal(err)
	}
	if _, err := s.Batch(s.ctx, "x"); code(err) != "batch_not_found" {
		s.Fatal(err)
	}
}

// stamps gives the store changes that were computed a minute before.
func stamps(s *subject) {
	runs, b := []chain.NewRun{newRun("r", s.Store.Now())}, &chain.Batch{ID: "b1", Parallel: 1}
	s.Advance(time.Minute)
	s.ok(s.Insert(s.ctx, runs, b))
	inserted := s.Store.Now()
	stored, err := s.Batch(s.ctx, "b1")
	s.ok(err)
	got := s.read("r")
	s.same("times of an inserted run and its batch, stored and given",
		[]time.Time{got.RequestedAt, got.UpdatedAt, stored.RequestedAt, runs[0].RequestedAt, runs[0].UpdatedAt, b.RequestedAt},
		slices.Repeat([]time.Time{inserted}, 6))

	r := s.claim("r")
	s.Advance(time.Minute)
	s.ok(s.Save(s.ctx, chain.Change{Record: *r}))
	got = s.read("r")
	s.same("times of a saved run", []time.Time{got.UpdatedAt, got.CompletedAt}, []time.Time{s.Store.Now(), {}})

	s.Advance(time.Minute)
	got, err = s.Act(s.ctx, chain.Order{ID: "r", Action: chain.Cancel}, func(_ time.Time, r chain.Record) (chain.Change, error) {
		r.Status = chain.Cancelled
		return chain.Change{Record: r}, nil
	})
	s.ok(err)
	s.same("a run that was acted on, as it is told", got, s.read("r"))
	s.same("times of a run that ended", []time.Time{got.RequestedAt, got.UpdatedAt, got.CompletedAt},
		[]time.Time{inserted, s.Store.Now(), s.Store.Now()})
}

func code(err error) string {
	if r, ok := errors.AsType[*chain.Refused](err); ok {
		return r.Code
	}
	return fmt.Sprint(err)
}

func claimOrder(s *subject) {
	late, other := newRun("r1", s.Store.Now().Add(time.Minute)), newRun("r0", s.Store.Now())
	other.Kind = "test.other"
	s.ok(s.Insert(s.ctx, []chain.NewRun{late, newRun("r3", s.Store.Now()), newRun("r2", s.Store.Now()), other}, nil))
	r := s.claim("r2")
	if r.Status != chain.Running || !r.StartedAt.Equal(s.Store.Now()) || !r.EnteredAt.Equal(s.Store.Now()) ||
		!r.LeaseTill.Equal(s.Store.Now().Add(time.Minute)) {
		s.Fatalf("claimed %+v", r)
	}
	s.claim("r3")
	s.claim("")
	s.put(r, time.Hour)
	s.Advance(time.Minute - time.Second)
	s.claim("")
	s.Advance(time.Second)
	s.claim("r3") // the lease of r3 is over, and r3 has been due for longer than r1
	s.claim("r1")
	s.claim("")
	if r, err := s.Claim(s.ctx, chain.Claim{Owner: "me", Lease: time.Minute}); r != nil || err != nil {
		s.Fatalf("claimed %+v of no kind, %v", r, err)
	}
	s.same("messages", s.Outbox(), []string{ScriptKind + ".started", ScriptKind + ".started", ScriptKind + ".started"})
}

func claimedRuns(s *subject) {
	s.insert("r")
	first := s.claim("r")
	s.claim("")
	s.Advance(59 * time.Second)
	s.claim("")
	s.Advance(time.Second)
	second := s.claim("r")
	if second.Version != first.Version+1 || second.Attempt != first.Attempt {
		s.Fatalf("claimed %+v after %+v", second, first)
	}
	s.put(second, 0)
	s.claim("r")
}

func renewals(s *subject) {
	s.insert("r")
	r := s.claim("r")
	s.Advance(50 * time.Second)
	s.ok(s.Renew(s.ctx, r, time.Minute))
	s.Advance(50 * time.Second)
	s.claim("")
	s.Advance(10 * time.Second)
	if err := s.Renew(s.ctx, r, time.Minute); !errors.Is(err, chain.ErrLost) {
		s.Fatalf("a lease that is over was renewed: %v", err)
	}
	s.claim("r")
	if err := s.Renew(s.ctx, r, time.Minute); !errors.Is(err, chain.ErrLost) {
		s.Fatalf("another's lease was renewed: %v", err)
	}
}

// A claim or an action after an expired lease records the latest time at which the lost step may
// have been at work; the record stays.
func lostSteps(s *subject) {
	s.insert("r")
	r := s.claim("r")
	if !r.Progress.LostAt.IsZero() {
		s.Fatalf("a step was lost at %v, and none was", r.Progress.LostAt)
	}
	s.Advance(50 * time.Second)
	s.ok(s.Renew(s.ctx, r, time.Minute))
	lost := s.Store.Now().Add(time.Minute)
	s.Advance(2 * time.Minute)
	r = s.claim("r")
	s.told("r", r.Progress.LostAt, lost)
	s.put(r, 0)
	r = s.claim("r")
	s.told("r", r.Progress.LostAt, lost) // the end of this step is known
	lost = r.LeaseTill
	s.Advance(2 * time.Minute)
	_, err := s.Act(s.ctx, chain.Order{ID: "r", Actor: chain.Actor{Name: "ada"}, Action: chain.Cancel},
		func(now time.Time, r chain.Record) (chain.Change, error) {
			r.Status = chain.Compensating
			return chain.Change{Record: r.Forsaken(now)}, nil
		})
	s.ok(err)
	s.told("r", s.read("r").Progress.LostAt, lost)
	s.told("r", s.claim("r").Progress.LostAt, lost)
}

func (s *subject) told(id string, got, want time.Time) {
	s.Helper()
	if !got.Equal(want) {
		s.Fatalf("run %s says that a step was lost at %v, want %v", id, got, want)
	}
}

func oldVersions(s *subject) {
	s.insert("r")
	old := s.claim("r")
	s.Advance(time.Minute)
	s.claim("r")
	before := s.read("r")
	err := s.Save(s.ctx, chain.Change{
		Record: *old, Events: []chain.Event{{Stage: "a", Direction: chain.Forward, Attempt: 1, Status: chain.Succeeded}},
		Messages: []chain.Message{{Type: "x"}}, Effects: []any{s.Effect("x")}, Locks: []string{"x"}, Unreachable: "x",
	})
	if !errors.Is(err, chain.ErrLost) {
		s.Fatalf("saved: %v", err)
	}
	s.same("the row", s.read("r"), before)
	s.nothingOf("r")
}

// nothingOf checks that a refused save left nothing behind.
func (s *subject) nothingOf(id string) {
	s.Helper()
	events, err := s.Events(s.ctx, id)
	s.ok(err)
	if len(events) != 1 || len(s.Applied()) > 0 || slices.Contains(s.Outbox(), "x") || slices.Contains(s.Audits(), "site.unreachable") {
		s.Fatalf("left behind: events %v, effects %v, messages %v, audit %v", events, s.Applied(), s.Outbox(), s.Audits())
	}
	free := newRun("free", s.Store.Now().Add(time.Hour))
	free.Locks = []string{"x"}
	s.ok(s.Insert(s.ctx, []chain.NewRun{free}, nil))
}

func wholeSaves(s *subject) {
	refused := newRun("refused", s.Store.Now())
	refused.Effects = []any{struct{ unknown int }{}}
	if _, ok := errors.AsType[*chain.EffectRefused](s.Insert(s.ctx, []chain.NewRun{refused}, nil)); !ok {
		s.Fatal("a start with an effect that nothing applies is not refused")
	}
	refused.Effects = []any{s.Effect("zero")}
	refused.DueAt = s.Store.Now().Add(time.Hour)
	s.ok(s.Insert(s.ctx, []chain.NewRun{refused}, nil)) // the refused start has left no run
	s.insert("r", "s")
	r, other := s.claim("r"), s.claim("s")
	s.Advance(5 * time.Second)
	s.ok(s.Save(s.ctx, chain.Change{
		Record: *r,
		Events: []chain.Event{{
			Stage: "a", Direction: chain.Forward, Attempt: 1, Status: chain.Succeeded, Message: "done",
			Details: json.RawMessage(`{"n":1}`),
		}},
		Messages: []chain.Message{{Type: "y", Subject: "node/n", Data: map[string]any{"a": 1}}},
		Effects:  []any{s.Effect("one"), s.Effect("two")}, Locks: []string{"node/n"},
	}))
	events, err := s.Events(s.ctx, "r")
	s.ok(err)
	if len(events) != 2 || events[0].Status != chain.Started || events[1].Status != chain.Succeeded || events[1].Message != "done" ||
		string(events[1].Details) != `{"n":1}` ||
		!events[1].At.Equal(s.Store.Now()) || !events[0].At.Equal(s.Store.Now().Add(-5*time.Second)) {
		s.Fatalf("events %+v", events)
	}
	s.same("effects", s.Applied(), []string{"zero", "one", "two"})
	s.same("messages", s.Outbox(), []string{ScriptKind + ".started", ScriptKind + ".started", "y"})
	err = s.Save(s.ctx, chain.Change{Record: *other, Effects: []any{s.Effect("three")}, Locks: []string{"node/n"}})
	if l, ok := errors.AsType[*chain.Locked](err); !ok || !slices.Equal(l.Taken, []chain.Taken{{Lock: "node/n", Run: "r"}}) {
		s.Fatalf("a taken lock: %v", err)
	}
	err = s.Save(s.ctx, chain.Change{
		Record: *other, Locks: []string{"x"}, Messages: []chain.Message{{Type: "x"}},
		Effects: []any{struct{ unknown int }{}},
	})
	if _, ok := errors.AsType[*chain.EffectRefused](err); !ok {
		s.Fatalf("an effect that nothing applies: %v", err)
	}
	s.same("effects", s.Applied(), []string{"zero", "one", "two"})
	s.put(other, 0) // the claim may still save
}

func uniqueEvents(s *subject) {
	s.insert("r")
	r := s.claim("r")
	end := chain.Event{Stage: "a", Direction: chain.Forward, Attempt: 1, Status: chain.Failed}
	s.ok(s.Save(s.ctx, chain.Change{Record: *r, Events: []chain.Event{end}}))
	s.claim("r") // the claim does not begin the attempt again
	events, err := s.Events(s.ctx, "r")
	s.ok(err)
	if len(events) != 2 {
		s.Fatalf("events %+v", events)
	}
}
