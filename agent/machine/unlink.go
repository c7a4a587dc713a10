package machine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// unlink removes a name. If the kernel forbids the removal, the immutable and append-only
// attributes of the entry and its directory are cleared first.
func unlink(dir int, name string, flags int) error {
	err := unix.Unlinkat(dir, name, flags)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	clearAttributes(dir)
	fd, openErr := openat2(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	if openErr == nil {
		defer unix.Close(fd)
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && (st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFDIR) {
			if again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
				clearAttributes(again)
				unix.Close(again)
			}
		}
	}
	return unix.Unlinkat(dir, name, flags)
}

// Attributes of linux/fs.h.
const (
	attrImmutable  = 0x10
	attrAppendOnly = 0x20
)

func clearAttributes(fd int) {
	attrs, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && attrs&(attrImmutable|attrAppendOnly) != 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, attrs&^(attrImmutable|attrAppendOnly))
	}
}

func mountError(err error) error {
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EBUSY) {
		return ErrMount
	}
	return err
}
