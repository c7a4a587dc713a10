package machine

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoTrim says that a file system or its disk does not support trim.
var ErrNoTrim = errors.New("the file system or its disk does not support trim")

// Trim tells the disk below a mounted file system which blocks are free, so that the disk may
// forget them. Trim returns the number of bytes in those blocks. The disk decides whether it
// forgets.
func (m *Machine) Trim(point string) (int64, error) {
	d, err := m.OpenDirStrict(point)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	span := struct{ start, length, minimum uint64 }{length: math.MaxUint64}
	const fitrim = 0xc0185879
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), fitrim, uintptr(unsafe.Pointer(&span)))
	switch errno {
	case 0:
		return int64(span.length), nil
	case unix.EOPNOTSUPP, unix.ENOTTY, unix.EROFS, unix.ENOSYS:
		return 0, ErrNoTrim
	default:
		return 0, fmt.Errorf("cannot trim %s: %w", point, errno)
	}
}
