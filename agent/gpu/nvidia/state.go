//go:build cgo

package nvidia

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
)

// State implements gpu.Vendor. Unsupported values stay empty; a lost GPU is an error.
func (v *vendor) State(uuid string) (gpu.State, error) {
	d, err := v.device(uuid)
	if err != nil {
		return gpu.State{}, err
	}
	s := gpu.State{Counters: map[string]uint64{}}
	v.settings(d, &s)
	v.health(d, &s)
	if s.Nodes, err = v.nodes(d); err != nil {
		return gpu.State{}, err
	}
	s.Domain = v.domain(d)
	// Every call above treats a failure as "unknown": this call, which must succeed, tells whether
	// the GPU was present all the while.
	if _, r := d.GetUUID(); r != nvml.SUCCESS {
		return gpu.State{}, nvmlError("nvmlDeviceGetUUID", r)
	}
	return s, nil
}

// nodes are the GPU's own device files: NVIDIA's, and those of nvidia_drm.
func (v *vendor) nodes(d nvml.Device) ([]string, error) {
	var nodes []string
	if minor, r := d.GetMinorNumber(); r == nvml.SUCCESS {
		nodes = append(nodes, fmt.Sprintf("/dev/nvidia%d", minor))
	}
	address, r := pciAddress(d)
	if r != nvml.SUCCESS {
		return nodes, nil
	}
	m, err := machine.Open("/")
	if err != nil {
		return nil, err
	}
	defer m.Close()
	drm, err := gpu.DRMNodes(m, address)
	return append(nodes, drm...), err
}

func (v *vendor) settings(d nvml.Device, s *gpu.State) {
	if current, pending, known := v.mig(d); known {
		s.Settings.Partition = current
		if pending != current {
			s.Pending.Partition = pending
		}
	}
	if mode, r := d.GetComputeMode(); r == nvml.SUCCESS {
		s.Settings.ComputeMode = word(computeModes, mode)
	}
	if current, pending, r := d.GetEccMode(); r == nvml.SUCCESS {
		s.Settings.ECC = enabled(current)
		if pending != current {
			s.Pending.ECC = enabled(pending)
		}
	}
	if mode, r := d.GetPersistenceMode(); r == nvml.SUCCESS {
		s.Settings.Persistence = enabled(mode)
	}
	if limit, r := d.GetPowerManagementLimit(); r == nvml.SUCCESS {
		mw := uint64(limit)
		s.Settings.PowerLimitMW = &mw
	}
	s.Settings.Clocks = v.clocks(d)
}

// clocks reports application clocks. Locked clocks have no getter, so Apply always resets them.
func (v *vendor) clocks(d nvml.Device) string {
	if !v.has("nvmlDeviceGetApplicationsClock") || !v.has("nvmlDeviceGetDefaultApplicationsClock") {
		return ""
	}
	for _, kind := range []nvml.ClockType{nvml.CLOCK_GRAPHICS, nvml.CLOCK_MEM} {
		have, r := d.GetApplicationsClock(kind)
		usual, r2 := d.GetDefaultApplicationsClock(kind)
		if r != nvml.SUCCESS || r2 != nvml.SUCCESS {
			return ""
		}
		if have != usual {
			return "set"
		}
	}
	return "default"
}

func (v *vendor) health(d nvml.Device, s *gpu.State) {
	h := &s.Health
	ecc := func(kind nvml.MemoryErrorType, counter nvml.EccCounterType) *uint64 {
		n, r := d.GetTotalEccErrors(kind, counter)
		if r != nvml.SUCCESS {
			return nil
		}
		return &n
	}
	h.ECCUncorrected = ecc(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	h.ECCCorrected = ecc(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)
	h.ECCTotal = ecc(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC)
	if v.has("nvmlDeviceGetRemappedRows") {
		if corrected, uncorrected, pending, failed, r := d.GetRemappedRows(); r == nvml.SUCCESS {
			rows := uint64(corrected + uncorrected)
			h.RemappedRows, h.RemapPending, h.RemapFailed = &rows, &pending, &failed
		}
	}
	fields := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}, {FieldId: nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL}}
	if v.has("nvmlDeviceGetFieldValues") && d.GetFieldValues(fields) == nvml.SUCCESS {
		h.Recovery = recovery(fields[0])
		if n, ok := unsigned(fields[1]); ok {
			h.LinkErrors = &n
			s.Counters["nvlink_replays"] = n
		}
	}
	h.Fabric = v.fabric(d)
	for name, n := range map[string]*uint64{"ecc_uncorrected": h.ECCUncorrected, "ecc_corrected": h.ECCCorrected} {
		if n != nil {
			s.Counters[name] = *n
		}
	}
	// Counted since the driver last initialised the GPU, which a reset causes.
	if v.has("nvmlDeviceGetTotalEnergyConsumption") {
		if mj, r := d.GetTotalEnergyConsumption(); r == nvml.SUCCESS {
			s.Counters["energy_mj"] = mj
		}
	}
	if n, r := d.GetPcieReplayCounter(); r == nvml.SUCCESS {
		s.Counters["pcie_replays"] = uint64(n)
	}
}

// unsigned reads a field of the type given by the library; only these two types occur here.
func unsigned(f nvml.FieldValue) (uint64, bool) {
	if nvml.Return(f.NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	var n uint64
	for i := len(f.Value) - 1; i >= 0; i-- {
		n = n<<8 | uint64(f.Value[i])
	}
	switch nvml.ValueType(f.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return n & 0xffffffff, true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return n, true
	}
	return 0, false
}

func (v *vendor) fabric(d nvml.Device) string {
	if !v.has("nvmlDeviceGetGpuFabricInfoV") {
		return ""
	}
	info, r := d.GetGpuFabricInfoV().V2()
	switch r {
	case nvml.SUCCESS:
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return ""
	default:
		return "unreadable"
	}
	state := word(fabricStates, nvml.GpuFabricState(info.State))
	if state != joined {
		return state
	}
	if nvml.Return(info.Status) != nvml.SUCCESS {
		return "failed"
	}
	if wrong := unhealthy(info.HealthMask); len(wrong) > 0 {
		return "unhealthy: " + strings.Join(wrong, ", ")
	}
	return joined
}

// domain reports whether the GPU must be reset together with the GPUs it is linked to: up to
// Ampere, where the reset of a single GPU needs the fabric manager or is refused. From Hopper on
// each GPU is reset alone.
func (v *vendor) domain(d nvml.Device) string {
	if v.architecture(d) >= nvml.DEVICE_ARCH_ADA || !v.has("nvmlDeviceGetNvLinkState") { // an unknown architecture is newer
		return ""
	}
	for link := range int(nvml.NVLINK_MAX_LINKS) {
		if state, r := d.GetNvLinkState(link); r == nvml.SUCCESS && state != nvml.FEATURE_DISABLED {
			return "nvlink"
		}
	}
	return ""
}
