package profiles

import (
	"maps"
	"slices"
	"strings"
)

// The step kinds of tasks. The overrides of rules may name only these.
const (
	StepDriverValidate   = "gpu.driver.validate"
	StepRuntimeCheck     = "gpu.runtime.check"
	StepFabricVerify     = "gpu.fabric.verify"
	StepContainerRuntime = "gpu.container_runtime.check"
	StepQuiesce          = "gpu.scrub.quiesce"
	StepOverwrite        = "gpu.scrub.overwrite"
	StepVerify           = "gpu.scrub.verify"
	StepReset            = "gpu.scrub.reset"
	StepProbe            = "gpu.scrub.probe"
	StepRestore          = "gpu.scrub.restore"
	StepHealth           = "gpu.scrub.health"
)

// InputGPUs is the argument of a scrub step with the uuids of its GPUs, a list.
const InputGPUs = "gpus"

// stepInputs is the table of step kinds: the arguments that each step gives to a command profile,
// with their types.
var stepInputs = map[string]map[string]string{
	StepDriverValidate:   nil,
	StepRuntimeCheck:     nil,
	StepFabricVerify:     nil,
	StepContainerRuntime: nil,
	StepQuiesce:          {InputGPUs: ArgList},
	StepOverwrite:        {InputGPUs: ArgList},
	StepVerify:           {InputGPUs: ArgList},
	StepReset:            {InputGPUs: ArgList},
	StepProbe:            {InputGPUs: ArgList},
	StepRestore:          {InputGPUs: ArgList},
	StepHealth:           {InputGPUs: ArgList},
}

// Steps lists the step kinds, sorted.
func Steps() []string { return slices.Sorted(maps.Keys(stepInputs)) }

// KnownStep reports whether step is a known step kind.
func KnownStep(step string) bool { _, ok := stepInputs[step]; return ok }

// BuiltinPrefix marks a builtin in the place of a command profile's id.
const BuiltinPrefix = "builtin:"

// BuiltinNone is the builtin for hardware on which there is nothing to do; the step's result is
// skipped.
const BuiltinNone = "none"

// builtins is the table of the agent's own code, with the step of each builtin.
var builtins = map[string]string{
	"nvidia.quiesce": StepQuiesce, "nvidia.overwrite": StepOverwrite, "nvidia.verify": StepVerify,
	"nvidia.probe": StepProbe, "nvidia.restore": StepRestore, "nvidia.health": StepHealth,
	"amd.quiesce": StepQuiesce, "amd.overwrite": StepOverwrite, "amd.verify": StepVerify, "amd.reset": StepReset,
	"amd.probe": StepProbe, "amd.restore": StepRestore, "amd.health": StepHealth,
	BuiltinNone: "", // any
}

// Builtins lists the names of builtins, sorted.
func Builtins() []string { return slices.Sorted(maps.Keys(builtins)) }

// matchKeys is the capability taxonomy with its additions: the facts that a rule may match on, and
// their values if the taxonomy lists them.
var matchKeys = map[string][]string{
	"gpu.vendor":        {"nvidia", "amd", "intel", "other", "none"},
	"gpu.architecture":  nil,
	"gpu.driver":        nil,
	"gpu.driver_series": nil,
	"gpu.count":         nil,
	"compute.runtime":   {"cuda", "rocm", "level_zero", "none"},
	"gpu.fabric":        {"nvlink", "none"},
	"fabric.type":       {"infiniband", "roce", "nvlink", "ethernet", "none"},
	"container.runtime": {"containerd", "docker", "other", "none"},
	"os.id":             nil,
	"os.version_id":     nil,
}

// MatchKeys lists the facts that a rule may match on, sorted.
func MatchKeys() []string { return slices.Sorted(maps.Keys(matchKeys)) }

// passable are the variables that a program may inherit: they choose a language or a device. Any
// other variable could load code or carry a secret.
var passable = []string{
	"LANG", "LANGUAGE", "TZ", "NO_COLOR",
	"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
	"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
}

func mayPass(name string) bool {
	return slices.Contains(passable, name) || name == "LC_ALL" || strings.HasPrefix(name, "LC_") && lcName.MatchString(name)
}
