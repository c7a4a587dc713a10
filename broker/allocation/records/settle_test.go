package records

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

// What the SKU names for the end stops the release when it fails. The next release tries it again, and a forced one goes on
// without it.
func TestTheOperationOfTheSKUStopsARelease(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.binds(broker.OperationBindings{OnEnd: bound("demo.end")}, broker.OperationBindings{})
		s.ask("alc-1", 1)
		s.settle()
		s.fails = true
		for range 2 {
			s.release("alc-1")
			s.settle()
			a := s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation)
			if all := s.operations(); len(all) != 1 || all[0].Status != broker.OperationFailed || a.Forced {
				t.Errorf("%+v", all)
			}
		}
		if all := s.operations(); all[0].Attempt != 2 || strings.Contains(strings.Join(s.asked, " "), "revoke_user") {
			t.Errorf("attempt %d, the nodes were asked for %s", all[0].Attempt, s.asked)
		}
		_, err := s.db.TransitionAllocation(s.Context(), ada, "alc-1", store.AllocationChange{
			To: broker.AllocationReleasing, By: broker.AllocationAdmin, Reason: "the cluster is gone", Force: true,
		})
		s.ok(err)
		s.settle()
		if a := s.stands("alc-1", broker.AllocationReleased, ""); !a.Forced {
			t.Error("nothing says that the release was forced")
		}
		if all := s.operations(); all[0].Attempt != 3 {
			t.Errorf("%+v", all)
		}
	})
}

// A SKU that names another operation by now does not make the failure of the first good.
func TestAnotherOperationOfTheSKUMakesNoFailureGood(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.binds(broker.OperationBindings{OnEnd: bound("demo.end")}, broker.OperationBindings{})
		s.ask("alc-1", 1)
		s.settle()
		s.fails = true
		s.release("alc-1")
		s.settle()
		s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation)
		s.binds(broker.OperationBindings{OnEnd: bound("demo.other")}, broker.OperationBindings{})
		s.release("alc-1")
		s.settle()
		s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation)
		if all := s.operations(); len(all) != 1 || all[0].Attempt != 2 || strings.Contains(strings.Join(s.asked, " "), "revoke_user") {
			t.Errorf("%+v, the nodes were asked for %s", all, s.asked)
		}
	})
}

// A node that says nothing of the end of an operation is reimaged, and the turnover says why. Without a machine in MAAS the
// release waits for a person.
func TestAnUnknownEndOfAnOperationIsReimaged(t *testing.T) {
	for _, inMAAS := range []bool{true, false} {
		eachSite(t, 0, func(s *site) {
			if inMAAS {
				s.withImages("ubuntu/noble")
			} else {
				s.limited(2, 1)
			}
			s.binds(broker.OperationBindings{}, broker.OperationBindings{OnEnd: bound("demo.end")})
			s.ask("alc-1", 1)
			s.settle()
			s.hangs, s.deaf = true, true
			s.release("alc-1")
			s.settleFor(22 * time.Minute)
			s.stands("alc-1", broker.AllocationReleasing, "")
			if waits, err := s.db.AllocationWaits(s.Context(), "alc-1"); err != nil || !strings.Contains(waits, "operation op-1-end may still run on n-0") {
				t.Errorf("it waits for %q, %v", waits, err)
			}
			s.settleFor(10 * time.Minute)
			runs, err := s.db.Runs(s.Context(), chain.Filter{Kind: turnover.Reimage.Kind(), Limit: 10})
			s.ok(err)
			if !inMAAS {
				s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeCleaningFailed)
				if nodes, _ := s.turnovers(); len(nodes)+len(runs) > 0 {
					t.Errorf("soft resets of %v, and %d reimages", nodes, len(runs))
				}
				return
			}
			var state turnover.Turnover
			if len(runs) != 1 || json.Unmarshal(runs[0].State, &state) != nil || !strings.Contains(state.ModeBecause, "the end of an operation of allocation alc-1") {
				t.Errorf("%d reimages, %+v", len(runs), state) // the stand-in of a turnover ends no account
			}
		})
	}
}
