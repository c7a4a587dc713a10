package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// systemPoints are the mount points of a machine's own system.
var systemPoints = []string{"/", "/usr", "/boot", "/boot/efi", "/boot/firmware", "/efi"}

// SystemPoint reports whether point is a mount point of a machine's own system.
func SystemPoint(point string) bool { return slices.Contains(systemPoints, point) }

// SystemDisks names the disks of the running system: the disks below /, /usr, /boot and EFI. A
// mount that cannot be traced to a disk adds none. The list protects its disks from an erase, so it
// names too few disks rather than too many.
func (m *Machine) SystemDisks() ([]string, error) {
	mounts, err := m.Mounts()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, mount := range mounts {
		if !SystemPoint(mount.Point) {
			continue
		}
		var devices []string
		name, err := m.BlockNumbered(mount.Device)
		switch {
		case err != nil:
			return nil, err
		case name != "":
			devices = []string{name}
		case mount.Type == "btrfs": // the device number of a btrfs is not that of a block device
			if devices, err = m.btrfsOn(mount.Source); err != nil {
				return nil, err
			}
		}
		for _, device := range devices {
			below, err := m.DisksUnder(device)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// btrfsOn lists the devices of the mounted btrfs to which the device at source belongs; none if no
// mounted btrfs has the device.
func (m *Machine) btrfsOn(source string) ([]string, error) {
	name := path.Base(source)
	if to, err := m.Readlink(source); err == nil {
		name = path.Base(to) // /dev/mapper/root → ../dm-0
	}
	systems, err := m.Names(btrfsSystems)
	if err != nil {
		return nil, err
	}
	for _, uuid := range systems {
		members, err := m.Names(path.Join(btrfsSystems, uuid, "devices"))
		if err != nil {
			return nil, err
		}
		if slices.Contains(members, name) {
			return members, nil
		}
	}
	return nil, nil
}

const btrfsSystems = "/sys/fs/btrfs"

// BlockNumbered names the block device with the number major:minor; "" if no block device has the
// number, such as the number of a file system without a device.
func (m *Machine) BlockNumbered(number string) (string, error) {
	to, err := m.sysLink("/sys/dev/block/" + number)
	if err != nil || to == "" {
		return "", err
	}
	return path.Base(to), nil
}

// sysLink returns the target of a link in sysfs, as a path below /sys; "" if there is no link.
func (m *Machine) sysLink(name string) (string, error) {
	to, err := m.Readlink(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return path.Join("/", path.Dir(strings.TrimPrefix(name, "/sys/")), to), nil
}

// DisksUnder lists the disks below a block device: the device itself, the disk of a partition, or
// the disks below a mapping or an array.
func (m *Machine) DisksUnder(name string) ([]string, error) { return m.under(name, 0) }

// maxStack bounds how many devices lie on one another.
const maxStack = 16

func (m *Machine) under(name string, depth int) ([]string, error) {
	if depth > maxStack {
		return nil, fmt.Errorf("more than %d block devices are stacked below %s", maxStack, name)
	}
	dir := path.Join("/sys/class/block", name)
	slaves, err := m.Names(dir + "/slaves")
	if err != nil {
		return nil, err
	}
	if len(slaves) > 0 {
		var all []string
		for _, slave := range slaves {
			below, err := m.under(slave, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
		}
		return all, nil
	}
	where, err1 := m.sysLink(dir)
	partition, err2 := m.text(dir + "/partition")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if partition != "" {
		name = path.Base(path.Dir(where))
	}
	return []string{name}, nil
}

// BtrfsMembers lists the devices of all mounted btrfs file systems. A mount names at most one
// device of each file system.
func (m *Machine) BtrfsMembers() ([]string, error) {
	systems, err := m.Names(btrfsSystems)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, uuid := range systems {
		members, err := m.Names(path.Join(btrfsSystems, uuid, "devices"))
		if err != nil {
			return nil, err
		}
		all = append(all, members...)
	}
	return all, nil
}
