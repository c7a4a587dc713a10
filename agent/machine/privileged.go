package machine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Privileged reports whether a file gives whoever runs it more than they have:
// by set-uid, set-gid or file capabilities. What says which.
func (e *Entry) Privileged() (yes bool, what string) {
	if !e.IsRegular() || e.Stat.Mode&0o111 == 0 || e.mounted { // a mount is looked at as one
		return false, ""
	}
	if e.Stat.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return true, fmt.Sprintf("mode %04o", e.Stat.Mode&0o7777)
	}
	// The name is a single component of a directory held open, and the call
	// follows no link: nobody can lead it elsewhere.
	var buf [64]byte
	n, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", e.dir, e.Name), "security.capability", buf[:])
	if errors.Is(err, unix.ERANGE) || err == nil && n > 0 {
		return true, fmt.Sprintf("capabilities %x", buf[:max(n, 0)])
	}
	return false, ""
}
