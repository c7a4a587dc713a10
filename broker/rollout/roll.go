package rollout

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// Candidates are the nodes that a rollout may give a release.
type Candidates interface {
	// Release reads a release that nodes may get. Codes: agent_release_unknown,
	// release_revoked, release_below_floor.
	Release(ctx context.Context, version string, allowRollback bool) (Release, error)
	// Busy are the nodes with tenants.
	Busy(ctx context.Context) (map[string]bool, error)
	// Candidate is a node's present state, without Region, Busy and Rollout. Code: node_not_found.
	Candidate(ctx context.Context, nodeID string) (Candidate, error)
	// Begin starts the run of a node under its id, once. Codes: those of the start of an agent's
	// run, node_in_run, agent_unreachable.
	Begin(ctx context.Context, o Order) error
}

// Release is the release of a rollout.
type Release struct {
	Version string              `json:"version"`
	Digest  string              `json:"digest"`
	Channel broker.AgentChannel `json:"channel"`
	// Values that a node with the release reports.
	Commit string `json:"commit,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Order is a run to begin on a node.
type Order struct {
	ID, Rollout   string
	NodeID        string
	Version       string
	Safety        broker.SafetyPolicy
	AllowRollback bool
	Force         bool
	Reason        string
	RequestedBy   string
}

// lookAt updates the state from the release and the runs, decides whether the rollout must stop,
// and begins the decided runs.
func (c *Chains) lookAt(ctx context.Context, r *run) error {
	s := &r.State
	s.noteCall(r)
	s.noteHearing(r.Now)
	if s.Halt == nil {
		if err := c.lookAtRelease(ctx, s); err != nil {
			return err
		}
	}
	var unbegun []*Member
	for i := range s.Members {
		m := &s.Members[i]
		if !m.Result.Moving() {
			continue
		}
		begun, err := c.follow(ctx, r, m)
		switch {
		case err != nil:
			return err
		case !begun:
			unbegun = append(unbegun, m)
		}
	}
	if why := s.tooMany(); s.Halt == nil && why != "" {
		s.halt(CodePaused, why)
	}
	for _, m := range unbegun {
		if err := c.begin(ctx, r, m); err != nil {
			return err
		}
	}
	return nil
}

func (c *Chains) lookAtRelease(ctx context.Context, s *Rollout) error {
	now, err := c.Nodes.Release(ctx, s.Release.Version, s.AllowRollback)
	switch e := broker.AsError(err); {
	case err == nil && now.Digest == s.Release.Digest:
	case err == nil:
		s.halt("release_changed", s.Release.Version+" is now another release: "+now.Digest)
	case refuses(e):
		s.halt(e.Code, e.Message)
	default:
		return storeFault(err)
	}
	return nil
}

// roll begins runs on the members up to a wave, until no member of the wave must be waited for.
func (c *Chains) roll(ctx context.Context, r *run, wave int) error {
	s := &r.State
	if err := c.lookAt(ctx, r); err != nil {
		return err
	}
	if s.Halt != nil {
		return c.halting(ctx, r)
	}
	busy, err := c.Nodes.Busy(ctx)
	if err != nil {
		return storeFault(err)
	}
	picked := s.pick(wave, busy)
	for wave == 0 && s.replaceCanaries(busy) {
		picked += s.pick(wave, busy)
	}
	switch {
	case picked > 0:
		return chain.Again(0, "wave %s: %s", s.Waves[wave].Name, s.progress(wave))
	case !s.settled(wave, busy):
		return chain.Again(soon, "wave %s: %s", s.Waves[wave].Name, s.progress(wave))
	}
	return nil
}

// pick decides which members begin, as many as there is room for. Their runs begin after the
// save, so that no run exists without a record.
func (s *Rollout) pick(wave int, busy map[string]bool) (picked int) {
	moving, parked := s.underWay()
	for i := range s.Members {
		m := &s.Members[i]
		waits := s.waitsFor(m, busy)
		switch {
		case m.Result != Waiting || m.Wave > wave:
		case waits && parked < s.Plan.Concurrency:
			m.Result, m.Parked = Running, true
			parked, picked = parked+1, picked+1
		case !waits && moving < s.Plan.Concurrency:
			m.Result = Running
			moving, picked = moving+1, picked+1
		}
	}
	return picked
}

// begin begins a member's run, unless the rollout must stop by now, or the release is no longer
// for the node.
func (c *Chains) begin(ctx context.Context, r *run, m *Member) error {
	s := &r.State
	if s.Halt != nil {
		m.Result, m.Parked = Waiting, false
		return nil
	}
	now, err := c.Nodes.Candidate(ctx, m.NodeID)
	if code, why := s.lateExclusion(now); err == nil && code != "" {
		m.skip(code, why)
		return nil
	}
	if err == nil {
		err = c.Nodes.Begin(ctx, Order{
			ID: m.RunID(r.ID), Rollout: r.ID, NodeID: m.NodeID, Version: s.Release.Version, Safety: s.Safety,
			AllowRollback: s.AllowRollback, Force: s.Force || m.Again, Reason: s.reason(r.ID), RequestedBy: s.RequestedBy,
		})
	}
	switch e := broker.AsError(err); {
	case err == nil:
	case slices.Contains([]string{"release_revoked", "release_below_floor", "agent_release_unknown"}, e.Code):
		s.halt(e.Code, e.Message)
		m.Result, m.Parked = Waiting, false
	case refuses(e):
		m.skip(e.Code, e.Message)
	default:
		return storeFault(err)
	}
	return nil
}

func (s *Rollout) reason(rollout string) string {
	text := "rollout " + rollout
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return taskcatalog.Clean(text, 500)
}

// underWay counts the moving runs, and the parked runs.
func (s *Rollout) underWay() (moving, parked int) {
	for _, m := range s.Members {
		switch {
		case m.Parked:
			parked++
		case m.Result.Moving():
			moving++
		}
	}
	return moving, parked
}

// waitsFor reports whether a run on the member's node would wait for a tenant.
func (s *Rollout) waitsFor(m *Member, busy map[string]bool) bool {
	return s.Safety == broker.AfterDrain && busy[m.NodeID]
}

// settled reports whether a wave is finished, apart from members that wait for tenants: they
// delay the wave only while no member is done.
func (s *Rollout) settled(wave int, busy map[string]bool) bool {
	proven, open := false, false
	for i := range s.Members {
		m := &s.Members[i]
		switch {
		case m.Wave > wave:
		case m.Parked, m.Result == Waiting && s.waitsFor(m, busy):
			open = open || m.Wave == wave
		case m.Result == Waiting || m.Result.Moving():
			return false
		case m.Result == Done:
			proven = proven || m.Wave == wave
		}
	}
	return proven || !open
}

// replaceCanaries turns the next members into canaries in place of canaries that prove nothing:
// skipped canaries, canaries with a tenant, and failed canaries after an operator's resume.
func (s *Rollout) replaceCanaries(busy map[string]bool) (replaced bool) {
	lacks := s.Plan.Canary
	for i := range s.Members {
		m := &s.Members[i]
		proves := m.Result == Done || m.Result.Moving() && !m.Parked || m.Result == Waiting && !s.waitsFor(m, busy)
		if m.Wave == 0 && proves {
			lacks--
		}
	}
	for i := range s.Members {
		m := &s.Members[i]
		if lacks > 0 && m.Wave > 0 && m.Result == Waiting && !s.waitsFor(m, busy) {
			m.Wave, lacks, replaced = 0, lacks-1, true
		}
	}
	return replaced
}

func (m *Member) skip(code, why string) {
	m.Result, m.Parked = Skipped, false
	m.noteReason(code, why)
}

// noteReason notes the reason for a member's state. Much of the text comes from a node.
func (m *Member) noteReason(code, why string) {
	m.Code, m.Why = taskcatalog.Clean(code, 64), taskcatalog.Clean(why, 300)
}
