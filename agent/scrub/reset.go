package scrub

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// witnesses is how many values must have been set back before a reset is taken
// for proven.
const witnesses = 2

const defaultFabricWait = 5 * time.Minute

// reset resets the GPUs, those of one NVLink domain or XGMI hive together. What
// settings only take with a reset joins it.
func (s *Scrub) reset(ctx context.Context) error {
	if s.Params.Reset == "never" {
		return nil
	}
	live := s.live()
	// What needs a reset joins it. What this does not do is looked at, and told,
	// once all is restored.
	askEach(gpus(live), func(d gpu.Device) error {
		if want := gpus(live)[d][0].want; want != nil && len(want.Settings.Differences(gpus(live)[d][0].before.Settings)) > 0 {
			_, err := s.Helper.Apply(ctx, d, want.Settings)
			return err
		}
		return nil
	})
	last := s.states(ctx, s.units) // of each GPU, as it was seen last
	for _, group := range s.groups(live) {
		if why := s.held(group); why != "" {
			for _, u := range group {
				u.out.Assurance.Reset = taskcatalog.ResetRefused
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUResetRefused, "%s", why)
			}
			continue
		}
		s.compare(group, last, s.states(ctx, group))
		if err := s.resetGroup(ctx, group, last); err != nil {
			return err
		}
	}
	s.compare(s.units, last, s.states(ctx, s.units))
	return nil
}

// groups are the units whose GPUs are reset together.
func (s *Scrub) groups(live []*unit) [][]*unit {
	byDomain := map[string][]*unit{}
	for _, u := range live {
		domain := u.device.Vendor + "/" + u.before.Domain
		if u.before.Domain == "" {
			domain += u.facts.UUID
		}
		byDomain[domain] = append(byDomain[domain], u)
	}
	var all [][]*unit
	for _, domain := range slices.Sorted(maps.Keys(byDomain)) {
		all = append(all, byDomain[domain])
	}
	return all
}

// held says why a group cannot be reset: a GPU of its domain is not ours to
// disturb, because somebody holds it or it fell out of the scrub.
func (s *Scrub) held(group []*unit) string {
	domain := group[0].before.Domain
	if domain == "" {
		return ""
	}
	for _, u := range s.units {
		if u.device.Vendor == group[0].device.Vendor && u.before.Domain == domain && u.done {
			return "GPU " + u.facts.UUID + " of the same domain cannot be reset with it: " + string(u.out.Code)
		}
	}
	return ""
}

// resetGroup resets one group and notes how its GPUs are after it.
func (s *Scrub) resetGroup(ctx context.Context, group []*unit, last map[gpu.Device]*gpu.State) error {
	err := s.each(ctx, profiles.StepReset, group,
		func(ctx context.Context, units []*unit) error {
			err := s.Helper.Reset(ctx, units[0].device.Vendor, uuids(units))
			if ctxErr := context.Cause(ctx); ctxErr != nil {
				return ctxErr
			}
			s.afterReset(units, err)
			return nil
		},
		s.afterReset,
		func(units []*unit) {
			for _, u := range units {
				u.out.Assurance.Reset = taskcatalog.ResetUnsupported
			}
		})
	if err != nil {
		return err
	}
	tried := slices.DeleteFunc(slices.Clone(group), func(u *unit) bool { return u.out.Assurance.Reset != taskcatalog.ResetUnproven })
	if len(tried) == 0 {
		return nil
	}
	after, err := s.awaitFabric(ctx, tried)
	if err != nil {
		return err
	}
	for _, u := range tried {
		u.out.ResetGroup = uuids(group)
		was, is := last[u.whole()], after[u.whole()]
		if was == nil || is == nil {
			continue
		}
		if u.out.ResetWitnesses = gpu.ResetWitnesses(*was, *is); len(u.out.ResetWitnesses) >= witnesses {
			u.out.Assurance.Reset = taskcatalog.ResetProven
		}
	}
	for d, state := range after {
		last[d] = state
	}
	return nil
}

// afterReset takes what a reset answered: that it worked is unproven as yet.
func (s *Scrub) afterReset(units []*unit, err error) {
	for _, u := range units {
		switch code := taskcatalog.CodeOf(err, "failed"); {
		case err == nil:
			u.out.Assurance.Reset = taskcatalog.ResetUnproven
		case code == gpu.CodeResetUnsupported || code == gpu.CodeUnsupported:
			u.out.Assurance.Reset = taskcatalog.ResetUnsupported
		default:
			u.out.Assurance.Reset = taskcatalog.ResetRefused
			if u.out.Message == "" {
				u.out.Message = taskcatalog.Clean("the reset was refused: "+err.Error(), taskcatalog.MaxText)
			}
		}
	}
}

// states reads the state of the units' GPUs; one that cannot be read has none.
func (s *Scrub) states(ctx context.Context, units []*unit) map[gpu.Device]*gpu.State {
	return askEach(gpus(units), func(d gpu.Device) *gpu.State {
		state, err := s.Helper.State(ctx, d)
		if err != nil {
			return nil
		}
		return &state
	})
}

// awaitFabric waits until the GPUs answer again and their fabric is ready.
func (s *Scrub) awaitFabric(ctx context.Context, units []*unit) (map[gpu.Device]*gpu.State, error) {
	limit := cmp.Or(time.Duration(s.policy.FabricWaitSeconds)*time.Second, defaultFabricWait)
	for begun := s.Now(); ; {
		now := s.states(ctx, units)
		var waiting []*unit
		for _, u := range units {
			if state := now[u.whole()]; state == nil || !ready(state.Health.Fabric) {
				waiting = append(waiting, u)
			}
		}
		if len(waiting) == 0 {
			return now, nil
		}
		if s.Now().Sub(begun) >= limit {
			for _, u := range waiting {
				if state := now[u.whole()]; state == nil {
					u.fail(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault, "the GPU did not come back within %s of its reset", limit)
				} else {
					u.worse(taskcatalog.VerdictInconclusive, gpu.CodeFabricNotReady, "the fabric is %s, %s after the reset (is the fabric manager running?)", state.Health.Fabric, limit)
				}
			}
			return now, nil
		}
		if err := s.pause(ctx); err != nil {
			return nil, err
		}
	}
}

func ready(fabric string) bool {
	return fabric == "" || fabric == "completed" || fabric == "not_supported"
}

// compare looks whether somebody else's reset reached these GPUs since they were
// seen last: then the domains are not what they seem, and nothing proves what else
// it reached. They have been seen now.
func (s *Scrub) compare(units []*unit, last, now map[gpu.Device]*gpu.State) {
	for d, of := range gpus(units) {
		was, is := last[d], now[d]
		if was != nil && is != nil {
			if set := gpu.ResetWitnesses(*was, *is); len(set) >= witnesses {
				for _, u := range of {
					u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUResetUnproven, "the reset of another GPU disturbed this one too (%s)", strings.Join(set, ", "))
				}
			}
		}
		last[d] = is
	}
}
