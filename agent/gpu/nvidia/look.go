//go:build cgo

package nvidia

import (
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// Look implements gpu.Vendor. A value that the GPU or the driver does not have is missing.
func (v *vendor) Look() (gpu.Looks, error) {
	all := gpu.Looks{GPUs: []gpu.Look{}}
	if err := v.open(); err != nil {
		all.Problem = taskcatalog.CodeOf(err, gpu.CodeDriverFailed)
		return all, nil
	}
	all.Driver, _ = v.lib.SystemGetDriverVersion()
	count, r := v.lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return all, nvmlError("nvmlDeviceGetCount", r)
	}
	for i := range min(count, taskcatalog.MaxHealthGPUs) {
		one, err := v.look(i)
		if err != nil {
			all.Failed = append(all.Failed, fmt.Sprintf("GPU %d: %v", i, err))
			continue
		}
		all.GPUs = append(all.GPUs, one)
	}
	return all, nil
}

func (v *vendor) look(i int) (gpu.Look, error) {
	l := gpu.Look{Numbers: map[string]int64{"answers": 1}, Texts: map[string]string{}}
	d, r := v.lib.DeviceGetHandleByIndex(i)
	if r != nvml.SUCCESS {
		return l, nvmlError("nvmlDeviceGetHandleByIndex", r)
	}
	if l.PCIAddress, r = pciAddress(d); r != nvml.SUCCESS {
		return l, nvmlError("nvmlDeviceGetPciInfo", r)
	}
	var s gpu.State
	s.Counters = map[string]uint64{}
	v.health(d, &s)
	known(l, "ecc_uncorrected", s.Health.ECCUncorrected)
	known(l, "ecc_corrected", s.Health.ECCCorrected)
	known(l, "ecc_total", s.Health.ECCTotal)
	known(l, "remapped_rows", s.Health.RemappedRows)
	on(l, "remap_pending", s.Health.RemapPending)
	on(l, "remap_failed", s.Health.RemapFailed)
	note(l, "recovery", s.Health.Recovery)
	note(l, "fabric", s.Health.Fabric)
	current, _, _ := v.mig(d)
	note(l, "partition", current)
	v.lookAtPages(d, l)
	v.lookAtBus(d, l)
	if current != "mig_enabled" { // its instances use no link
		v.lookAtLinks(d, l)
	}
	v.lookAtHeat(d, l)
	// Every call above treats a failure as "not measured": this call, which must succeed, tells whether
	// the GPU was present all the while.
	if l.UUID, r = d.GetUUID(); r != nvml.SUCCESS {
		return l, nvmlError("nvmlDeviceGetUUID", r)
	}
	return l, nil
}

// lookAtPages reads the retired pages of GPUs before Ampere, which remap no rows.
func (v *vendor) lookAtPages(d nvml.Device, l gpu.Look) {
	if v.has("nvmlDeviceGetRetiredPagesPendingStatus") {
		if pending, r := d.GetRetiredPagesPendingStatus(); r == nvml.SUCCESS && pending == nvml.FEATURE_ENABLED {
			l.Numbers["remap_pending"] = 1
		}
	}
	if !v.has("nvmlDeviceGetRetiredPages") {
		return
	}
	pages, measured := 0, false
	for _, cause := range []nvml.PageRetirementCause{
		nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
	} {
		if some, r := d.GetRetiredPages(cause); r == nvml.SUCCESS {
			pages, measured = pages+len(some), true
		}
	}
	if measured {
		l.Numbers["retired_pages"] = int64(pages)
	}
}

// number notes a figure of a function that this driver's library may lack.
func (v *vendor) number(l gpu.Look, field, symbol string, ask func() (int, nvml.Return)) {
	if !v.has(symbol) {
		return
	}
	if n, r := ask(); r == nvml.SUCCESS {
		l.Numbers[field] = int64(n)
	}
}

func (v *vendor) lookAtBus(d nvml.Device, l gpu.Look) {
	v.number(l, "pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", d.GetCurrPcieLinkWidth)
	v.number(l, "pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", d.GetMaxPcieLinkWidth)
	v.number(l, "pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", d.GetCurrPcieLinkGeneration)
	v.number(l, "pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", d.GetMaxPcieLinkGeneration)
	v.number(l, "pcie_replays", "nvmlDeviceGetPcieReplayCounter", d.GetPcieReplayCounter)
}

// lookAtLinks counts the NVLinks that are up. A GPU without NVLink has none of these fields.
func (v *vendor) lookAtLinks(d nvml.Device, l gpu.Look) {
	if !v.has("nvmlDeviceGetNvLinkState") {
		return
	}
	up, measured := 0, false
	for link := range int(nvml.NVLINK_MAX_LINKS) {
		state, r := d.GetNvLinkState(link)
		if r != nvml.SUCCESS {
			continue
		}
		measured = true
		if state == nvml.FEATURE_ENABLED {
			up++
		}
	}
	if !measured {
		return
	}
	l.Numbers["nvlink_active"] = int64(up)
	fields := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL}, {FieldId: nvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL},
	}
	if !v.has("nvmlDeviceGetFieldValues") || d.GetFieldValues(fields) != nvml.SUCCESS {
		return
	}
	for i, name := range []string{"nvlink_replays", "nvlink_recoveries"} {
		if n, ok := unsigned(fields[i]); ok {
			known(l, name, &n)
		}
	}
}

// throttles are the reasons for which the clocks are held back. Others, such as an idle GPU, say nothing
// of its health.
var throttles = map[string]uint64{
	"throttle_sw_power":    nvml.ClocksEventReasonSwPowerCap,
	"throttle_sw_thermal":  nvml.ClocksEventReasonSwThermalSlowdown,
	"throttle_hw_slowdown": nvml.ClocksThrottleReasonHwSlowdown,
	"throttle_hw_thermal":  nvml.ClocksThrottleReasonHwThermalSlowdown,
	"throttle_hw_power":    nvml.ClocksThrottleReasonHwPowerBrakeSlowdown,
}

func (v *vendor) lookAtHeat(d nvml.Device, l gpu.Look) {
	if v.has("nvmlDeviceGetCurrentClocksThrottleReasons") {
		if reasons, r := d.GetCurrentClocksThrottleReasons(); r == nvml.SUCCESS {
			for name, bit := range throttles {
				l.Numbers[name] = 0
				if reasons&bit != 0 {
					l.Numbers[name] = 1
				}
			}
		}
	}
	figure := func(field, symbol string, ask func() (uint32, nvml.Return)) {
		v.number(l, field, symbol, func() (int, nvml.Return) {
			n, r := ask()
			return int(n), r
		})
	}
	figure("temperature", "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) })
	figure("temperature_limit", "nvmlDeviceGetTemperatureThreshold", func() (uint32, nvml.Return) {
		return d.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
	})
	figure("power_mw", "nvmlDeviceGetPowerUsage", d.GetPowerUsage)
}

func known(l gpu.Look, field string, n *uint64) {
	if n != nil && *n <= math.MaxInt64 {
		l.Numbers[field] = int64(*n)
	}
}

func on(l gpu.Look, field string, is *bool) {
	if is == nil {
		return
	}
	l.Numbers[field] = 0
	if *is {
		l.Numbers[field] = 1
	}
}

func note(l gpu.Look, field, value string) {
	if value != "" {
		l.Texts[field] = value
	}
}
