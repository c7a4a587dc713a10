package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetUpDevice is a block device that software set up.
type SetUpDevice struct {
	Object string   // loop//path/of/file, dm/vg-lv
	Name   string   // in /sys/block: loop0, dm-1
	Number string   // major:minor
	Slaves []string // the devices below
	Held   bool     // another device lies on it
}

// SetUpDevices lists the block devices that software set up: loop with its backing file, dm, md,
// nbd, zram. Unused devices, such as the eight loop devices of most machines, are left out.
func (m *Machine) SetUpDevices() ([]SetUpDevice, error) {
	names, err := m.namesOf("/sys/block")
	if err != nil {
		return nil, fmt.Errorf("cannot list block devices: %w", err)
	}
	var all []SetUpDevice
	for _, name := range names {
		object, err := m.blockObject(name)
		if err != nil {
			return nil, err
		}
		if object == "" {
			continue
		}
		d := SetUpDevice{Object: object, Name: name}
		if d.Number, err = m.text(path.Join("/sys/block", name, "dev")); err != nil {
			return nil, err
		}
		holders, err := m.Names(path.Join("/sys/block", name, "holders"))
		if err != nil {
			return nil, err
		}
		if d.Slaves, err = m.Names(path.Join("/sys/block", name, "slaves")); err != nil {
			return nil, err
		}
		d.Held = len(holders) > 0
		all = append(all, d)
	}
	return all, nil
}

// ioctls of linux/loop.h, raid/md_u.h, linux/nbd.h, linux/dm-ioctl.h.
const (
	loopClearFD   = 0x4c01
	mdStopArray   = 0x932
	nbdDisconnect = 0xab08
	nbdClearSock  = 0xab04
	dmRemove      = 0xc138fd04
	dmSize        = 312
)

// RemoveDevice removes a block device that software set up. The devices and files below keep their
// content.
func (m *Machine) RemoveDevice(d SetUpDevice) error {
	kind, name, _ := strings.Cut(d.Object, "/")
	err := func() error {
		switch kind {
		case "loop":
			return m.blockIoctl(d, loopClearFD)
		case "md":
			return m.blockIoctl(d, mdStopArray)
		case "nbd":
			return errors.Join(m.blockIoctl(d, nbdDisconnect), m.blockIoctl(d, nbdClearSock))
		case "dm":
			return m.removeMapping(name)
		case "zram":
			return m.writeSystem(path.Join("/sys/block", d.Name, "reset"), "1")
		}
		return errors.New("unknown kind of device")
	}()
	if err != nil {
		return fmt.Errorf("cannot remove %s: %w", d.Name, err)
	}
	return nil
}

// blockIoctl sends an ioctl to the device itself. The node in /dev is used only if its number is
// the kernel's number of the device: a tenant with root can replace the node.
func (m *Machine) blockIoctl(d SetUpDevice, request uint) error {
	fd, err := openat2(int(m.root.Fd()), relative("/dev/"+d.Name), unix.O_PATH|unix.O_NOFOLLOW, 0, resolveStrict)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	number := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	if st.Mode&unix.S_IFMT != unix.S_IFBLK || number != d.Number {
		return fmt.Errorf("/dev/%s is not block device %s", d.Name, d.Number)
	}
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetInt(int(f.Fd()), request, 0)
}

func (m *Machine) removeMapping(name string) error {
	if len(name) > 127 {
		return unix.ENAMETOOLONG
	}
	fd, err := openat2(int(m.root.Fd()), "dev/mapper/control", unix.O_RDWR, 0, resolveStrict)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return errors.New("/dev/mapper/control is not a device")
	}
	var request [dmSize]byte
	binary.NativeEndian.PutUint32(request[0:], 4)       // version of the interface
	binary.NativeEndian.PutUint32(request[12:], dmSize) // data_size
	binary.NativeEndian.PutUint32(request[16:], dmSize) // data_start
	copy(request[48:175], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), dmRemove, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// writeSystem writes a value to a file of sysfs.
func (m *Machine) writeSystem(name, value string) error {
	dir, rel := m.at(name)
	fd, err := openat2(dir, rel, unix.O_WRONLY, 0, resolveTrusted)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}
