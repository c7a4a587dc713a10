package records

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
)

// A tenant who breaks the operation of the end, again and again, keeps the nodes for as long as the policy says, and no longer: the
// release goes on as one by force does, and what follows is no less thorough.
func TestAReleaseGoesOnWithoutItsEndAfterATime(t *testing.T) {
	for _, inMAAS := range []bool{true, false} {
		eachSite(t, 0, func(s *site) {
			if inMAAS {
				s.withImages("ubuntu/noble")
			} else {
				s.limited(2, 1)
			}
			s.binds(broker.OperationBindings{OnEnd: bound("demo.end")}, broker.OperationBindings{})
			s.ask("alc-1", 1)
			s.settle()
			s.fails = true
			s.release("alc-1")
			s.settleFor(time.Minute)
			begun := s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation)
			at := begun.ReleasingAt.Add(2 * time.Hour)
			if !begun.GoesOnAt.Equal(at) || !strings.Contains(begun.Failure(), at.UTC().Format(time.RFC3339)) {
				t.Errorf("it goes on at %v (%s), want %v", begun.GoesOnAt, begun.Failure(), at)
			}
			s.clock.Advance(at.Sub(s.db.Now()) - 2*time.Minute)
			s.release("alc-1") // to keep the nodes
			s.settleFor(time.Minute)
			if a := s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation); !a.GoesOnAt.Equal(at) {
				t.Errorf("a second release moved the time to %v", a.GoesOnAt)
			}
			if asked := strings.Join(s.asked, " "); strings.Contains(asked, "revoke_user") {
				t.Errorf("the nodes were asked for %s", asked)
			}
			s.settleFor(3 * time.Minute)
			if all := s.operations(); len(all) != 1 || all[0].Attempt != 2 {
				t.Errorf("what was passed over is tried again: %+v", all)
			}
			kind, want := turnover.SoftReset, "passed over by policy (end_operation_pass_after) at "
			if inMAAS {
				kind, want = turnover.Reimage, "reimage because the operation of the end of allocation alc-1 did not end well"
			}
			runs, err := s.db.Runs(s.Context(), chain.Filter{Kind: kind.Kind(), Limit: 10})
			var state turnover.Turnover
			if s.ok(err); len(runs) != 1 || json.Unmarshal(runs[0].State, &state) != nil || !strings.Contains(state.Reason, want) {
				t.Errorf("%s: %d runs, %q", kind, len(runs), state.Reason)
			}
			if !strings.HasSuffix(strings.Join(s.asked, " "), "revoke_user") {
				t.Errorf("the nodes were asked for %s", s.asked)
			}
			a, err := s.db.Allocation(s.Context(), "alc-1")
			if s.ok(err); a.PassedAt.Before(at) || a.Forced || !a.GoesOnAt.IsZero() {
				t.Errorf("%+v", a)
			}
			states, _, err := s.db.AllocationTimeline(s.Context(), "alc-1", 100)
			s.ok(err)
			passed := 0
			for _, at := range states {
				if at.Status == broker.AllocationReleasing && at.Code == broker.AllocationEndPassed && at.By == "" {
					passed++
				}
			}
			if passed != 1 {
				t.Errorf("the timeline is %+v", states)
			}
			if !inMAAS { // the stand-in of a reimage ends no account
				s.stands("alc-1", broker.AllocationReleased, "")
			}
		})
	}
}

// A tenant who releases again faster than the policy looks gains no further attempt.
func TestNobodyIsFasterThanThePolicy(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		s.limited(2, 1)
		s.binds(broker.OperationBindings{OnEnd: bound("demo.end")}, broker.OperationBindings{})
		s.ask("alc-1", 1)
		s.settle()
		s.fails = true
		s.release("alc-1")
		s.settleFor(time.Minute)
		begun := s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation)
		s.clock.Advance(begun.GoesOnAt.Sub(s.db.Now()))
		s.release("alc-1")
		a, err := s.db.Allocation(s.Context(), "alc-1")
		if s.ok(err); a.PassedAt.IsZero() || a.Status != broker.AllocationReleasing {
			t.Errorf("%+v", a)
		}
		s.settle()
		s.stands("alc-1", broker.AllocationReleased, "")
		if all := s.operations(); len(all) != 1 || all[0].Attempt != 1 {
			t.Errorf("what was passed over is tried again: %+v", all)
		}
	})
}

// A person sets the time, also while a release waits. never is as long as it takes.
func TestAPersonSaysHowLongAnEndKeepsARelease(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		s.limited(2, 1)
		after := func(text string) {
			s.Helper()
			_, err := s.db.UpdateProfile(s.Context(), ada, "s-dc1", "", "r", func(p *broker.Profile) error {
				p.Policy.EndOperationPassAfter = text
				return nil
			})
			s.ok(err)
		}
		s.binds(broker.OperationBindings{OnEnd: bound("demo.end")}, broker.OperationBindings{})
		s.ask("alc-1", 1)
		s.settle()
		s.fails = true
		after(broker.Never)
		s.release("alc-1")
		s.settleFor(time.Minute)
		s.clock.Advance(5 * time.Hour)
		s.settleFor(time.Minute)
		if a := s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation); !a.GoesOnAt.IsZero() {
			t.Errorf("it goes on at %v", a.GoesOnAt)
		}
		after("6h")
		s.settleFor(10 * time.Second)
		a := s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation)
		if want := a.ReleasingAt.Add(6 * time.Hour); !a.GoesOnAt.Equal(want) {
			t.Errorf("it goes on at %v, want %v", a.GoesOnAt, want)
		}
		after(broker.Never)
		s.clock.Advance(2 * time.Hour)
		s.settleFor(10 * time.Second)
		if a := s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeEndOperation); !a.GoesOnAt.IsZero() {
			t.Errorf("it goes on at %v", a.GoesOnAt)
		}
		after("1h")
		s.settleFor(time.Minute)
		s.stands("alc-1", broker.AllocationReleased, "")
	})
}

// What else waits for a person waits for a person.
func TestOnlyTheOperationOfTheEndIsPassedOver(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		s.limited(2, 1)
		s.certified = false
		s.ask("alc-1", 1)
		s.settle()
		s.release("alc-1")
		s.settle()
		s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeCleaningFailed)
		s.clock.Advance(23 * time.Hour)
		s.settleFor(10 * time.Second)
		s.stands("alc-1", broker.AllocationReleaseFailed, allocation.CodeCleaningFailed)
	})
}
