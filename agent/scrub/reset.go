package scrub

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// witnesses is how many values must have been set back for a reset to count as proven.
const witnesses = 2

// reset resets the GPUs; those of an NVLink domain or XGMI hive only as a whole. Settings that take
// only with a reset are set first. All GPUs of a vendor are reset in the same call: a GPU disturbed
// by another GPU's reset is reset as well, and the probe comes only afterwards.
func (s *Scrub) reset(ctx context.Context) error {
	if s.Params.Reset == "never" {
		return nil
	}
	var going []*unit
	groups := s.groups(s.live())
	for _, group := range groups {
		why := s.held(group)
		if why == "" {
			going = append(going, group...)
		}
		for _, u := range group {
			if why != "" {
				u.out.Assurance.Reset = taskcatalog.ResetRefused
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUResetRefused, "%s", why)
			}
		}
	}
	if err := s.setPending(ctx, going); err != nil {
		return err
	}
	if err := s.persistenceOff(ctx, going); err != nil {
		return err
	}
	before, from := s.states(ctx, s.units), map[*unit]int{}
	for _, u := range s.units {
		from[u] = len(u.readings)
	}
	// The health step reads the whole log again.
	s.KernelLog = kept(s.KernelLog)
	logged, _ := s.KernelLog()
	if err := s.resetOnce(ctx, going); err != nil {
		return err
	}
	// A single refusing GPU makes the whole call fail: reset the other groups one by one.
	for _, group := range groups {
		if len(groups) > 1 && slices.Contains(going, group[0]) && group[0].out.Assurance.Reset == taskcatalog.ResetRefused {
			if err := s.resetOnce(ctx, group); err != nil {
				return err
			}
		}
	}
	s.restorePersistence(ctx)
	for _, group := range groups {
		for _, u := range group {
			if u.out.Assurance.Reset == taskcatalog.ResetUnproven {
				u.out.ResetGroup = uuids(group)
			}
		}
	}
	if err := s.proveReset(ctx, going, before, from, len(logged)); err != nil {
		return err
	}
	if err := s.again(ctx); err != nil {
		return err
	}
	s.judgeBusy(ctx)
	return nil
}

// groups returns the units whose GPUs are reset together.
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

// held returns why a group cannot be reset: a GPU of its domain must not be disturbed, because it
// has a holder or dropped out of the scrub.
func (s *Scrub) held(group []*unit) string {
	domain := group[0].before.Domain
	for _, u := range s.units {
		switch {
		case !u.done || u.device.Vendor != group[0].device.Vendor:
		case domain != "" && u.before.Domain == domain:
			return "GPU " + u.facts.UUID + " of the same domain cannot be reset with it: " + string(u.out.Code)
		case u.facts.UUID == group[0].facts.UUID:
			return "instance " + u.device.UUID + " of the same GPU cannot be reset with it: " + string(u.out.Code)
		}
	}
	return ""
}

func (s *Scrub) resetOnce(ctx context.Context, units []*unit) error {
	return s.each(ctx, profiles.StepReset, units,
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
}

// proveReset waits for the reset GPUs and looks for witnesses, on the other GPUs as well: a reset
// may reach further than the domains say. from is the index of each unit's first health reading
// after the reset.
func (s *Scrub) proveReset(ctx context.Context, going []*unit, before map[gpu.Device]*gpu.State, from map[*unit]int, logged int) error {
	var tried, others []*unit
	for _, u := range s.units {
		if slices.Contains(going, u) && u.out.Assurance.Reset == taskcatalog.ResetUnproven {
			tried = append(tried, u)
		} else {
			others = append(others, u)
		}
	}
	after, err := s.awaitFabric(ctx, tried)
	if err != nil {
		return err
	}
	maps.Copy(after, s.states(ctx, others))
	lines, logErr := s.KernelLog()
	lines = lines[min(logged, len(lines)):]
	for _, u := range s.units {
		was, is := before[u.whole()], after[u.whole()]
		if was == nil || is == nil {
			continue
		}
		var since []gpu.State // the fabric was read on the way here
		for _, look := range u.readings[from[u]:] {
			since = append(since, gpu.State{Health: look})
		}
		set := gpu.ResetWitnesses(*was, append(since, *is)...)
		if told := gpu.KernelReset(u.facts.PCIAddress, lines); told != "" && logErr == nil {
			set = append(set, told)
		}
		if len(set) >= witnesses {
			u.out.ResetWitnesses, u.restart = set, from[u]
			if slices.Contains(tried, u) {
				u.out.Assurance.Reset = taskcatalog.ResetProven
			} else {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUResetUnproven,
					"the reset of another GPU also reset this one (%s)", strings.Join(set, ", "))
			}
		}
	}
	return nil
}

// afterReset records the answer of a reset: success is unproven at first.
func (s *Scrub) afterReset(units []*unit, err error) {
	for _, u := range units {
		u.busy = err != nil && isBusyError(err)
		switch code := taskcatalog.CodeOf(err, "failed"); {
		case err == nil:
			u.out.Assurance.Reset = taskcatalog.ResetUnproven
		case code == gpu.CodeResetUnsupported || code == gpu.CodeUnsupported:
			u.out.Assurance.Reset = taskcatalog.ResetUnsupported
		default:
			u.out.Assurance.Reset = taskcatalog.ResetRefused
			u.refused = err.Error() + s.display(u.device.Vendor) + u.persists
			s.Log.Warn("a reset was refused", zap.String("gpu", u.facts.UUID),
				zap.String("why", taskcatalog.Clean(u.refused, taskcatalog.MaxText)))
		}
	}
}

// isBusyError reports whether a reset was refused because the GPU is in use: by the library's code,
// or by the text of the vendor's tool, which has the same exit code for all errors.
func isBusyError(err error) bool {
	text := strings.ToLower(err.Error())
	return taskcatalog.CodeOf(err, "") == gpu.CodeDeviceBusy || strings.Contains(text, "in use") || strings.Contains(text, "being used")
}

// judgeBusy judges GPUs whose reset was refused as in use although no holder was seen: a hidden
// process is assumed, unless a known cause explains the refusal.
func (s *Scrub) judgeBusy(ctx context.Context) {
	for _, vendor := range s.Vendors {
		busy := slices.DeleteFunc(slices.Clone(s.units), func(u *unit) bool { return !u.busy || u.device.Vendor != vendor })
		stuck := slices.ContainsFunc(s.units, func(u *unit) bool { return u.stuck && u.device.Vendor == vendor })
		if len(busy) == 0 || stuck || s.display(vendor) != "" {
			continue
		}
		holders, err := s.holders(ctx, busy)
		for _, u := range busy {
			if err == nil && slices.ContainsFunc(holders, func(h *holder) bool { return h.exempt && h.holds(u) }) {
				continue
			}
			u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent,
				"the agent found no process at the GPU, and the reset reports that the GPU is in use: %s", u.refused)
		}
	}
}

// display names the loaded modules of a vendor's display driver: they block a reset although no
// process holds the GPU.
func (s *Scrub) display(vendor string) string {
	var loaded []string
	for _, name := range []string{"nvidia_drm", "nvidia_modeset"} {
		if has, err := s.Machine.Has("/sys/module/" + name); vendor == "nvidia" && err == nil && has {
			loaded = append(loaded, name)
		}
	}
	if loaded == nil {
		return ""
	}
	return " (" + strings.Join(loaded, " and ") + " loaded, which may be the reason)"
}
