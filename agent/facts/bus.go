package facts

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const pciDevices = "/sys/bus/pci/devices"

// listed reports whether a PCI function matters between two tenants: NVMe, network, display,
// InfiniBand, processing accelerators, and the class of bridges that includes NVSwitches.
func listed(class, vendor string) bool {
	return strings.HasPrefix(class, "0108") || strings.HasPrefix(class, "02") || strings.HasPrefix(class, "03") ||
		strings.HasPrefix(class, "12") || (class == "068000" && vendor == "10de")
}

func pci(m *machine.Machine) ([]taskcatalog.PCIDevice, error) {
	slots, err := m.Names(pciDevices) // a machine without PCI has none
	if err != nil {
		return nil, err
	}
	slices.Sort(slots)
	var all []taskcatalog.PCIDevice
	for _, slot := range slots {
		dir := path.Join(pciDevices, slot)
		read := func(name string) string { return attribute(m, path.Join(dir, name)) }
		d := taskcatalog.PCIDevice{
			Address: slot, Class: hex(read("class")), Vendor: hex(read("vendor")), Device: hex(read("device")),
			Driver: linkBase(m, path.Join(dir, "driver")), IOMMUGroup: linkBase(m, path.Join(dir, "iommu_group")),
		}
		// The kernel reports -1 if the firmware named no node.
		if n, e := strconv.Atoi(read("numa_node")); e == nil && n >= 0 {
			d.NUMANode = &n
		}
		if listed(d.Class, d.Vendor) {
			all = append(all, d)
		}
	}
	// The list is bounded, and a tenant can create hundreds of functions of a network adapter: GPUs
	// come first, so that they are never cut off.
	slices.SortStableFunc(all, func(a, b taskcatalog.PCIDevice) int { return rank(a) - rank(b) })
	return all, nil
}

func rank(d taskcatalog.PCIDevice) int {
	if GPUVendor(d) != "" {
		return 0
	}
	return 1
}

func hex(s string) string { return strings.TrimPrefix(s, "0x") }

// linkBase is the last part of the target of a link in sysfs; "" without a link.
func linkBase(m *machine.Machine, name string) string {
	target, err := m.Readlink(name)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// attribute reads a short file of sysfs or procfs; "" if it does not exist or cannot be read, as
// for an attribute that the device does not have.
func attribute(m *machine.Machine, name string) string {
	raw, err := m.ReadFile(name, 64<<10)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// GPUsOnBus lists the PCI addresses of the GPUs by vendor, without those that are given to a guest.
func GPUsOnBus(m *machine.Machine) (map[string][]string, error) {
	all, err := pci(m)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, d := range all {
		if vendor := GPUVendor(d); vendor != "" && d.Driver != "vfio-pci" && d.Driver != "pci-stub" {
			found[vendor] = append(found[vendor], d.Address)
		}
	}
	return found, nil
}
