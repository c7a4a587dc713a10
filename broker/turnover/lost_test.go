//go:build !race

package turnover_test

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/test/maassim"
)

// Whichever claim or save is lost, neither chain repeats work, and the end is the same.
func TestEachSaveOfAMachinesTurnoverMayBeLost(t *testing.T) {
	for _, req := range []turnover.Request{reimage, leave} {
		for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
			for n := 0; ; n += 17 {
				s := newSite(t)
				s.place.Policy.AcceptMAASErase = true
				s.book.LetIn(s.id, "a-1", "acme", true)
				from := s.lossy.Calls()
				s.lossy.Fate = func(call int) chaintest.Fate {
					if call == from+n {
						return fate
					}
					return chaintest.Done
				}
				r := s.turnOver(req)
				want, machine, deploys := broker.Active, maassim.Deployed, 2
				if req.Mode == turnover.FullDecommission {
					want, machine, deploys = broker.Deleted, maassim.Ready, 1
				}
				if m := s.book.Machine(s.id); r.Status != chain.Completed || m.Status != want {
					t.Fatalf("%s, fate %v at call %d: %s at %s: %+v; the node is %s", req.Mode, fate, n, r.Status, r.Stage, r.Failure, m.Status)
				}
				if m := s.machine(); m.Status != machine || s.region.Happened(s.serial, "deploy") != deploys || s.region.Happened(s.serial, "release") != 1 || len(s.book.Forced) != 1 {
					t.Errorf("%s, fate %v at call %d: machine %+v, forced %v", req.Mode, fate, n, m, s.book.Forced)
				}
				if s.lossy.Calls() <= from+n {
					if n < 30 {
						t.Errorf("%d calls only", n)
					}
					break
				}
			}
		}
	}
}

// A broker that dies before or after any claim or save changes nothing about the end, and no task
// is requested twice.
func TestEachSaveOfATurnoverMayBeLost(t *testing.T) {
	for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
		for n := 0; ; n++ {
			w := newWorld(t)
			w.book.LetIn(node, "a-1", "acme", false)
			w.lossy.Fate = func(call int) chaintest.Fate {
				if call == n {
					return fate
				}
				return chaintest.Done
			}
			r := w.begin(reset)
			r = w.settle(r.ID) // for a run whose first claim was lost
			if r.Status != chain.Completed {
				t.Fatalf("fate %v at call %d: %s at %s: %+v", fate, n, r.Status, r.Stage, r.Failure)
			}
			w.stands(broker.Active, false)
			for typ, want := range map[string]int{"node.rotate_identity": 1, "node.gpu_scrub": 1, "node.validate_clean": 1, "node.drain": 2, "allocation.revoke_user": 1} {
				if got := len(w.book.Tasks(node, typ)); got != want {
					t.Errorf("fate %v at call %d: %s was asked for %d times", fate, n, typ, got)
				}
			}
			if len(w.book.Forced) != 1 {
				t.Errorf("fate %v at call %d: forced %v", fate, n, w.book.Forced)
			}
			if report, err := w.book.Verify(w.state(r.ID).Issued); err != nil || !report.Holds() {
				t.Errorf("fate %v at call %d: %v, %v", fate, n, report, err)
			}
			if w.lossy.Calls() <= n {
				if n < 20 {
					t.Errorf("%d calls only", n)
				}
				break
			}
		}
	}
}
