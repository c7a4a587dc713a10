//go:build cgo

package nvidia

import (
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// Apply implements gpu.Vendor. The library's success is not trusted: the result comes from the
// GPU's state afterwards.
func (v *vendor) Apply(uuid string, want gpu.Settings) ([]gpu.Deviation, error) {
	d, err := v.device(uuid)
	if err != nil {
		return nil, err
	}
	before, err := v.State(uuid)
	if err != nil {
		return nil, err
	}
	refused := map[string]nvml.Return{}
	for _, c := range v.changes(d, want, before) {
		if r := c.set(); r != nvml.SUCCESS {
			refused[c.setting] = r
		}
	}
	after, err := v.State(uuid)
	if err != nil {
		return nil, err
	}
	return deviations(want, after, refused), nil
}

type change struct {
	setting string
	set     func() nvml.Return
}

func (v *vendor) changes(d nvml.Device, want gpu.Settings, s gpu.State) []change {
	var all []change
	add := func(needed bool, setting string, set func() nvml.Return) {
		if needed {
			all = append(all, change{setting, set})
		}
	}
	on := func(b *bool) nvml.EnableState {
		if *b {
			return nvml.FEATURE_ENABLED
		}
		return nvml.FEATURE_DISABLED
	}
	// A setting that the next reset would change back counts as not set.
	now := func(current, pending string) string {
		if pending != "" {
			return pending
		}
		return current
	}
	eccThen := s.Settings.ECC
	if s.Pending.ECC != nil {
		eccThen = s.Pending.ECC
	}
	add(want.Partition != "" && now(s.Settings.Partition, s.Pending.Partition) != want.Partition, "partition", func() nvml.Return {
		mode := nvml.DEVICE_MIG_DISABLE
		if want.Partition == "mig_enabled" {
			mode = nvml.DEVICE_MIG_ENABLE
		}
		if !v.has("nvmlDeviceSetMigMode") {
			return nvml.ERROR_FUNCTION_NOT_FOUND
		}
		// MIG mode cannot end while there are instances.
		if mode == nvml.DEVICE_MIG_DISABLE && s.Settings.Partition == "mig_enabled" {
			if r := v.destroyInstances(d); r != nvml.SUCCESS {
				return r
			}
		}
		_, r := d.SetMigMode(mode)
		return r
	})
	add(want.ECC != nil && differs(want.ECC, eccThen), "ecc", func() nvml.Return { return d.SetEccMode(on(want.ECC)) })
	add(want.ComputeMode != "" && want.ComputeMode != s.Settings.ComputeMode, "compute_mode", func() nvml.Return {
		for mode, name := range computeModes {
			if name == want.ComputeMode {
				return d.SetComputeMode(mode)
			}
		}
		return nvml.ERROR_INVALID_ARGUMENT
	})
	add(want.PowerLimitMW != nil && differs(want.PowerLimitMW, s.Settings.PowerLimitMW), "power_limit_mw", func() nvml.Return {
		return d.SetPowerManagementLimit(uint32(*want.PowerLimitMW))
	})
	add(want.Clocks == "default", "clocks", func() nvml.Return { return v.resetClocks(d) })
	add(want.Persistence != nil && differs(want.Persistence, s.Settings.Persistence), "persistence", func() nvml.Return {
		return d.SetPersistenceMode(on(want.Persistence))
	})
	return all
}

// resetClocks resets application clocks and locked clocks. A GPU that supports only some kinds
// answers "not supported" to the others.
func (v *vendor) resetClocks(d nvml.Device) nvml.Return {
	answer := nvml.ERROR_NOT_SUPPORTED
	for _, c := range []struct {
		symbol string
		reset  func() nvml.Return
	}{
		{"nvmlDeviceResetApplicationsClocks", d.ResetApplicationsClocks},
		{"nvmlDeviceResetGpuLockedClocks", d.ResetGpuLockedClocks},
		{"nvmlDeviceResetMemoryLockedClocks", d.ResetMemoryLockedClocks},
	} {
		if !v.has(c.symbol) {
			continue
		}
		switch r := c.reset(); r {
		case nvml.SUCCESS:
			if answer == nvml.ERROR_NOT_SUPPORTED {
				answer = r
			}
		case nvml.ERROR_NOT_SUPPORTED:
		default:
			answer = r
		}
	}
	return answer
}

func differs[T comparable](want, have *T) bool { return have == nil || *want != *have }

func text[T any](p *T) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint(*p)
}

func deviations(want gpu.Settings, s gpu.State, refused map[string]nvml.Return) []gpu.Deviation {
	var all []gpu.Deviation
	look := func(setting, want, have, pending string) {
		if want == "" || want == have && pending == "" {
			return
		}
		d := gpu.Deviation{Setting: setting, Want: want, Have: have, NeedsReset: pending == want}
		if want == have { // the next reset would undo it
			d.Have, d.NeedsReset = have+", "+pending+" after a reset", false
		}
		if r, failed := refused[setting]; failed {
			err := nvmlError("the library refused it", r)
			d.Code, d.Message = taskcatalog.CodeOf(err, gpu.CodeDriverFailed), err.Error()
		}
		all = append(all, d)
	}
	look("partition", want.Partition, s.Settings.Partition, s.Pending.Partition)
	look("ecc", text(want.ECC), text(s.Settings.ECC), text(s.Pending.ECC))
	look("compute_mode", want.ComputeMode, s.Settings.ComputeMode, "")
	look("power_limit_mw", text(want.PowerLimitMW), text(s.Settings.PowerLimitMW), "")
	look("persistence", text(want.Persistence), text(s.Settings.Persistence), "")
	if want.Clocks == "default" {
		// A GPU without application clocks cannot report their state.
		if r, failed := refused["clocks"]; s.Settings.Clocks == "set" || failed && r != nvml.ERROR_NOT_SUPPORTED {
			look("clocks", want.Clocks, strconv.Quote(s.Settings.Clocks), "")
		}
	}
	return all
}
