package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// hasRun starts a run that has a node.
func hasRun(t testing.TB, db *store.DB, n broker.Node, id, kind string) {
	t.Helper()
	ok(t, db.Insert(ctx, []chain.NewRun{{
		Record: chain.Record{ID: id, Kind: kind, Site: "dc1", Subject: n.Hostname, Status: chain.Pending, Stage: "scrub_gpu", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`), DueAt: db.Now(), RequestedBy: "olga"},
		Locks:  []string{"node/" + n.ID},
	}}, nil))
}

// ended is the end of the attempt that a claim begins.
var ended = chain.Event{Stage: "scrub_gpu", Direction: chain.Forward, Attempt: 1, Status: chain.Succeeded}

// step claims the due run and saves it with a status and events.
func step(t testing.TB, db *store.DB, kind string, status chain.Status, events ...chain.Event) {
	t.Helper()
	r := must(db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Hour, Kinds: []string{kind}}))(t)
	r.Status = status
	ok(t, db.Save(ctx, chain.Change{Record: *r, Events: events}))
}

func lineOf(page []store.Moment) (out []string) {
	for _, m := range page {
		took := ""
		if !m.Until.IsZero() {
			took = " " + m.Until.Sub(m.At).String()
		}
		out = append(out, m.Kind+" "+m.What+took)
	}
	return out
}

func TestATimelineHasAllThatHappenedToANodeInItsOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, other := member(t, db, "gpu-1"), member(t, db, "gpu-2")
		clock.Advance(time.Minute)
		began := db.Now()
		hasRun(t, db, n, "r-1", "k")
		hasRun(t, db, other, "r-2", "else")
		clock.Advance(time.Second)
		step(t, db, "k", chain.Running)
		clock.Advance(time.Second)
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		enqueue(t, db, other, taskcatalog.LaneExclusive)
		clock.Advance(4 * time.Second)
		ends(t, db, k, done)
		step(t, db, "k", chain.Running, ended, chain.Event{Stage: "enable_node", Direction: chain.Forward, Attempt: 1, Status: chain.Skipped, Message: "already so"})
		clock.Advance(time.Second)
		certified(t, db, n, "c-1", "r-1", true)
		clock.Advance(time.Second)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "look"}))(t)
		clock.Advance(time.Second)
		step(t, db, "k", chain.Completed)

		page, next, earlier, err := db.Timeline(ctx, n.ID, store.Window{Since: began, Limit: 100})
		ok(t, err)
		want := []string{"run k 9s", "stage scrub_gpu 5s", "task node.drain 4s", "stage enable_node", "certificate certificate.issue", "state node.transition"}
		if got := lineOf(page); !slices.Equal(got, want) || next != nil || earlier {
			t.Fatalf("%s, want %s; %v, %v", strings.Join(got, ", "), strings.Join(want, ", "), next, earlier)
		}
		if page[0].Actor != "olga" || page[0].RunID != "r-1" || page[1].Status != "succeeded" || page[2].TaskID != k.ID || page[5].Actor != admin.Name {
			t.Errorf("%+v", page)
		}

		newest, next, earlier, err := db.Timeline(ctx, n.ID, store.Window{Limit: 2})
		ok(t, err)
		if got := lineOf(newest); !slices.Equal(got, want[4:]) || next != nil || !earlier {
			t.Errorf("the newest: %v, %v, %v", got, next, earlier)
		}
	})
}

// A node's timeline shows how long a turnover kept the node out of use, and how many GPUs.
func TestATimelineHasWhatATurnoverCost(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		ok(t, store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: "1", Facts: parts("d1", "g1 g2")}))
		clock.Advance(time.Minute)
		began := db.Now()
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
		costs := func(until time.Duration, status string) {
			t.Helper()
			page, _, _, err := db.Timeline(ctx, n.ID, store.Window{Since: began, Limit: 100})
			ok(t, err)
			i := slices.IndexFunc(page, func(m store.Moment) bool { return m.Kind == store.MomentOutage })
			if i < 0 {
				t.Fatalf("the line is %v", lineOf(page))
			}
			m := page[i]
			if took := m.Until.Sub(m.At); !m.At.Equal(began) || !m.Until.IsZero() && took != until || m.Until.IsZero() != (until == 0) || m.Status != status || string(m.After) != `{"gpus":2}` {
				t.Errorf("%+v with %s", m, m.After)
			}
		}
		costs(0, "open")
		clock.Advance(30 * time.Minute)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerTurnover, Reason: "unclean"}))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "r", ClearTurnover: true}))(t)
		clock.Advance(time.Hour)
		costs(30*time.Minute, "over")
	})
}

// With any page size, a timeline is complete and without repetition, even if many things happen at
// the same time.
func TestATimelineIsTheSameInPagesOfAnySize(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		clock.Advance(time.Minute)
		began := db.Now()
		for i := range 3 {
			hasRun(t, db, n, fmt.Sprint("r-", i), "k")
			for range 4 {
				enqueue(t, db, n, taskcatalog.LaneExclusive)
			}
			step(t, db, "k", chain.Completed, ended)
			clock.Advance(time.Duration(i) * time.Second)
		}
		whole, _, _, err := db.Timeline(ctx, n.ID, store.Window{Since: began, Limit: 1000})
		ok(t, err)
		if len(whole) != 3*6 {
			t.Fatalf("%d moments: %v", len(whole), lineOf(whole))
		}
		for size := 1; size <= len(whole); size++ {
			var told []store.Moment
			for w := (&store.Window{Since: began, Limit: size}); w != nil; {
				page, next, _, err := db.Timeline(ctx, n.ID, *w)
				ok(t, err)
				told = append(told, page...)
				if w = next; w != nil {
					back := must(store.WindowAt(w.Cursor()))(t)
					back.Limit = size
					w = &back
				}
			}
			if !slices.Equal(lineOf(told), lineOf(whole)) {
				t.Errorf("in pages of %d: %v", size, lineOf(told))
			}
		}
	})
}

func TestACursorOfATimelineIsOneThatWasGiven(t *testing.T) {
	for _, c := range []string{"", "x", "1", "1.", "1.-1", "-5.0", "0.0", "1.99999999", "1.2.3", "99999999999999999999.0"} {
		if w, err := store.WindowAt(c); err == nil {
			t.Errorf("%q is taken as %+v", c, w)
		}
	}
}
