package rollout

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// codeTakenBack is the code of a healthy member that is taken back because other members failed.
const codeTakenBack = "rollout_rolled_back"

// halting withdraws unbegun runs, lets runs under way end, takes back done members if OnFailure
// says so and failures are the cause, and then stops for a person.
func (c *Chains) halting(ctx context.Context, r *run) error {
	s := &r.State
	if err := c.withdraw(ctx, r, s.Halt.Message); err != nil {
		return storeFault(err)
	}
	if n := s.unfinished(); n > 0 {
		return chain.Again(soon, "%s; %s under way end first", s.Halt.Message, nodes(n))
	}
	if s.Halt.Code == CodePaused && s.OnFailure == Rollback {
		busy, err := c.Nodes.Busy(ctx)
		if err != nil {
			return storeFault(err)
		}
		switch picked, left := s.rollBackAll(busy); {
		case picked > 0:
			return chain.Again(0, "%s; the release is rolled back on other nodes", s.Halt.Message)
		case left > 0:
			return chain.Again(idlePause, "%s; %s wait until their tenant leaves, to be rolled back", s.Halt.Message, nodes(left))
		}
	}
	return chain.Fail(paused, "the rollout of %s stopped: %s (%s)", s.Release.Version, s.Halt.Message, s.progress(-1)).
		With(s.Halt.Code, s.Count(-1)).
		Next("read the reason (hostler rollout status %s), then hostler rollout resume %s; or hostler rollout abort %s --reason R", r.ID,
			r.ID, r.ID)
}

// unfinished is how many members a stopping rollout waits for: moving members, and withdrawn
// members that have not ended yet. A member parked before its way back does not count: its run
// continues without the rollout.
func (s *Rollout) unfinished() (n int) {
	for _, m := range s.Members {
		if m.Result == Running || m.Result.Moving() && !m.Parked {
			n++
		}
	}
	return n
}

// withdraw cancels the runs that have done nothing to their nodes yet; in an undo, also the runs
// that take back.
func (c *Chains) withdraw(ctx context.Context, r *run, why string) error {
	s := &r.State
	for i := range s.Members {
		m := &s.Members[i]
		if m.Result != Running && (m.Result != TakingBack || !r.Undoing) {
			continue
		}
		rec, u, err := c.runOf(ctx, m.Current(r.ID))
		if err != nil && broker.AsError(err).Code == "run_not_found" {
			continue // the member's run has not begun yet
		}
		if err == nil && notStarted(rec, u) {
			err = c.Nodes.Cancel(ctx, rec.ID, "rollout "+r.ID+": "+why)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rollBackAll decides which done members are taken back next, as many at a time as there is room
// for. left counts the members that must be waited for.
func (s *Rollout) rollBackAll(busy map[string]bool) (picked, left int) {
	moving, parked := s.underWay()
	for i := range s.Members {
		m := &s.Members[i]
		waits := busy[m.NodeID] && s.safetyBack() == broker.AfterDrain
		switch {
		case m.Result == TakingBack:
			left++
		case m.Result != Done || m.Back != "":
		case waits && parked >= s.Plan.Concurrency, !waits && moving >= s.Plan.Concurrency:
			left++
		default:
			m.noteReason(codeTakenBack, s.Halt.Message)
			m.settle(TakingBack, "")
			if m.Parked = waits; waits {
				parked++
			} else {
				moving++
			}
			picked++
		}
	}
	return picked, left
}

// stop is the undo of a rollout: nothing more begins, runs under way end, and the release stays
// in place.
func (c *Chains) stop(ctx context.Context, r *run) error {
	s := &r.State
	s.noteHearing(r.Now)
	for i := range s.Members {
		m := &s.Members[i]
		if m.Result.Moving() {
			begun, err := c.follow(ctx, r, m)
			if err != nil {
				return err
			}
			if !begun {
				m.Result, m.Parked = Waiting, false
			}
		}
		if m.Result == Waiting {
			m.skip("rollout_aborted", "the rollout ended before it began")
		}
	}
	if err := c.withdraw(ctx, r, "the rollout was aborted"); err != nil {
		return storeFault(err)
	}
	if moving, parked := s.underWay(); moving+parked > 0 {
		return chain.Again(soon, "%s under way end first", nodes(moving+parked))
	}
	r.Note(s.Count(-1), "%s", s.progress(-1))
	return nil
}

// Failures is the number of members with a failure that counts and is not acknowledged.
func (s *Rollout) Failures() (n int) {
	for _, m := range s.Members {
		if m.Counts == Counted {
			n++
		}
	}
	return n
}

// tooMany says that too many members have failed; empty: not too many.
func (s *Rollout) tooMany() string {
	canaries := slices.ContainsFunc(s.Members, func(m Member) bool { return m.Counts == Counted && m.Wave == 0 && s.Plan.Canary > 0 })
	switch n := s.Failures(); {
	case n >= s.Plan.MaxFailures:
		return fmt.Sprintf("%s failed, and %d failures stop the rollout", nodes(n), s.Plan.MaxFailures)
	case canaries:
		return "a canary failed"
	}
	return ""
}

// Halt is why a rollout begins nothing more.
type Halt struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *Rollout) halt(code, why string) {
	s.Halt = &Halt{Code: code, Message: taskcatalog.Clean(why, 500)}
}

// pause stops a rollout on an operator's mark: nothing more begins, runs that have not begun are
// withdrawn, and the rollout stops when the runs under way have ended. Nothing is taken back. At
// is cleared, because the next call is not the result of a resume.
func pause(s *Rollout, why string) {
	if s.Halt == nil || s.OnFailure == Rollback {
		s.halt(chain.CodeMarked, "the rollout was paused: "+why)
	}
	s.At = ""
}
