package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// twins are the store in memory and a store in SQL, given the same calls. Results of simulations on
// the store in memory must hold on the store in SQL.
type twins struct {
	*testing.T
	*rand.Rand
	seed    uint64
	clock   *storetest.Clock
	memory  *chaintest.Memory
	sql     *store.DB
	kind    string
	runs    int
	batches int
	claimed []chain.Record
}

func TestTheStoreInMemoryIsLikeTheOneInSQL(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		for seed := range uint64(20) {
			memory := chaintest.NewMemory(clock.Now)
			memory.Apply = func(any) error { return nil }
			w := &twins{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), seed: seed, clock: clock, memory: memory, sql: db, kind: fmt.Sprint("test.", seed)}
			w.play()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}

func (w *twins) play() {
	ops := []func(){w.insert, w.claim, w.claim, w.claim, w.save, w.save, w.save, w.act, w.act, w.place, w.lift, w.wait, w.wait}
	for range 60 {
		ops[w.IntN(len(ops))]()
		w.compare()
	}
	for _, site := range []string{"", w.kind, w.kind + "b"} {
		for _, kind := range []chain.HoldKind{chain.Freeze, chain.Unreachable} {
			w.both("lift", func(s chain.Store) error { return s.LiftHold(ctx, chainAda, site, kind, "over") })
		}
	}
	w.compare()
}

var chainAda = chain.Actor{Name: "ada", Role: "operator"}

func (w *twins) site() string { return w.kind + []string{"", "b"}[w.IntN(2)] }

func (w *twins) some(d time.Duration) time.Time {
	return w.clock.Now().Add(time.Duration(w.IntN(int(d/time.Second))) * time.Second)
}

// both calls f with each store and requires the same answer.
func (w *twins) both(what string, f func(chain.Store) error) {
	w.Helper()
	a, b := f(w.memory), f(w.sql)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		w.Fatalf("seed %d: %s says %v in memory and %v in SQL", w.seed, what, a, b)
	}
}

func (w *twins) insert() {
	var runs []chain.NewRun
	var batch *chain.Batch
	site := w.site()
	if w.IntN(2) == 0 {
		w.batches++
		batch = &chain.Batch{ID: fmt.Sprint(w.kind, "-b", w.batches), Kind: w.kind, Site: site, Parallel: 1 + w.IntN(2), StopAfter: w.IntN(3)}
	}
	for range 1 + w.IntN(3) {
		w.runs++
		r := chain.NewRun{Spread: w.IntN(1000), Record: chain.Record{
			ID: fmt.Sprintf("%s-%03d", w.kind, w.runs), Kind: w.kind, Site: site, Status: chain.Pending, Stage: "a", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`),
			Progress: chain.Progress{Tries: map[string]int{"a": 1}}, DueAt: w.some(time.Minute), RequestedBy: "ada", RequestedAt: w.clock.Now(), UpdatedAt: w.clock.Now(),
		}}
		if batch != nil {
			r.Batch = batch.ID
		}
		if w.IntN(2) == 0 {
			r.Locks = []string{w.lock()}
		}
		runs = append(runs, r)
	}
	w.both("insert", func(s chain.Store) error { return s.Insert(ctx, runs, batch) })
}

func (w *twins) lock() string { return fmt.Sprint(w.kind, "/", w.IntN(6)) }

func (w *twins) claim() {
	c := chain.Claim{Owner: fmt.Sprint("broker ", w.IntN(2)), Lease: time.Minute, Kinds: []string{w.kind}}
	var got []*chain.Record
	w.both("claim", func(s chain.Store) error {
		r, err := s.Claim(ctx, c)
		got = append(got, r)
		return err
	})
	if !reflect.DeepEqual(got[0], got[1]) {
		w.Fatalf("seed %d: claimed in memory\n  %+v\nin SQL\n  %+v", w.seed, got[0], got[1])
	}
	if got[0] != nil {
		w.claimed = append(w.claimed, *got[0])
	}
}

func (w *twins) save() {
	if len(w.claimed) == 0 {
		return
	}
	i := w.IntN(len(w.claimed))
	r := w.claimed[i]
	w.claimed = append(w.claimed[:i:i], w.claimed[i+1:]...)
	if w.IntN(4) == 0 {
		w.both("renew", func(s chain.Store) error { return s.Renew(ctx, &r, time.Minute) })
		w.claimed = append(w.claimed, r)
		return
	}
	c := chain.Change{Record: r, Honoured: r.Asked}
	statuses := []chain.Status{chain.Running, chain.Running, chain.Running, chain.Compensating, chain.Completed, chain.FailedManual, chain.FailedRetryable, chain.Cancelled}
	c.Record.Status, c.Record.DueAt, c.Record.Held, c.Record.UpdatedAt = statuses[w.IntN(len(statuses))], w.some(time.Minute), false, w.clock.Now()
	if w.IntN(2) == 0 {
		c.Events = []chain.Event{{Stage: r.Stage, Direction: r.Direction, Attempt: r.Attempt, Status: chain.Succeeded}}
		tries := map[string]int{"a": r.Attempt + 1}
		c.Record.Attempt, c.Record.Progress = r.Attempt+1, chain.Progress{Tries: tries}
	}
	if w.IntN(4) == 0 {
		c.Locks = []string{w.lock()}
	}
	switch {
	case c.Record.Status == chain.Running && w.IntN(4) == 0:
		c.Record.Held, c.Record.Waiting, c.Unreachable = true, "no answer", "no answer"
	case r.Probe:
		c.Reached = true
	}
	if r.Batch != "" && !c.Record.Status.Moving() {
		c.Result = &chain.Result{Failed: c.Record.Status.Stopped(), Stage: "a", Class: "power"}
	}
	w.both("save", func(s chain.Store) error { return s.Save(ctx, c) })
}

func (w *twins) act() {
	if w.runs == 0 {
		return
	}
	id, what := fmt.Sprintf("%s-%03d", w.kind, 1+w.IntN(w.runs)), w.IntN(4)
	w.both("act", func(s chain.Store) error {
		_, err := s.Act(ctx, chain.Order{ID: id, Actor: chainAda, Action: "test"}, func(now time.Time, r chain.Record) (chain.Change, error) {
			c := chain.Change{Record: r}
			switch {
			case r.InFlight(now) && what > 0:
				c.Beside, c.Record.Asked, c.Record.AskedBy = true, chain.AskCancel, "ada"
			case r.Status.Stopped():
				c.Record.Status, c.Record.DueAt = chain.Pending, now
			case what == 3:
				return c, &chain.Refused{Code: "run_moving", Message: "no"}
			default:
				c.Nothing = true
			}
			return c, nil
		})
		return err
	})
}

func (w *twins) place() {
	if w.IntN(3) > 0 {
		return
	}
	h := chain.SiteHold{Site: []string{"", w.kind, w.kind + "b"}[w.IntN(3)], Kind: chain.Freeze, Reason: "storm"}
	w.both("hold", func(s chain.Store) error { return s.PlaceHold(ctx, chainAda, h) })
}

func (w *twins) lift() {
	site, kind := []string{"", w.kind, w.kind + "b"}[w.IntN(3)], []chain.HoldKind{chain.Freeze, chain.Unreachable}[w.IntN(2)]
	w.both("lift", func(s chain.Store) error { return s.LiftHold(ctx, chainAda, site, kind, "over") })
}

func (w *twins) wait() { w.clock.Advance(time.Duration(w.IntN(60)) * time.Second) }

func (w *twins) compare() {
	w.Helper()
	f := chain.Filter{Kind: w.kind, Limit: 1000}
	a, err := w.memory.Runs(ctx, f)
	ok(w, err)
	b, err := w.sql.Runs(ctx, f)
	ok(w, err)
	if !reflect.DeepEqual(a, b) {
		for i := range min(len(a), len(b)) {
			if !reflect.DeepEqual(a[i], b[i]) {
				w.Fatalf("seed %d: in memory\n  %+v\nin SQL\n  %+v", w.seed, a[i], b[i])
			}
		}
		w.Fatalf("seed %d: %d runs in memory, %d in SQL", w.seed, len(a), len(b))
	}
	for i := range w.batches {
		id := fmt.Sprint(w.kind, "-b", i+1)
		a, errA := w.memory.Batch(ctx, id)
		b, errB := w.sql.Batch(ctx, id)
		if _, no := errors.AsType[*chain.Refused](errA); !no && errA != nil || !reflect.DeepEqual(a, b) || fmt.Sprint(errA) != fmt.Sprint(errB) {
			w.Fatalf("seed %d: in memory\n  %+v %v\nin SQL\n  %+v %v", w.seed, a, errA, b, errB)
		}
	}
}
