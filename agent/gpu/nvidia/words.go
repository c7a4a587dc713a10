//go:build cgo

package nvidia

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Words for NVML's enumerations. A newer driver may answer with unknown values: they become
// "unknown_N", which never counts as good.

var computeModes = map[nvml.ComputeMode]string{
	nvml.COMPUTEMODE_DEFAULT: "default", nvml.COMPUTEMODE_PROHIBITED: "prohibited", nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
}

var migModes = map[int]string{nvml.DEVICE_MIG_DISABLE: "mig_disabled", nvml.DEVICE_MIG_ENABLE: "mig_enabled"}

var recoveryActions = map[uint64]string{
	0: "none", 1: "gpu_reset", 2: "node_reboot", 3: "drain_p2p", 4: "drain_and_reset",
	5: "recover_imex_domain",
}

// joined is the state of a GPU that has joined its fabric.
const joined = "completed"

var fabricStates = map[nvml.GpuFabricState]string{
	nvml.GPU_FABRIC_STATE_NOT_SUPPORTED: "not_supported", nvml.GPU_FABRIC_STATE_NOT_STARTED: "not_started",
	nvml.GPU_FABRIC_STATE_IN_PROGRESS: "in_progress", nvml.GPU_FABRIC_STATE_COMPLETED: joined,
}

// word names a value.
func word[T comparable](words map[T]string, value T) string {
	if w, known := words[value]; known {
		return w
	}
	return unknown(value)
}

func unknown(value any) string { return fmt.Sprintf("unknown_%d", value) }

// enabled reads a mode with the values on and off; nil for any other value.
func enabled(e nvml.EnableState) *bool {
	on := e == nvml.FEATURE_ENABLED
	if !on && e != nvml.FEATURE_DISABLED {
		return nil
	}
	return &on
}

// recovery names the action in a field; "" if the GPU has no such field.
func recovery(f nvml.FieldValue) string {
	switch nvml.Return(f.NvmlReturn) {
	case nvml.SUCCESS:
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT:
		return "" // an older driver
	default:
		return "unreadable"
	}
	n, ok := unsigned(f)
	if !ok {
		return "unreadable"
	}
	return word(recoveryActions, n)
}

// conditions are the parts of a fabric's health mask, with the good value of each. 0 is "not
// supported" in each part.
var conditions = []struct {
	name         string
	shift, width uint32
	well         uint32
}{
	{
		"degraded_bandwidth", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_DEGRADED_BW,
		nvml.GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE,
	},
	{
		"route_recovery", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_RECOVERY,
		nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_RECOVERY_FALSE,
	},
	{
		"route_unhealthy", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_UNHEALTHY,
		nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_UNHEALTHY_FALSE,
	},
	{
		"access_timeout", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY,
		nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ACCESS_TIMEOUT_RECOVERY,
		nvml.GPU_FABRIC_HEALTH_MASK_ACCESS_TIMEOUT_RECOVERY_FALSE,
	},
	{
		"incorrect_configuration", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION,
		nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION, nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE,
	},
	{
		"partition_unassigned", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_PARTITION_ASSIGNED, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_PARTITION_ASSIGNED,
		nvml.GPU_FABRIC_HEALTH_MASK_PARTITION_ASSIGNED_TRUE,
	},
}

// unhealthy names the conditions of a fabric's health mask that are not good, and unknown bits.
func unhealthy(mask uint32) []string {
	var wrong []string
	for _, c := range conditions {
		if is := mask >> c.shift & c.width; is != 0 && is != c.well {
			wrong = append(wrong, fmt.Sprintf("%s_%d", c.name, is))
		}
		mask &^= c.width << c.shift
	}
	if mask != 0 {
		wrong = append(wrong, fmt.Sprintf("unknown_%#x", mask))
	}
	return wrong
}
