package rollout

import (
	"context"

	"github.com/hostler/hostler/broker/chain"
)

// codeTakenBack is of a member that was well, and is taken back because others were not.
const codeTakenBack = "rollout_rolled_back"

// halting lets those under way end, withdraws those that have not begun, takes back what
// is to be taken back, and then stops for a person.
func (c *Chains) halting(ctx context.Context, r *run) error {
	s := &r.State
	if err := c.withdraw(ctx, r.ID, s, s.Halt.Message); err != nil {
		return ours(err)
	}
	if moving, _ := s.underWay(); moving > 0 || s.parkedToCome() {
		return chain.Again(soon, "%s; %s under way end first", s.Halt.Message, nodes(max(moving, 1)))
	}
	if s.Halt.Code == CodePaused && s.OnFailure == Rollback && s.takeAllBack() {
		return chain.Again(0, "%s; what was given to others is taken back", s.Halt.Message)
	}
	return chain.Fail(paused, "the rollout of %s stopped: %s (%s)", s.Release.Version, s.Halt.Message, s.progress(-1)).
		With(s.Halt.Code, s.Count(-1)).
		Next("read why (hostler rollout status %s), then hostler rollout resume %s; or hostler rollout abort %s", r.ID, r.ID, r.ID)
}

// withdraw cancels the runs that wait for who is on their node, as they are by now.
func (c *Chains) withdraw(ctx context.Context, rollout string, s *Rollout, why string) error {
	for i := range s.Members {
		m := &s.Members[i]
		if m.Result != Running {
			continue
		}
		rec, u, err := c.runOf(ctx, m.RunID(rollout))
		if err == nil && parked(rec, u) {
			err = c.Nodes.Cancel(ctx, rec.ID, "rollout "+rollout+": "+why)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parkedToCome reports whether what was withdrawn has not ended yet.
func (s *Rollout) parkedToCome() bool {
	for _, m := range s.Members {
		if m.Result == Running && m.Parked {
			return true
		}
	}
	return false
}

// takeAllBack has what is done taken back, as many at a time as there is room for. It
// reports whether there was any.
func (s *Rollout) takeAllBack() bool {
	n := 0
	for i := range s.Members {
		if m := &s.Members[i]; m.Result == Done && m.Back == "" && n < s.Plan.Concurrency {
			m.because(codeTakenBack, s.Halt.Message)
			m.ends(TakingBack, "")
			n++
		}
	}
	return n > 0
}

// Withdraw cancels the runs of a rollout that a person has stopped and that wait for who
// is on their node: they would begin when a tenant leaves. Those that are at work end by
// themselves.
func (c *Chains) Withdraw(ctx context.Context, rec chain.Record, why string) error {
	s := Parse(rec.State)
	return c.withdraw(ctx, rec.ID, &s, why)
}

// stop is the undo of a rollout: nothing more is begun, those under way end, and the
// release stays where it is.
func (c *Chains) stop(ctx context.Context, r *run) error {
	s := &r.State
	for i := range s.Members {
		m := &s.Members[i]
		if m.Result.Moving() {
			if err := c.follow(ctx, r, m); err != nil {
				return err
			}
		}
		if m.Result == Waiting {
			m.skip("rollout_aborted", "the rollout ended before it began")
		}
	}
	if err := c.withdraw(ctx, r.ID, s, "it was aborted"); err != nil {
		return ours(err)
	}
	if moving, parked := s.underWay(); moving+parked > 0 {
		return chain.Again(soon, "%s under way end first", nodes(moving+parked))
	}
	r.Note(s.Count(-1), "%s", s.progress(-1))
	return nil
}
