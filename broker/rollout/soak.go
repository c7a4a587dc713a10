package rollout

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

// soak looks at the nodes that are done, for as long as the plan says since the wave was
// rolled. A wave that gave the release to nobody has nothing to be looked at.
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
	}
	passed, err := r.Since(ctx, s.SoakFrom)
	if err != nil {
		return err
	}
	if err := c.inspect(ctx, r); err != nil {
		return err
	}
	moving, _ := s.underWay()
	switch left := s.Plan.soak() - passed; {
	case s.tooMany() != "" || moving > 0:
		return chain.Again(soon, "wave %s soaks: %s", s.Waves[s.Wave].Name, s.progress(s.Wave))
	case left > 0:
		every := max(seldom, time.Duration(len(s.Members))*10*time.Millisecond) // each look reads all of them
		return chain.Again(min(left, every), "wave %s soaks: %s", s.Waves[s.Wave].Name, s.progress(s.Wave))
	}
	s.SoakFrom, s.Unsoaked = time.Time{}, false
	return nil
}

// inspect fails those that are done and are not well any more.
func (c *Chains) inspect(ctx context.Context, r *run) error {
	s := &r.State
	var ids []string
	for _, m := range s.Members {
		if m.Result == Done {
			ids = append(ids, m.NodeID)
		}
	}
	all, err := c.Nodes.Look(ctx, ids)
	if err != nil {
		return ours(err)
	}
	for i := range s.Members {
		m := &s.Members[i]
		seen, there := all[m.NodeID]
		if m.Result != Done || !there || seen.InRun != "" {
			continue
		}
		at := slices.IndexFunc(seen.Unfit, func(code string) bool { return !slices.Contains(m.Unfit, code) })
		switch {
		case seen.Silent:
			m.fails("agent_silent", "its agent has not been heard since")
		case seen.Version != s.Release.Version:
			m.fails("version_not_running", "it runs "+seen.Version+" by now")
		case at >= 0:
			m.fails(seen.Unfit[at], "it could not be handed out by now")
		}
	}
	return nil
}
