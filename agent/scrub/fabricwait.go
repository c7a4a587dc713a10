package scrub

import (
	"cmp"
	"context"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

const defaultFabricWait = 5 * time.Minute

// awaitFabric waits until the GPUs answer again and their fabric is ready.
func (s *Scrub) awaitFabric(ctx context.Context, units []*unit) (map[gpu.Device]*gpu.State, error) {
	limit := cmp.Or(time.Duration(s.policy.FabricWaitSeconds)*time.Second, defaultFabricWait)
	for begun := s.Now(); ; {
		now := s.states(ctx, units)
		var waiting []*unit
		for _, u := range units {
			if state := now[u.whole()]; state == nil || !ready(u.before.Health.Fabric, state.Health.Fabric) {
				waiting = append(waiting, u)
			}
		}
		if len(waiting) == 0 {
			return now, nil
		}
		if s.Now().Sub(begun) >= limit {
			for _, u := range waiting {
				if state := now[u.whole()]; state == nil {
					u.fail(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault,
						"the GPU did not come back within %s of its reset", limit)
				} else {
					u.worse(taskcatalog.VerdictInconclusive, gpu.CodeFabricNotReady,
						"the fabric is %s, %s after the reset (is the fabric manager running?)", state.Health.Fabric, limit)
				}
			}
			return now, nil
		}
		if err := s.pause(ctx); err != nil {
			return nil, err
		}
	}
}

// ready reports whether a GPU's fabric is ready. A completed fabric is ready. A GPU that reported
// no fabric at first (was) is also ready while it still reports none. Any other word is not ready.
func ready(was, is string) bool {
	none := is == "" || is == "not_supported"
	return is == "completed" || none && (was == "" || was == "not_supported")
}
