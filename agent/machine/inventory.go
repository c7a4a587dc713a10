package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Inventory is the hardware that software on the machine sees.
type Inventory struct {
	GPUs, Disks, NICs []string
}

// Inventory looks at PCI, block and network devices in sysfs, and asks
// NVIDIA's driver for uuids where it is loaded.
func (m *Machine) Inventory() (Inventory, error) {
	var inv Inventory
	var err error
	for _, part := range []struct {
		into *[]string
		read func() ([]string, error)
	}{{&inv.GPUs, m.gpus}, {&inv.Disks, m.disks}, {&inv.NICs, m.nics}} {
		if *part.into, err = part.read(); err != nil {
			return inv, fmt.Errorf("cannot list devices: %w", err)
		}
	}
	return inv, nil
}

// text reads a short attribute of sysfs; "" where it is not there, which is
// how sysfs says that a device has none.
func (m *Machine) text(name string) (string, error) {
	raw, err := m.ReadFile(name, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(raw)), err
}

func (m *Machine) gpus() ([]string, error) {
	names, err := m.Names("/sys/bus/pci/devices") // a machine without PCI has none
	if err != nil {
		return nil, err
	}
	var all []string
	for _, slot := range names {
		dir := path.Join("/sys/bus/pci/devices", slot)
		class, err1 := m.text(dir + "/class")
		vendor, err2 := m.text(dir + "/vendor")
		device, err3 := m.text(dir + "/device")
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		// Display controllers, and the processing accelerators among which some
		// vendors' are.
		if strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x12") {
			all = append(all, "pci:"+slot+" "+strings.TrimPrefix(vendor, "0x")+":"+strings.TrimPrefix(device, "0x"))
		}
	}
	slots, err := m.Names("/proc/driver/nvidia/gpus")
	if err != nil {
		return nil, err
	}
	for _, slot := range slots {
		raw, err := m.ReadFile(path.Join("/proc/driver/nvidia/gpus", slot, "information"), 64<<10)
		if err != nil {
			return nil, err
		}
		if uuid := parseNVIDIAUUID(string(raw)); uuid != "" {
			all = append(all, "uuid:"+uuid)
		}
	}
	return all, nil
}

// parseNVIDIAUUID finds the uuid; the driver shows ???? until the GPU was
// first opened.
func parseNVIDIAUUID(text string) string {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); strings.TrimSpace(key) == "GPU UUID" && !strings.Contains(value, "?") {
			return value
		}
	}
	return ""
}

// disks lists whole, writable, fixed disks by serial or world-wide name. A
// disk without either counts by its size.
func (m *Machine) disks() ([]string, error) {
	names, err := m.namesOf("/sys/block")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		dir := path.Join("/sys/block", name)
		if has, err := m.Has(dir + "/device"); err != nil {
			return nil, err
		} else if !has {
			continue // loop, dm, md, ram: not hardware
		}
		attribute := map[string]string{}
		for _, a := range []string{"ro", "removable", "size", "hidden", "wwid", "serial", "device/wwid", "device/serial"} {
			if attribute[a], err = m.text(path.Join(dir, a)); err != nil {
				return nil, err
			}
		}
		if attribute["ro"] == "1" || attribute["removable"] == "1" || attribute["hidden"] == "1" {
			continue
		}
		id := ""
		for _, a := range []string{"wwid", "device/wwid", "serial", "device/serial"} {
			if id == "" && attribute[a] != "" {
				id = strings.Join(strings.Fields(attribute[a]), " ")
			}
		}
		if id == "" {
			id = "no serial, " + attribute["size"] + " sectors"
		}
		all = append(all, id)
	}
	return all, nil
}

// nics lists the MAC addresses of network cards, not of what is made of them.
// A card in a bond shows the bond's address; its own is beside it.
func (m *Machine) nics() ([]string, error) {
	names, err := m.namesOf("/sys/class/net")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		dir := path.Join("/sys/class/net", name)
		if has, err := m.Has(dir + "/device"); err != nil {
			return nil, err
		} else if !has {
			continue
		}
		if has, err := m.Has(dir + "/device/physfn"); err != nil {
			return nil, err
		} else if has {
			continue // a virtual function
		}
		mac, err := m.text(dir + "/bonding_slave/perm_hwaddr")
		if err == nil && mac == "" {
			mac, err = m.text(dir + "/address")
		}
		if err != nil {
			return nil, err
		}
		if mac != "" {
			all = append(all, mac)
		}
	}
	return all, nil
}
