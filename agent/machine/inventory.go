package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Inventory is the hardware that software on the machine can see.
type Inventory struct {
	GPUs, Disks, NICs []string
	// UnnamedNICs are network cards without an address of their own.
	UnnamedNICs int
}

// Inventory reads PCI, block and network devices from sysfs, and GPU uuids from NVIDIA's driver if
// the driver is loaded.
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

// text reads a short attribute of sysfs; "" if the file is missing, since sysfs omits attributes
// that a device does not have.
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
		// Display controllers, and processing accelerators: some vendors' GPUs are of this class.
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

// parseNVIDIAUUID finds the uuid. The driver shows ???? until the GPU is opened for the first time.
func parseNVIDIAUUID(text string) string {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); strings.TrimSpace(key) == "GPU UUID" && !strings.Contains(value, "?") {
			return value
		}
	}
	return ""
}

// firmwareArea matches the names of firmware areas, which the kernel shows as disks with a device.
var firmwareArea = lazyregexp.New(`^(mmcblk[0-9]+(boot[0-9]+|rpmb)|mtdblock[0-9]+)$`)

// FirmwareArea reports whether a block device is a place for firmware rather than a disk: a boot or
// RPMB area of an eMMC, which shares the serial of the eMMC itself, or a flash chip of the board.
func FirmwareArea(name string) bool { return firmwareArea.MatchString(name) }

// disks lists whole, writable, fixed disks by serial or world-wide name. A disk with neither is
// listed by its size.
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

// nics lists the addresses of physical network cards. A card in a bond shows the bond's address;
// the permanent address is read from the bond's attributes. Cards without a permanent address are
// counted in unnamed.
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
		case generatedAddress(address, assigned):
			unnamed++
		default:
			all = append(all, CardAddress(address))
		}
	}
	return all, unnamed, nil
}

// generatedAddress reports whether a card's address did not come from the card's maker. assigned is
// the kernel's account of the origin: 0 from the card, 1 drawn at random by the kernel, 2 another
// device's, 3 set by somebody. An address with 1 or 2 changes at a reboot or in a fresh system. An
// address with 3 counts as made if it is locally administered: systemd sets such an address,
// derived from the machine's id, where the kernel drew one. An address of the maker's form that
// somebody set is kept as set.
func generatedAddress(address, assigned string) bool {
	switch assigned {
	case "1", "2":
		return true
	case "3":
		return LocallyAdministered(address)
	}
	return false
}

// LocallyAdministered reports whether a MAC address is marked as not given out by a maker.
func LocallyAdministered(address string) bool {
	first, err := strconv.ParseUint(address[:min(2, len(address))], 16, 8)
	return err == nil && len(address) == len("02:00:00:00:00:00") && first&0x02 != 0
}

// CardAddress returns the part of an address that stays with the card. An InfiniBand address has 20
// bytes, and only the last 8, the port's GUID, belong to the card: a queue number and the subnet
// prefix come before.
func CardAddress(address string) string {
	const whole, guid = len("80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:79:3e:1a"), len("0c:42:a1:03:00:79:3e:1a")
	if len(address) == whole {
		return address[whole-guid:]
	}
	return address
}
