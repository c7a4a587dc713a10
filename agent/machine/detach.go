package machine

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Detach lazily unmounts a mount point, even while processes use the mount. No component of the
// path may be a link. Detach asks no file system, since the mount may be dead. The connection to a
// FUSE server is aborted first, so that nobody goes on waiting for the server.
func (m *Machine) Detach(point string) error {
	dir, rel := m.at(path.Dir(path.Clean(point)))
	d, err := m.walk(dir, rel, 0)
	if err != nil {
		return fmt.Errorf("cannot detach %s: %w", point, err)
	}
	defer unix.Close(d)
	base := path.Base(point)
	if on, err := openat2(d, base, unix.O_PATH|unix.O_NOFOLLOW, 0, resolveStrictLast); err == nil {
		there, err := deviceOf(on)
		unix.Close(on)
		if err == nil {
			err = m.abortFUSE(there)
		}
		if err != nil {
			return fmt.Errorf("cannot detach %s: %w", point, err)
		}
	}
	// The unmount names a directory descriptor and the last component, so that nobody can swap a
	// directory above.
	err = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", d, base), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("cannot detach %s: %w", point, err)
	}
	return nil
}

// DetachAll detaches the mounts that choose picks from the mount table, and calls detached for
// each. It reads the table again until choose picks nothing. A mount inside a detached mount goes
// with the outer mount.
func (m *Machine) DetachAll(choose func([]Mount) []Mount, detached func(Mount)) error {
	const passes = 16
	for range passes {
		all, err := m.Mounts()
		if err != nil {
			return err
		}
		chosen := choose(all)
		if len(chosen) == 0 {
			return nil
		}
		slices.Reverse(chosen) // of several mounts on one point, the topmost first
		var failed error
		some := false
		for _, mt := range chosen {
			// A mount inside a FUSE cannot be reached: it goes with the FUSE.
			if err := m.Detach(mt.Point); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			some = true
			detached(mt)
		}
		if !some {
			return failed
		}
	}
	return errors.New("new mounts keep appearing")
}

// Under reports whether the path name is below the directory top, and is not top itself.
func Under(name, top string) bool {
	return name != top && strings.HasPrefix(name, strings.TrimSuffix(top, "/")+"/")
}

// Covering returns the mount on which a path lies: the innermost mount at or above the path, and
// the topmost of several mounts on one point.
func Covering(mounts []Mount, name string) (Mount, bool) {
	best, found := Mount{}, false
	for _, mt := range mounts {
		if (mt.Point == name || Under(name, mt.Point)) && len(mt.Point) >= len(best.Point) {
			best, found = mt, true
		}
	}
	return best, found
}

// Inside lists the mounts below top, the innermost first: the order in which they are detached.
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

// Local reports whether files on the mount stay on this machine.
func (mt Mount) Local() bool { return slices.Contains(localTypes, mt.Type) }
