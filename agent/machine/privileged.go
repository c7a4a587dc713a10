package machine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Privileged reports whether a file grants a caller more rights than the caller has: by set-uid,
// set-gid or file capabilities. what describes the grant.
func (e *Entry) Privileged() (yes bool, what string) {
	if !e.IsRegular() || e.Stat.Mode&0o111 == 0 || e.mounted { // a mount point is looked at as a mount
		return false, ""
	}
	if e.Stat.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return true, fmt.Sprintf("mode %04o", e.Stat.Mode&0o7777)
	}
	// The name is a single component of a directory held open, and the call follows no link: nobody
	// can redirect the call.
	var buf [64]byte
	n, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", e.dir, e.Name), "security.capability", buf[:])
	if errors.Is(err, unix.ERANGE) || err == nil && n > 0 {
		return true, fmt.Sprintf("capabilities %x", buf[:max(n, 0)])
	}
	return false, ""
}
