package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Inventory is the hardware that software on the machine sees.
type Inventory struct {
	GPUs, Disks, NICs []string
	// UnnamedNICs are network cards without an address of their own.
	UnnamedNICs int
}

// Inventory looks at PCI, block and network devices in sysfs, and asks
// NVIDIA's driver for uuids where it is loaded.
func (m *Machine) Inventory() (Inventory, error) {
	var inv Inventory
	var err error
	for _, part := range []struct {
		into *[]string
		read func() ([]string, error)
	}{{&inv.GPUs, m.gpus}, {&inv.Disks, m.disks}} {
		if *part.into, err = part.read(); err != nil {
			return inv, fmt.Errorf("cannot list devices: %w", err)
		}
	}
	if inv.NICs, inv.UnnamedNICs, err = m.nics(); err != nil {
		return inv, fmt.Errorf("cannot list devices: %w", err)
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

// firmwareArea is by its name, as the kernel shows it like a disk with a device of its own.
var firmwareArea = regexp.MustCompile(`^(mmcblk[0-9]+(boot[0-9]+|rpmb)|mtdblock[0-9]+)$`)

// FirmwareArea reports whether a block device is no disk but a place for firmware: a boot or
// RPMB area of an eMMC, which goes by the serial of the eMMC itself, or a flash chip of the
// board's.
func FirmwareArea(name string) bool { return firmwareArea.MatchString(name) }

// disks lists whole, writable, fixed disks by serial or world-wide name. A
// disk without either counts by its size.
func (m *Machine) disks() ([]string, error) {
	names, err := m.namesOf("/sys/block")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		if FirmwareArea(name) {
			continue
		}
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

// nics lists the addresses of network cards, not of what is made of them. A card in a
// bond shows the bond's address; its own is beside it. Cards that show no address of
// their own are counted.
func (m *Machine) nics() (all []string, unnamed int, err error) {
	names, err := m.namesOf("/sys/class/net")
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		dir := path.Join("/sys/class/net", name)
		if has, err := m.Has(dir + "/device"); err != nil {
			return nil, 0, err
		} else if !has {
			continue
		}
		if has, err := m.Has(dir + "/device/physfn"); err != nil {
			return nil, 0, err
		} else if has {
			continue // a virtual function
		}
		bonded, err1 := m.text(dir + "/bonding_slave/perm_hwaddr")
		address, err2 := m.text(dir + "/address")
		assigned, err3 := m.text(dir + "/addr_assign_type")
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, 0, err
		}
		switch {
		case bonded != "":
			all = append(all, CardAddress(bonded))
		case address == "":
		case made(address, assigned):
			unnamed++
		default:
			all = append(all, CardAddress(address))
		}
	}
	return all, unnamed, nil
}

// made reports whether a card's address is none that it has from its maker, by how the
// kernel says that it came by it: 0 the card told it, 1 the kernel drew it at random, 2 it
// is another device's, 3 somebody set it. Such an address is another one after a reboot or
// in a fresh system: systemd sets a locally administered one, made of the machine's id,
// where the kernel drew one. One of the maker's form that somebody set is as it was set.
func made(address, assigned string) bool {
	switch assigned {
	case "1", "2":
		return true
	case "3":
		return LocallyAdministered(address)
	}
	return false
}

// LocallyAdministered reports whether a MAC address says that no maker gave it out.
func LocallyAdministered(address string) bool {
	first, err := strconv.ParseUint(address[:min(2, len(address))], 16, 8)
	return err == nil && len(address) == len("02:00:00:00:00:00") && first&0x02 != 0
}

// CardAddress is the part of an address that stays with the card. That of InfiniBand is 20
// bytes, and only the last 8, the port's GUID, are the card's: the number of a queue and
// the prefix of the subnet are before them.
func CardAddress(address string) string {
	const whole, guid = len("80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:79:3e:1a"), len("0c:42:a1:03:00:79:3e:1a")
	if len(address) == whole {
		return address[whole-guid:]
	}
	return address
}
