//go:build !race

package onboarding_test

import (
	"testing"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

// Every claim and every save is lost in turn, before the store and after it, together with the
// broker. Each time there is one machine, one deployment, one node.
func TestEachSaveOfAnOnboardingMayBeLost(t *testing.T) {
	for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
		for n := 0; ; n++ {
			w := newWorld(t, "3.6")
			w.region.Timing = maassim.Usual.Faster(10)
			w.profile.Policy.HardwareSyncInterval = "1m"
			b := w.box(1)
			w.region.PlugIn(b)
			w.lossy.Fate = func(call int) chaintest.Fate {
				if call == n {
					return fate
				}
				return chaintest.Done
			}
			id := w.start(1)
			w.settle(nil)
			r := w.run(id)
			if d, m := w.region.Happened(b.Serial, "deploy"), len(w.region.Machines()); r.Status != chain.Completed || d != 1 || m != 1 || len(w.book.All()) != 1 {
				t.Fatalf("fate %v at call %d: %s at %s (%+v), %d deployments, %d machines, %d nodes", fate, n, r.Status, r.Stage, r.Failure, d, m, len(w.book.All()))
			}
			if w.lossy.Calls() <= n {
				break
			}
		}
	}
}

// Every claim and every save is lost in turn, together with the broker. Each time the machine is
// released once and deployed once, for the same node.
func TestEachSaveOfAReimageMayBeLost(t *testing.T) {
	for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
		for n := 0; ; n++ {
			w := newWorld(t, "3.6")
			w.region.Timing = maassim.Usual.Faster(10)
			w.profile.Policy.HardwareSyncInterval = "1m"
			id := w.node1(func(a *maassim.Arranged, _ *world) { a.Annotations = nil })
			w.lossy.Fate = func(call int) chaintest.Fate {
				if call == n {
					return fate
				}
				return chaintest.Done
			}
			if err := w.reclaims("t1", "reimage", id, func(q *onboarding.ReclaimRequest) { q.Adopted, q.Erase = true, "secure" }); err != nil {
				t.Fatal(err)
			}
			w.settle(nil)
			r, s := w.run("t1"), w.turned("t1")
			if r.Status != chain.Completed || hardware(w, "deploy") != 1 || hardware(w, "release") != 1 || hardware(w, "erase") != 1 || len(w.book.All()) != 1 || s.Reclaim.Did != "secure" || !s.Reclaim.TokenDiffers {
				t.Fatalf("fate %v at call %d: %s at %s (%+v), %d deployments, %d releases: %+v", fate, n, r.Status, r.Stage, r.Failure, hardware(w, "deploy"), hardware(w, "release"), s.Reclaim)
			}
			if w.lossy.Calls() <= n {
				break
			}
		}
	}
}

func TestEachSaveOfARemovalMayBeLost(t *testing.T) {
	for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
		for n := 0; ; n++ {
			w := newWorld(t, "3.6")
			id := w.node1(nil)
			w.lossy.Fate = func(call int) chaintest.Fate {
				if call == n {
					return fate
				}
				return chaintest.Done
			}
			if err := w.reclaims("t1", "removal", id, forget); err != nil {
				t.Fatal(err)
			}
			w.settle(nil)
			if r := w.run("t1"); r.Status != chain.Completed || hardware(w, "release") != 1 || len(w.region.Machines()) != 0 || !w.turned("t1").Reclaim.Removed {
				t.Fatalf("fate %v at call %d: %s at %s (%+v), %d releases", fate, n, r.Status, r.Stage, r.Failure, hardware(w, "release"))
			}
			if w.lossy.Calls() <= n {
				break
			}
		}
	}
}
