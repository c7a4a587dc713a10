package taskcatalog

import (
	"maps"
	"slices"
)

// Facts describe a node's hardware and the software under it. Resolver profiles match on facts, and
// operators read them before a turnover. A machine without a GPU, a GPU without a driver, and a
// driver without a library are ordinary facts. A value that could not be read is missing, never
// zero.
//
// Facts hold only values that stay the same between two boots. The node reports facts when they
// change.
type Facts struct {
	// Keys are the capability taxonomy, such as gpu.vendor: all keys that a profile's match may
	// name.
	Keys      map[string]string `json:"keys"`
	PCI       []PCIDevice       `json:"pci,omitempty"`
	Drivers   []DriverFacts     `json:"drivers,omitempty"`
	Libraries []LibraryFacts    `json:"libraries,omitempty"`
	GPUs      []GPUFacts        `json:"gpus,omitempty"`
	// Disks are the machine's own disks, ordered by name. DisksListed distinguishes a machine
	// without disks from an agent that does not list disks.
	Disks       []DiskFacts `json:"disks,omitempty"`
	DisksListed bool        `json:"disks_listed,omitempty"`
	// ChassisSerial is the vendor's serial number of the whole machine, as its firmware reports it.
	ChassisSerial string `json:"chassis_serial,omitempty"`
}

// DiskFacts is a disk as the kernel describes it.
type DiskFacts struct {
	Name      string `json:"name"` // nvme0n1
	Model     string `json:"model,omitempty"`
	Serial    string `json:"serial,omitempty"`
	WWID      string `json:"wwid,omitempty"` // eui.36344630529042690025384500000001
	SizeBytes int64  `json:"size_bytes,omitempty"`
	// Transport is the disk's connection: pcie, sata, sas, mmc, or another kind, such as tcp, iscsi
	// or virtio.
	Transport string `json:"transport,omitempty"`
	System    bool   `json:"system,omitempty"` // the running system is on this disk: root, /usr, /boot or EFI
	// Problem says why the disk cannot be read or written. Such a disk has no size.
	Problem string `json:"problem,omitempty"`
}

// DiskNoSize is the problem of a disk with a size that only the firmware knows, not the kernel.
const DiskNoSize = "the kernel gives it no size (520-byte sectors, or metadata)"

// PCIDevice is a display controller, processing accelerator, network or NVMe
// function on the bus.
type PCIDevice struct {
	Address    string `json:"address"` // 0000:3b:00.0
	Vendor     string `json:"vendor"`  // four hex digits
	Device     string `json:"device"`
	Class      string `json:"class"`            // six hex digits
	Driver     string `json:"driver,omitempty"` // kernel driver bound to it
	NUMANode   *int   `json:"numa_node,omitempty"`
	IOMMUGroup string `json:"iommu_group,omitempty"`
}

// DriverFacts is a kernel driver for GPUs.
type DriverFacts struct {
	Name       string            `json:"name"` // nvidia, amdgpu
	Version    string            `json:"version,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// LibraryFacts is a vendor library as the GPU helper found it.
type LibraryFacts struct {
	Name    string `json:"name"` // libnvidia-ml.so.1
	Version string `json:"version,omitempty"`
	// Problem is empty, library_missing, library_mismatched, driver_missing, or another code that
	// says why the library returns no facts.
	Problem Code   `json:"problem,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// GPUFacts is one GPU as the vendor's library reports it.
type GPUFacts struct {
	Vendor       string `json:"vendor"` // nvidia, amd
	Index        int    `json:"index"`  // in the order of PCI addresses
	UUID         string `json:"uuid"`
	Serial       string `json:"serial,omitempty"`
	PCIAddress   string `json:"pci_address"` // 0000:3b:00.0
	Name         string `json:"name,omitempty"`
	Architecture string `json:"architecture,omitempty"` // hopper, gfx942
	// MemoryBytes is the total memory of the GPU; ReservedBytes is the driver's share of it.
	MemoryBytes   *uint64 `json:"memory_bytes,omitempty"`
	ReservedBytes *uint64 `json:"reserved_bytes,omitempty"`
	// Partition is the mode in force: mig_disabled, mig_enabled, or the vendor's name of the mode
	// (SPX, CPX). PartitionPending is the mode after the next reset, if different.
	Partition        string        `json:"partition,omitempty"`
	PartitionPending string        `json:"partition_pending,omitempty"`
	Instances        []GPUInstance `json:"instances,omitempty"`
}

// GPUInstance is a MIG instance or a partition. An instance is the unit of a scrub where instances
// exist.
type GPUInstance struct {
	UUID        string  `json:"uuid"`
	Profile     string  `json:"profile,omitempty"`
	MemoryBytes *uint64 `json:"memory_bytes,omitempty"`
}

// Bounds of a node's facts.
const (
	maxFactDevices    = 512 // PCI functions, GPUs, and instances of one GPU, each
	maxFactParameters = 256 // of one driver
	maxFactText       = 200 // bytes of one value
	maxFactBytes      = 1 << 56
)

// Bound cuts lists that are too long, cleans every text, and marks an impossible size as unknown,
// in place.
func (f *Facts) Bound() {
	f.Keys = boundPairs(f.Keys)
	clean(&f.ChassisSerial)
	f.PCI, f.Drivers, f.Libraries, f.GPUs, f.Disks = head(f.PCI), head(f.Drivers), head(f.Libraries), head(f.GPUs), head(f.Disks)
	for i := range f.Disks {
		d := &f.Disks[i]
		clean(&d.Name, &d.Model, &d.Serial, &d.WWID, &d.Transport, &d.Problem)
		if d.SizeBytes < 0 || d.SizeBytes > maxFactBytes {
			d.SizeBytes = 0
		}
	}
	for i := range f.PCI {
		d := &f.PCI[i]
		clean(&d.Address, &d.Vendor, &d.Device, &d.Class, &d.Driver, &d.IOMMUGroup)
	}
	for i := range f.Drivers {
		d := &f.Drivers[i]
		clean(&d.Name, &d.Version)
		d.Parameters = boundPairs(d.Parameters)
	}
	for i := range f.Libraries {
		l := &f.Libraries[i]
		clean(&l.Name, &l.Version, (*string)(&l.Problem), &l.Detail)
	}
	for i := range f.GPUs {
		g := &f.GPUs[i]
		clean(&g.Vendor, &g.UUID, &g.Serial, &g.PCIAddress, &g.Name, &g.Architecture, &g.Partition, &g.PartitionPending)
		believable(&g.MemoryBytes, &g.ReservedBytes)
		g.Instances = head(g.Instances)
		for j := range g.Instances {
			clean(&g.Instances[j].UUID, &g.Instances[j].Profile)
			believable(&g.Instances[j].MemoryBytes)
		}
	}
}

// believable marks sizes that no device has as unknown. A driver that reports a wrong size must not
// keep its node from renewing.
func believable(sizes ...**uint64) {
	for _, s := range sizes {
		if *s != nil && **s > maxFactBytes {
			*s = nil
		}
	}
}

func head[T any](list []T) []T { return list[:min(len(list), maxFactDevices)] }

func clean(texts ...*string) {
	for _, t := range texts {
		*t = Clean(*t, maxFactText)
	}
}

func boundPairs(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		if len(out) < maxFactParameters {
			out[Clean(k, maxFactText)] = Clean(in[k], maxFactText)
		}
	}
	return out
}
