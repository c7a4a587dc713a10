package scrub

import (
	"context"

	"github.com/hostler/hostler/agent/gpu"
)

// states reads the state of the units' GPUs. An unreadable GPU has a nil state, and a GPU that hung
// before is not asked again. All readings are kept.
func (s *Scrub) states(ctx context.Context, units []*unit) map[gpu.Device]*gpu.State {
	all := gpus(units)
	for _, u := range s.units {
		if u.hung {
			delete(all, u.whole())
		}
	}
	states := queryEach(all, func(d gpu.Device) *gpu.State {
		state, err := s.Helper.State(ctx, d)
		if err != nil {
			return nil
		}
		return &state
	})
	for d, state := range states {
		for _, u := range s.units {
			if state != nil && u.whole() == d {
				u.readings = append(u.readings, state.Health)
			}
		}
	}
	return states
}
