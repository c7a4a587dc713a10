package machine

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Detach takes a mount off its mount point, lazily: what still uses it does
// not keep it there. No component of the path may be a link, and no file system is
// asked: the mount may be dead. The connection to the process that serves a FUSE is
// ended first, so that nobody goes on waiting for it.
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
	// By descriptor and last name, so that nobody can swap a directory above.
	err = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", d, base), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("cannot detach %s: %w", point, err)
	}
	return nil
}

// DetachAll takes off the mounts that choose chooses in the mount table, and tells
// each. It goes by the table alone until nothing in it is chosen; a mount that lies
// within another goes with it.
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
		slices.Reverse(chosen) // of several on one point the one on top first
		var failed error
		some := false
		for _, mt := range chosen {
			// One that lies in a FUSE cannot be reached: it goes with what it lies in.
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
	return errors.New("mounts keep coming back")
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
