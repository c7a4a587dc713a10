//go:build cgo

package nvidia

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

const managementLibrary = "libnvidia-ml.so.1"

type vendor struct {
	lib    nvml.Interface
	opened bool
}

var _ gpu.Vendor = (*vendor)(nil)

// New returns NVIDIA's libraries in this process, not yet opened.
func New() gpu.Vendor { return &vendor{lib: nvml.New(nvml.WithLibraryPath(managementLibrary))} }

func (v *vendor) Name() string { return "nvidia" }

// open opens the library once.
func (v *vendor) open() error {
	if v.opened {
		return nil
	}
	switch r := v.lib.Init(); r {
	case nvml.SUCCESS:
		v.opened = true
		return nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return taskcatalog.Errorf(gpu.CodeLibraryMissing, "%s is not installed", managementLibrary)
	default:
		return nvmlError("cannot open "+managementLibrary, r)
	}
}

func (v *vendor) Close() error {
	if !v.opened {
		return nil
	}
	v.opened = false
	if r := v.lib.Shutdown(); r != nvml.SUCCESS {
		return nvmlError("nvmlShutdown", r)
	}
	return nil
}

// has reports whether this driver's library has a function. A call of a missing function ends the
// process.
func (v *vendor) has(symbol string) bool { return v.lib.Extensions().LookupSymbol(symbol) == nil }

// device finds a GPU, or an instance of a GPU, by uuid.
func (v *vendor) device(uuid string) (nvml.Device, error) {
	if err := v.open(); err != nil {
		return nil, err
	}
	d, r := v.lib.DeviceGetHandleByUUID(uuid)
	if r != nvml.SUCCESS {
		return nil, nvmlError(fmt.Sprintf("cannot find GPU %s", taskcatalog.Clean(uuid, 80)), r)
	}
	return d, nil
}

// Reset has no call in NVML: nvidia-smi does the reset, in a command profile.
func (v *vendor) Reset([]string) error {
	return taskcatalog.Errorf(gpu.CodeResetUnsupported, "NVML cannot reset a GPU; nvidia-smi can")
}

func (v *vendor) CleanLocal(string) error {
	return taskcatalog.Errorf(gpu.CodeUnsupported, "NVML cannot clear registers and shared memory")
}

// Holders asks for the three lists of the GPU and, if it is divided, of each instance: without
// privilege the GPU's own lists omit the instances' processes.
func (v *vendor) Holders(uuid string) ([]gpu.Holder, error) {
	d, err := v.device(uuid)
	if err != nil {
		return nil, err
	}
	found, err := gpu.WithoutOwnHelpers(func() ([]gpu.Holder, error) {
		all, err := v.processes(d, "")
		if err != nil {
			return nil, err
		}
		for _, in := range v.instances(d) {
			more, err := v.processes(in.device, in.UUID)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	// The GPU lists the processes of its instances as well.
	byPID := map[string]gpu.Holder{}
	var holders []gpu.Holder
	for i := len(found) - 1; i >= 0; i-- {
		h := found[i]
		key := fmt.Sprint(h.Kind, " ", h.PID)
		if other, seen := byPID[key]; seen && (h.Instance == "" || h.Instance == other.Instance) {
			continue
		}
		byPID[key] = h
		holders = append(holders, h)
	}
	return holders, nil
}

func (v *vendor) processes(d nvml.Device, instance string) ([]gpu.Holder, error) {
	lists := []struct {
		kind, symbol string
		ask          func() ([]nvml.ProcessInfo, nvml.Return)
	}{
		{"compute", "nvmlDeviceGetComputeRunningProcesses", d.GetComputeRunningProcesses},
		{"graphics", "nvmlDeviceGetGraphicsRunningProcesses", d.GetGraphicsRunningProcesses},
		{"mps", "nvmlDeviceGetMPSComputeRunningProcesses", d.GetMPSComputeRunningProcesses},
	}
	var holders []gpu.Holder
	for _, l := range lists {
		if !v.has(l.symbol+"_v3") && !v.has(l.symbol+"_v2") && !v.has(l.symbol) {
			if l.kind == "compute" {
				return nil, taskcatalog.Errorf(gpu.CodeSymbolMissing, "%s has no %s", managementLibrary, l.symbol)
			}
			continue
		}
		list, r := l.ask()
		if r == nvml.ERROR_NOT_SUPPORTED && l.kind != "compute" {
			continue
		}
		if r != nvml.SUCCESS {
			return nil, nvmlError(l.symbol, r)
		}
		for _, p := range list {
			h := gpu.Holder{PID: p.Pid, Kind: l.kind, Instance: instance}
			if p.UsedGpuMemory != ^uint64(0) { // the library's "not available"
				h.MemoryBytes = &p.UsedGpuMemory
			}
			holders = append(holders, h)
		}
	}
	return holders, nil
}
