package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// IsDevice returns nil if /dev/NAME is a device of the type mode (unix.S_IFBLK or S_IFCHR) with the
// number (major:minor) given by the kernel, and an error otherwise.
func (m *Machine) IsDevice(name, number string, mode uint32) error {
	st, err := m.Lstat("/dev/" + name)
	if err != nil {
		return err
	}
	return isDevice(name, number, mode, st)
}

func isDevice(name, number string, mode uint32, st unix.Stat_t) error {
	is := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	if st.Mode&unix.S_IFMT != mode || is != number {
		return fmt.Errorf("/dev/%s is not device %s", name, number)
	}
	return nil
}

// OpenBlock opens a block device for reading and writing, exclusively and past the kernel's cache.
// Until the file is closed, nobody else can mount the device, add it to an array or open it
// exclusively; unix.EBUSY means that somebody else holds the device. The node in /dev is opened
// only if its device number is number.
func (m *Machine) OpenBlock(name, number string) (*os.File, error) {
	fd, err := openat2(int(m.root.Fd()), relative("/dev/"+name), unix.O_PATH|unix.O_NOFOLLOW, 0, resolveStrict)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/dev/" + name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if err := isDevice(name, number, unix.S_IFBLK, st); err != nil {
		return nil, err
	}
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDWR|unix.O_EXCL|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if now, err := Number(f); err != nil || now != number {
		return nil, errors.Join(errForged, err, f.Close())
	}
	return f, nil
}

// Number returns the number (major:minor) of the open device.
func Number(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), nil
}

// BlockSize returns the size of the open block device in bytes, as the kernel reports it now.
func BlockSize(f *os.File) (int64, error) { return f.Seek(0, 2) }
