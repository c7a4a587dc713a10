package rollout

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/presence"
)

// Soaks tell whether the agents of nodes are heard.
type Soaks interface {
	// Heard are the last reports of nodes' agents, in one query for all; a deleted node is
	// missing.
	Heard(ctx context.Context, nodeIDs []string) (map[string]Heard, error)
	// PollsStopped reports whether no agent at all is heard any more: the cause is then more
	// likely the broker or the network than the agents.
	PollsStopped(ctx context.Context) (bool, error)
}

// Heard is an agent's last report.
type Heard struct {
	Version string
	At      time.Time // its last authenticated contact
}

// soak watches the done nodes for the planned time since the wave was rolled, and longer while
// one of them is not heard. A wave without a done node has no soak.
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
		what = "the group of awaited nodes"
	}
	moving, _ := s.underWay()
	switch {
	case s.tooMany() != "" || moving > 0:
		return chain.Again(soon, "%s soaks: %s", what, s.progress(-1))
	case left > 0:
		return chain.Again(min(left, idlePause), "%s soaks: %s", what, s.progress(-1))
	case unheard != "":
		return chain.Again(idlePause, "%s soaks until all its nodes make contact: %s has not", what, unheard)
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

// maxStepGap is how long a rollout may be without a step while its broker still counts as hearing
// nodes.
const maxStepGap = time.Minute

// noteHearing notes that the broker is at work, and since when: silence counts from then on. The
// note is written only now and then, because an unchanged state is not saved.
func (s *Rollout) noteHearing(now time.Time) {
	since := now.Sub(s.LookedAt)
	if since > maxStepGap {
		s.HearsFrom = now
	}
	if since >= idlePause {
		s.LookedAt = now
	}
}

// silent reports whether an agent has not been heard for the time that makes a node offline,
// while the broker could have heard it. The last contact counts, not the node's status, because a
// node is not marked offline when many nodes of its site fall silent at once.
func (c *Chains) silent(ctx context.Context, r *run, heard time.Time) (bool, error) {
	s := &r.State
	if heard.Before(s.HearsFrom) {
		heard = s.HearsFrom
	}
	if r.Now.Sub(heard) <= presence.DefaultPolicy.Silence || s.anyHeard {
		return r.Now.Sub(heard) > presence.DefaultPolicy.Silence, nil
	}
	stopped, err := c.Nodes.PollsStopped(ctx)
	if err != nil {
		return false, storeFault(err)
	}
	if s.anyHeard = !stopped; stopped {
		s.HearsFrom = r.Now
	}
	return !stopped, nil
}

// inspect fails done members whose agent is not well any more, and names a soaking member that is
// not heard. The last reports of all done members are read. The full state is read only for
// members with a suspicious report, and at the end of a soak for all soaking members.
func (c *Chains) inspect(ctx context.Context, r *run, atEnd bool) (unheard string, err error) {
	s := &r.State
	if !atEnd && r.Now.Sub(s.InspectedAt) < idlePause {
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
		return "", storeFault(err)
	}
	for _, m := range s.Members {
		h, there := heard[m.NodeID]
		if there && m.Result == Done && (atEnd && m.Soak == Soaking || h.Version != s.Release.Version || s.overdue(r.Now, h)) {
			suspects = append(suspects, m.NodeID)
		}
	}
	all, err := c.Nodes.Look(ctx, suspects)
	if err != nil {
		return "", storeFault(err)
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

// ofAgents are the obstacles to a handout that an agent may have caused.
var ofAgents = []string{"device_missing", "device_unexpected"}

// judge fails a done member whose agent is not well, unless another party explains the state: a
// run on the node, a person who has taken the node out of service, or a later delivery of another
// version. A tenant may reboot the node; judge waits for its return.
func (c *Chains) judge(ctx context.Context, r *run, m *Member, seen NodeState, atEnd bool) (unheard bool, err error) {
	s := &r.State
	theirs := seen.Delivered != "" && seen.Delivered != m.RunID(r.ID) && seen.Delivered != m.BackID(r.ID)
	if seen.InRun != "" || seen.OutOfUse || seen.Version != s.Release.Version && theirs {
		return false, nil
	}
	if seen.Version != s.Release.Version {
		m.fails("version_not_running", "it runs "+seen.Version+" by now")
		m.noteOwnRollback(r.ID, seen)
		return false, nil
	}
	if s.overdue(r.Now, seen.Heard) {
		silent, err := c.silent(ctx, r, seen.At)
		if silent && !seen.Busy {
			m.fails("agent_silent", "its agent has made no contact since")
		}
		return true, err
	}
	at := slices.IndexFunc(seen.Unfit, func(code string) bool { return slices.Contains(ofAgents, code) && !slices.Contains(m.Unfit, code) })
	if at >= 0 && !seen.Busy {
		m.fails(seen.Unfit[at], "the node may no longer be handed out")
	}
	// A soak shorter than the time until silence shows may have no report at all.
	return atEnd && s.Plan.SoakSeconds > 0 && seen.At.Before(s.SoakFrom), nil
}
