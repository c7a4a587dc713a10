package machine

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Detach takes a mount off its mount point, lazily: what still uses it does
// not keep it there. No component of the path may be a link.
func (m *Machine) Detach(point string) error {
	d, err := m.OpenDirStrict(path.Dir(path.Clean(point)))
	if err != nil {
		return err
	}
	defer d.Close()
	// By descriptor and last name, so that nobody can swap a directory above.
	err = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), path.Base(point)), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("cannot detach %s: %w", point, err)
	}
	return nil
}

// Under reports whether the path name is below the directory top, not top
// itself.
func Under(name, top string) bool {
	return name != top && strings.HasPrefix(name, strings.TrimSuffix(top, "/")+"/")
}

// Covering is the mount that a path lies on: of those at or above it the
// innermost, of several on one point the one on top.
func Covering(mounts []Mount, name string) (Mount, bool) {
	best, found := Mount{}, false
	for _, mt := range mounts {
		if (mt.Point == name || Under(name, mt.Point)) && len(mt.Point) >= len(best.Point) {
			best, found = mt, true
		}
	}
	return best, found
}

// Inside lists the mounts below top, the innermost first, as they have to be
// taken off.
func Inside(mounts []Mount, top string) []Mount {
	var inner []Mount
	for _, mt := range mounts {
		if Under(mt.Point, top) {
			inner = append(inner, mt)
		}
	}
	slices.Reverse(inner)
	slices.SortStableFunc(inner, func(a, b Mount) int { return strings.Count(b.Point, "/") - strings.Count(a.Point, "/") })
	return inner
}

// Local reports whether what is on the mount stays on this machine.
func (mt Mount) Local() bool { return slices.Contains(localTypes, mt.Type) }
