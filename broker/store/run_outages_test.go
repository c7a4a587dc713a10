package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A node's outage lasts from the transaction that marks the turnover as owed to the transaction
// that hands the node out again, whatever happens in between.
func TestAnOutageLastsFromTheDebtToTheNextTenant(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, other := member(t, db, "gpu-1"), member(t, db, "gpu-2")
		from := db.Now()
		out := func(when string, want int, open bool) []broker.Outage {
			t.Helper()
			all := must(db.Outages(ctx, nil, from, db.Now().Add(time.Second), 100))(t)
			if len(all) != want || want > 0 && all[0].EndedAt.IsZero() != open {
				t.Fatalf("%s: %+v", when, all)
			}
			return all
		}
		ok(t, store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: "1", Facts: parts("d1", "g1 g2")}))
		clock.Advance(time.Hour)
		must(db.Transition(ctx, admin, other.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "look"}))(t)
		out("a node that is owed nothing", 0, false)
		for range 2 {
			must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
		}
		began := db.Now()
		out("begun", 1, true)
		clock.Advance(time.Hour)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerTurnover, Reason: "unclean"}))(t)
		out("quarantined", 1, true)
		clock.Advance(time.Hour)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "enough"}))(t)
		o := out("in service", 1, false)[0]
		if !o.BeganAt.Equal(began) || o.EndedAt.Sub(began) != 2*time.Hour || o.NodeID != n.ID || o.GPUs != 2 {
			t.Errorf("%+v, began %v", o, began)
		}
		clock.Advance(time.Hour)
		must(db.BeginTurnover(ctx, admin, turn(n, "r-2")))(t)
		if all := out("another", 2, true); all[0].NodeID != n.ID {
			t.Errorf("%+v", all)
		}
		if all := must(db.Outages(ctx, []string{"elsewhere"}, from, db.Now(), 100))(t); len(all) != 0 {
			t.Errorf("another site's: %+v", all)
		}
		if all := must(db.Outages(ctx, nil, from, began, 100))(t); len(all) != 0 {
			t.Errorf("of before it began: %+v", all)
		}
		if all := must(db.Outages(ctx, nil, began.Add(3*time.Hour+time.Minute), db.Now().Add(time.Minute), 100))(t); len(all) != 1 {
			t.Errorf("of after the first ended: %+v", all)
		}
	})
}

func TestStagesAreSummedUpByTheTimeInWhichTheyEnded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		const kind = "node.decommission/soft_reset"
		from := db.Now()
		for i, took := range []time.Duration{time.Minute, 3 * time.Minute} {
			hasRun(t, db, n, "r-"+string(rune('1'+i)), kind)
			step(t, db, kind, chain.Running)
			clock.Advance(took)
			step(t, db, kind, chain.Completed, ended)
			clock.Advance(time.Hour)
		}
		hasRun(t, db, n, "r-x", "node.onboarding")
		step(t, db, "node.onboarding", chain.Completed, ended)
		all := must(db.StageTimes(ctx, "node.decommission/", nil, from, db.Now().Add(time.Second)))(t)
		want := store.StageTime{Kind: kind, Stage: "scrub_gpu", Runs: 2, Attempts: 2, Total: 4 * time.Minute, Longest: 3 * time.Minute}
		if len(all) != 1 || all[0] != want {
			t.Fatalf("%+v, want %+v", all, want)
		}
		late := must(db.StageTimes(ctx, "node.decommission/", []string{"dc1"}, from.Add(30*time.Minute), db.Now()))(t)
		if len(late) != 1 || late[0].Runs != 1 || late[0].Total != 3*time.Minute {
			t.Errorf("of the second alone: %+v", late)
		}
		if none := must(db.StageTimes(ctx, "node.decommission/", []string{"dc2"}, from, db.Now()))(t); len(none) != 0 {
			t.Errorf("another site's: %+v", none)
		}
		if got := must(db.NodeEvents(ctx, n.ID, "node.decommission/", from, db.Now(), 100))(t); len(got) != 4 {
			t.Errorf("%d events of turnovers: %+v", len(got), got)
		}
	})
}
