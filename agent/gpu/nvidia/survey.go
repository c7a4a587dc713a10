//go:build cgo

package nvidia

import (
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// maxMemory exceeds the memory of any GPU, in bytes: a larger figure is rejected.
const maxMemory = 1 << 50

var architectures = map[nvml.DeviceArchitecture]string{
	nvml.DEVICE_ARCH_KEPLER: "kepler", nvml.DEVICE_ARCH_MAXWELL: "maxwell", nvml.DEVICE_ARCH_PASCAL: "pascal",
	nvml.DEVICE_ARCH_VOLTA: "volta", nvml.DEVICE_ARCH_TURING: "turing", nvml.DEVICE_ARCH_AMPERE: "ampere",
	nvml.DEVICE_ARCH_ADA: "ada", nvml.DEVICE_ARCH_HOPPER: "hopper", nvml.DEVICE_ARCH_BLACKWELL: "blackwell",
}

// Survey implements gpu.Vendor.
func (v *vendor) Survey() ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error) {
	management := taskcatalog.LibraryFacts{Name: managementLibrary}
	memory := cudaFacts()
	if err := v.open(); err != nil {
		management.Problem, management.Detail = taskcatalog.CodeOf(err, gpu.CodeDriverFailed), err.Error()
		return nil, []taskcatalog.LibraryFacts{management, memory}, nil
	}
	if version, r := v.lib.SystemGetDriverVersion(); r == nvml.SUCCESS {
		management.Version = version
	}
	count, r := v.lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return nil, nil, nvmlError("nvmlDeviceGetCount", r)
	}
	var gpus []taskcatalog.GPUFacts
	for i := range count {
		f, err := v.surveyOne(i)
		if err != nil {
			// This GPU is on the bus but does not answer: the other GPUs are reported all the same.
			management.Problem = taskcatalog.CodeOf(err, gpu.CodeDriverFailed)
			management.Detail = fmt.Sprintf("GPU %d: %v", i, err)
			continue
		}
		gpus = append(gpus, f)
	}
	slices.SortFunc(gpus, func(a, b taskcatalog.GPUFacts) int { return strings.Compare(a.PCIAddress, b.PCIAddress) })
	for i := range gpus {
		gpus[i].Index = i
	}
	return gpus, []taskcatalog.LibraryFacts{management, memory}, nil
}

func (v *vendor) surveyOne(i int) (taskcatalog.GPUFacts, error) {
	f := taskcatalog.GPUFacts{Vendor: "nvidia"}
	d, r := v.lib.DeviceGetHandleByIndex(i)
	if r != nvml.SUCCESS {
		return f, nvmlError("nvmlDeviceGetHandleByIndex", r)
	}
	if f.UUID, r = d.GetUUID(); r != nvml.SUCCESS {
		return f, nvmlError("nvmlDeviceGetUUID", r)
	}
	if f.PCIAddress, r = pciAddress(d); r != nvml.SUCCESS {
		return f, nvmlError("nvmlDeviceGetPciInfo", r)
	}
	// The rest is missing if the device does not report it.
	f.Name, _ = d.GetName()
	f.Serial, _ = d.GetSerial()
	f.Architecture = architectures[v.architecture(d)]
	if m, err := v.memoryInfo(d); err == nil {
		f.MemoryBytes, f.ReservedBytes = &m.Total, m.Reserved
	}
	if current, pending, known := v.mig(d); known {
		f.Partition = current
		if pending != current {
			f.PartitionPending = pending
		}
	}
	for _, in := range v.instances(d) {
		f.Instances = append(f.Instances, in.GPUInstance)
	}
	return f, nil
}

// pciAddress is in the kernel's notation.
func pciAddress(d nvml.Device) (string, nvml.Return) {
	pci, r := d.GetPciInfo()
	return fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device), r
}

func (v *vendor) architecture(d nvml.Device) nvml.DeviceArchitecture {
	if v.has("nvmlDeviceGetArchitecture") {
		if arch, r := d.GetArchitecture(); r == nvml.SUCCESS {
			return arch
		}
	}
	return nvml.DEVICE_ARCH_UNKNOWN
}

// memoryInfo is the library's accounting. On a GPU whose memory belongs to the operating system
// (Grace) its "free" says little.
func (v *vendor) memoryInfo(d nvml.Device) (gpu.MemoryInfo, error) {
	if v.has("nvmlDeviceGetMemoryInfo_v2") {
		if m, r := d.GetMemoryInfo_v2(); r == nvml.SUCCESS {
			info := gpu.MemoryInfo{Total: m.Total, Free: m.Free, Reserved: &m.Reserved}
			return info, checkMemory(info)
		}
	}
	// An older library, or a library that refuses this version of the struct.
	m, r := d.GetMemoryInfo()
	if r != nvml.SUCCESS {
		return gpu.MemoryInfo{}, nvmlError("nvmlDeviceGetMemoryInfo", r)
	}
	info := gpu.MemoryInfo{Total: m.Total, Free: m.Free}
	return info, checkMemory(info)
}

func checkMemory(m gpu.MemoryInfo) error {
	if m.Total == 0 || m.Total > maxMemory || m.Free > m.Total || (m.Reserved != nil && *m.Reserved > m.Total) {
		return taskcatalog.Errorf(gpu.CodeDriverFailed, "the driver reports implausible memory sizes: %d bytes in all, %d free", m.Total,
			m.Free)
	}
	return nil
}

func (v *vendor) mig(d nvml.Device) (current, pending string, known bool) {
	if !v.has("nvmlDeviceGetMigMode") {
		return "", "", false
	}
	c, p, r := d.GetMigMode()
	if r != nvml.SUCCESS {
		return "", "", false
	}
	return word(migModes, c), word(migModes, p), true
}

type instance struct {
	taskcatalog.GPUInstance
	device nvml.Device
}

// instances lists the present MIG instances.
func (v *vendor) instances(d nvml.Device) []instance {
	if current, _, known := v.mig(d); !known || current != "mig_enabled" || !v.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return nil
	}
	most, r := d.GetMaxMigDeviceCount()
	if r != nvml.SUCCESS {
		return nil
	}
	var all []instance
	for i := range min(most, 64) {
		mig, r := d.GetMigDeviceHandleByIndex(i)
		if r != nvml.SUCCESS {
			continue
		}
		in := instance{device: mig}
		if in.UUID, r = mig.GetUUID(); r != nvml.SUCCESS {
			continue
		}
		if name, r := mig.GetName(); r == nvml.SUCCESS {
			_, in.Profile, _ = strings.Cut(name, " MIG ")
		}
		if m, err := v.memoryInfo(mig); err == nil {
			in.MemoryBytes = &m.Total
		}
		all = append(all, in)
	}
	return all
}
