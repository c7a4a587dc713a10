package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// fates are the ways in which a task that creates a user comes to nothing.
var fates = map[string]func(testing.TB, *store.DB, broker.Task){
	"cancelled before it was delivered": func(t testing.TB, db *store.DB, k broker.Task) {
		must(db.CancelTask(ctx, admin, k.ID, "no"))(t)
	},
	"refused by the node": func(t testing.TB, db *store.DB, k broker.Task) {
		ends(t, db, k, store.Result{Status: broker.TaskFailed, Outcome: taskcatalog.OutcomeRefused, Code: "bad_params"})
	},
}

// A tenant's allocation is not forgotten when the same user is asked for again in vain, before or
// after the tenant has left: nobody else gets the node, and the tenant's root access stays on
// record.
func TestAUserThatWasThereIsNotHiddenByOneThatNeverCame(t *testing.T) {
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				n := member(t, db, "gpu-1")
				kept := func(when string, alive int) {
					t.Helper()
					if all := must(db.Occupants(ctx, n.ID))(t); len(all) != 1 || all[0].Tenant != "acme" || !all[0].HadRoot || len(live(t, db, n.ID)) != alive {
						t.Fatalf("%s: %+v", when, all)
					}
					if _, err := letsIn(db, n, "a-2", "globex", false); err == nil {
						t.Fatalf("%s: another tenant is let in", when)
					}
				}
				ends(t, db, must(letsIn(db, n, "a-1", "acme", true))(t), done)
				fate(t, db, must(letsIn(db, n, "a-1", "acme", false))(t))
				kept("more keys came to nothing", 1)
				leaves(t, db, n, "a-1")
				kept("the tenant has left", 0)
				clock.Advance(time.Minute)
				fate(t, db, must(letsIn(db, n, "a-1", "acme", false))(t))
				kept("it came back in vain", 1) // only a revoke proves that the user is gone
				leaves(t, db, n, "a-1")
				kept("and is revoked again", 0)
			})
		})
	}
}

// Any task may have created the user: another task's failure, before or after, does not remove the
// allocation from the record.
func TestAUserIsThereByWhicheverTaskMadeIt(t *testing.T) {
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
				n := member(t, db, "gpu-1")
				fate(t, db, must(letsIn(db, n, "a-1", "acme", false))(t))
				if got := live(t, db, n.ID); len(got) != 0 {
					t.Fatalf("of one that never was there is %v", got)
				}
				ends(t, db, must(letsIn(db, n, "a-1", "acme", true))(t), done)
				if got := live(t, db, n.ID); len(got) != 1 {
					t.Error("the second task made it, and it is not on record")
				}
				_, err := letsIn(db, n, "a-2", "globex", false)
				refused(t, err, "allocation_live")

				m := member(t, db, "gpu-2")
				first := must(letsIn(db, m, "a-1", "acme", false))(t)
				second := must(letsIn(db, m, "a-1", "acme", false))(t)
				must(db.CancelTask(ctx, admin, first.ID, "no"))(t)
				ends(t, db, second, done)
				if got := live(t, db, m.ID); len(got) != 1 {
					t.Error("one of two tasks made it, and it is not on record")
				}
			})
		})
	}
}

// A certified allocation is over: a second request that comes to nothing leaves no allocation.
func TestACertifiedAllocationThatDoesNotComeBackLeavesNothing(t *testing.T) {
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
				n := member(t, db, "gpu-1")
				ends(t, db, must(letsIn(db, n, "a-1", "acme", true))(t), done)
				leaves(t, db, n, "a-1")
				must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
				must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
				certified(t, db, n, "c-1", "r-1", true)
				ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"))
				fate(t, db, must(letsIn(db, n, "a-1", "acme", false))(t))
				if all := must(db.Occupants(ctx, n.ID))(t); len(all) != 0 {
					t.Fatalf("%+v", all)
				}
				ends(t, db, must(letsIn(db, n, "a-2", "globex", false))(t), done)
			})
		})
	}
}
