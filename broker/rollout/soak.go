package rollout

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/presence"
)

// soak watches the nodes that are done, for as long as the plan says since the wave was
// rolled, and for as long as one of them is not heard. A wave that gave the release to
// nobody has nothing to be watched.
func (c *Chains) soak(ctx context.Context, r *run) error {
	s := &r.State
	if err := c.lookAt(ctx, r); err != nil {
		return err
	}
	if s.Halt != nil {
		return c.halting(ctx, r)
	}
	if !s.Unsoaked {
		s.SoakFrom = time.Time{}
		return nil
	}
	if s.SoakFrom.IsZero() {
		s.SoakFrom = r.Now
		s.soaked(Unsoaked, Soaking)
	}
	passed, err := r.Since(ctx, s.SoakFrom)
	if err != nil {
		return err
	}
	left := s.Plan.soak() - passed
	unheard, err := c.inspect(ctx, r, left <= 0)
	if err != nil {
		return err
	}
	what := "wave " + s.Waves[s.Wave].Name
	if r.Stage == complete {
		what = "what was waited for"
	}
	moving, _ := s.underWay()
	switch {
	case s.tooMany() != "" || moving > 0:
		return chain.Again(soon, "%s soaks: %s", what, s.progress(-1))
	case left > 0:
		return chain.Again(min(left, seldom), "%s soaks: %s", what, s.progress(-1))
	case unheard != "":
		return chain.Again(seldom, "%s soaks until all of it are heard: %s is not", what, unheard)
	}
	s.SoakFrom = time.Time{}
	s.soaked(Soaking, Soaked)
	s.Unsoaked = slices.ContainsFunc(s.Members, func(m Member) bool { return m.Result == Done && m.Soak == Unsoaked })
	return nil
}

func (s *Rollout) soaked(from, to Soak) {
	for i := range s.Members {
		if m := &s.Members[i]; m.Result == Done && m.Soak == from {
			m.Soak = to
		}
	}
}

// away is how long a rollout may not have been at work and the broker still counts as one
// that hears.
const away = time.Minute

// hears notes that the broker is there, and since when: silence counts from then on. It is
// noted now and then, since a state that stays as it is costs nothing to save.
func (s *Rollout) hears(now time.Time) {
	since := now.Sub(s.LookedAt)
	if since > away {
		s.HearsFrom = now
	}
	if since >= seldom {
		s.LookedAt = now
	}
}

// silent reports whether an agent has not been heard for as long as makes a node offline,
// and could have been. It is by the contact and not by the node's status, since a node is
// not said to be offline where many of its site fall silent at once.
func (c *Chains) silent(ctx context.Context, r *run, heard time.Time) (bool, error) {
	s := &r.State
	if heard.Before(s.HearsFrom) {
		heard = s.HearsFrom
	}
	if r.Now.Sub(heard) <= presence.DefaultPolicy.Silence || s.somebody {
		return r.Now.Sub(heard) > presence.DefaultPolicy.Silence, nil
	}
	stopped, err := c.Nodes.PollsStopped(ctx)
	if err != nil {
		return false, ours(err)
	}
	if s.somebody = !stopped; stopped {
		s.HearsFrom = r.Now
	}
	return !stopped, nil
}

// inspect fails those that are done and whose agent is not well any more, and names one of
// those that soak and are not heard. All are looked at for what was heard of them; as they
// are, only those that this gives cause to, and at the end of a soak those that soak.
func (c *Chains) inspect(ctx context.Context, r *run, atEnd bool) (unheard string, err error) {
	s := &r.State
	if !atEnd && r.Now.Sub(s.InspectedAt) < seldom {
		return "", nil
	}
	s.InspectedAt = r.Now
	var ids, suspects []string
	for _, m := range s.Members {
		if m.Result == Done {
			ids = append(ids, m.NodeID)
		}
	}
	heard, err := c.Nodes.Heard(ctx, ids)
	if err != nil {
		return "", ours(err)
	}
	for _, m := range s.Members {
		h, there := heard[m.NodeID]
		if there && m.Result == Done && (atEnd && m.Soak == Soaking || h.Version != s.Release.Version || s.overdue(r.Now, h)) {
			suspects = append(suspects, m.NodeID)
		}
	}
	all, err := c.Nodes.Look(ctx, suspects)
	if err != nil {
		return "", ours(err)
	}
	for i := range s.Members {
		m := &s.Members[i]
		seen, there := all[m.NodeID]
		if !there {
			continue
		}
		waits, err := c.judge(ctx, r, m, seen, atEnd)
		if err != nil {
			return "", err
		}
		if waits && unheard == "" && m.Soak == Soaking {
			unheard = m.Hostname
		}
	}
	return unheard, nil
}

func (s *Rollout) overdue(now time.Time, h Heard) bool { return now.Sub(h.At) > presence.Overdue }

// ofAgents are what keeps a node from being handed out and may be its agent's doing.
var ofAgents = []string{"device_missing", "device_unexpected"}

// judge fails a member that is done where its agent is not well: not where others have the
// node in hand. A run, a person who has taken it out of service, and who gave it another
// version since explain what it is like; a tenant may reboot it, which is waited for.
func (c *Chains) judge(ctx context.Context, r *run, m *Member, seen Seen, atEnd bool) (unheard bool, err error) {
	s := &r.State
	theirs := seen.Delivered != "" && seen.Delivered != m.RunID(r.ID) && seen.Delivered != m.BackID(r.ID)
	if seen.InRun != "" || seen.Aside || seen.Version != s.Release.Version && theirs {
		return false, nil
	}
	if seen.Version != s.Release.Version {
		m.fails("version_not_running", "it runs "+seen.Version+" by now")
		m.putBack(r.ID, seen)
		return false, nil
	}
	if s.overdue(r.Now, seen.Heard) {
		silent, err := c.silent(ctx, r, seen.At)
		if silent && !seen.Busy {
			m.fails("agent_silent", "its agent has not been heard since")
		}
		return true, err
	}
	at := slices.IndexFunc(seen.Unfit, func(code string) bool { return slices.Contains(ofAgents, code) && !slices.Contains(m.Unfit, code) })
	if at >= 0 && !seen.Busy {
		m.fails(seen.Unfit[at], "it could not be handed out by now")
	}
	// A soak that is shorter than silence takes to show has not one word of it.
	return atEnd && s.Plan.SoakSeconds > 0 && seen.At.Before(s.SoakFrom), nil
}
