package taskcatalog

import (
	"maps"
	"slices"
)

// Facts are what a node says its hardware and the software under it are: what
// resolver profiles match on, and what an operator reads before a turnover. A
// machine without a GPU, a GPU without a driver, a driver without a library are
// ordinary facts. What could not be read is missing, never zero.
//
// They hold only what stays as it is between two boots: the node reports them
// when they change.
type Facts struct {
	// Keys are the capability taxonomy, such as gpu.vendor: all that a profile's
	// match may name.
	Keys      map[string]string `json:"keys"`
	PCI       []PCIDevice       `json:"pci,omitempty"`
	Drivers   []DriverFacts     `json:"drivers,omitempty"`
	Libraries []LibraryFacts    `json:"libraries,omitempty"`
	GPUs      []GPUFacts        `json:"gpus,omitempty"`
	// Disks are those of the machine's own, in the order of their names. DisksListed
	// tells a machine without one from an agent that does not look for them.
	Disks       []DiskFacts `json:"disks,omitempty"`
	DisksListed bool        `json:"disks_listed,omitempty"`
	// ChassisSerial is what the vendor calls the whole machine by, as its firmware has it.
	ChassisSerial string `json:"chassis_serial,omitempty"`
}

// DiskFacts is a disk, as the kernel tells of it.
type DiskFacts struct {
	Name      string `json:"name"` // nvme0n1
	Model     string `json:"model,omitempty"`
	Serial    string `json:"serial,omitempty"`
	WWID      string `json:"wwid,omitempty"` // eui.36344630529042690025384500000001
	SizeBytes int64  `json:"size_bytes,omitempty"`
	// Transport is how it is reached: pcie, sata, sas, mmc, or what it is instead, such
	// as tcp, iscsi or virtio.
	Transport string `json:"transport,omitempty"`
	System    bool   `json:"system,omitempty"` // the running system is on it: its root, /usr, /boot or EFI
	// Problem says why nobody can read or write the disk. It has no size then.
	Problem string `json:"problem,omitempty"`
}

// DiskNoSize is the problem of a disk that its firmware, and not the kernel, knows the
// size of.
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

// LibraryFacts is a vendor library as the gpu helper found it.
type LibraryFacts struct {
	Name    string `json:"name"` // libnvidia-ml.so.1
	Version string `json:"version,omitempty"`
	// Problem is empty, library_missing, library_mismatched, driver_missing or
	// another code that says why it tells nothing.
	Problem Code   `json:"problem,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// GPUFacts is one GPU as its vendor's library sees it.
type GPUFacts struct {
	Vendor       string `json:"vendor"` // nvidia, amd
	Index        int    `json:"index"`  // in the order of PCI addresses
	UUID         string `json:"uuid"`
	Serial       string `json:"serial,omitempty"`
	PCIAddress   string `json:"pci_address"` // 0000:3b:00.0
	Name         string `json:"name,omitempty"`
	Architecture string `json:"architecture,omitempty"` // hopper, gfx942
	// MemoryBytes is all memory of the GPU; ReservedBytes what the driver keeps.
	MemoryBytes   *uint64 `json:"memory_bytes,omitempty"`
	ReservedBytes *uint64 `json:"reserved_bytes,omitempty"`
	// Partition is the mode in force: mig_disabled, mig_enabled, or the vendor's
	// name for it (SPX, CPX). PartitionPending is the mode after the next reset,
	// where it differs.
	Partition        string        `json:"partition,omitempty"`
	PartitionPending string        `json:"partition_pending,omitempty"`
	Instances        []GPUInstance `json:"instances,omitempty"`
}

// GPUInstance is a MIG instance or a partition: the unit of a scrub where it
// exists.
type GPUInstance struct {
	UUID        string  `json:"uuid"`
	Profile     string  `json:"profile,omitempty"`
	MemoryBytes *uint64 `json:"memory_bytes,omitempty"`
}

// Bounds of a node's facts.
const (
	maxFactDevices    = 512 // PCI functions, GPUs and instances of one, each
	maxFactParameters = 256 // of one driver
	maxFactText       = 200 // bytes of one value
	maxFactBytes      = 1 << 56
)

// Bound cuts lists that are too long, cleans every text, and makes a size that cannot be
// unknown, in place.
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

// believable makes a size that no device has one that nobody knows: a driver that is
// wrong about it keeps no node from renewing.
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
