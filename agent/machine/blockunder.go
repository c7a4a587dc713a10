package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// systemPoints are where a machine's own system is mounted.
var systemPoints = []string{"/", "/usr", "/boot", "/boot/efi", "/boot/firmware", "/efi"}

// SystemPoint reports whether a machine's own system is mounted there.
func SystemPoint(point string) bool { return slices.Contains(systemPoints, point) }

// SystemDisks names the disks that the running system lies on: those below its root,
// /usr, /boot and EFI. One that cannot be followed down to a disk is not among them:
// what is said here keeps a disk from an erase, so it says too little rather than too
// much.
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
		case mount.Type == "btrfs": // its number is of no device
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

// btrfsOn are the devices of the one mounted btrfs that the device at source belongs to;
// none where it is not found.
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

// BlockNumbered is the name of the block device major:minor; "" where the number is
// none, as that of a file system without one.
func (m *Machine) BlockNumbered(number string) (string, error) {
	to, err := m.sysLink("/sys/dev/block/" + number)
	if err != nil || to == "" {
		return "", err
	}
	return path.Base(to), nil
}

// sysLink is where a link of sysfs leads, below /sys; "" where there is none.
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

// DisksUnder are the disks that a block device lies on: itself, or that of which it is
// a partition, or those below a mapping or an array.
func (m *Machine) DisksUnder(name string) ([]string, error) { return m.under(name, 0) }

// maxStack bounds how many devices lie on one another.
const maxStack = 16

func (m *Machine) under(name string, depth int) ([]string, error) {
	if depth > maxStack {
		return nil, fmt.Errorf("more than %d block devices lie on one another below %s", maxStack, name)
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

// BtrfsMembers are the devices of mounted btrfs file systems: a mount names at most
// one of each.
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
