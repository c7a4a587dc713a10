package validate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// tree lists, sorted, all entries below tops except directories, on every local file system mounted
// there. A top that is a link or a file is listed itself; a missing top is empty.
func (v *validation) tree(ctx context.Context, tops []string, skip func(name string, mode uint32) bool) (names []string, err error) {
	err = listUntilStable(ctx, func() (moved string, err error) {
		names, moved, err = v.treeOnce(ctx, tops, skip)
		return moved, err
	})
	return names, err
}

// treeOnce is a single attempt of tree; moved names a path that changed meanwhile.
func (v *validation) treeOnce(
	ctx context.Context, tops []string, skip func(name string, mode uint32) bool,
) (names []string, moved string, err error) {
	var within []string
	var failed error
	since := machine.ChangeClock()
	changed := func(p string) { moved = changedMeanwhile(p) }
	for tops := slices.Clone(tops); len(tops) > 0; {
		top := tops[0]
		tops, within = tops[1:], nil
		t := machine.Tree{
			Look: func(e *machine.Entry) {
				if !e.IsDir() {
					if name := e.Path(); !skip(name, e.Stat.Mode) && len(names) <= maxTree {
						names = append(names, name)
					}
				}
			},
			Enter: func(e *machine.Entry) bool { return !skip(e.Path(), e.Stat.Mode) },
			Gone:  changed, Changed: changed, Since: since,
			Fault: func(p string, err error) {
				switch {
				case errors.Is(err, machine.ErrMount):
					within = append(within, p)
				case failed == nil:
					failed = fmt.Errorf("cannot look at %s: %w", p, err)
				}
			},
		}
		switch _, err := v.m.Empty(ctx, top, t); {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
			names = append(names, top)
		default:
			return nil, "", err
		}
		if len(within) == 0 {
			continue
		}
		mounts, err := v.m.Mounts()
		if err != nil {
			return nil, "", err
		}
		for _, p := range within {
			if mt, ok := machine.Covering(mounts, p); ok && mt.Local() {
				tops = append(tops, p)
			}
		}
	}
	switch {
	case moved != "":
		return nil, moved, nil
	case failed == nil:
		failed = v.triggered(tops, skip)
	}
	if failed != nil {
		return nil, "", failed
	}
	if len(names) > maxTree {
		return nil, "", fmt.Errorf("more than %d files to compare", maxTree)
	}
	slices.Sort(names)
	return slices.Compact(names), "", nil
}

// triggered refuses an automount below tops with nothing mounted on it: nobody has seen the file
// system behind it.
func (v *validation) triggered(tops []string, skip func(name string, mode uint32) bool) error {
	mounts, err := v.m.Mounts()
	if err != nil {
		return nil // lookMounts reports the error; findings here still count
	}
	for _, mt := range mounts {
		if on, _ := machine.Covering(mounts, mt.Point); mt.Type != "autofs" || on != mt {
			continue
		}
		for _, top := range tops {
			dir := mt.Point
			for machine.Under(dir, top) && !skip(dir, unix.S_IFDIR) {
				dir = path.Dir(dir)
			}
			if dir == top {
				return fmt.Errorf("cannot look at %s: an automount point without a mount", clean(mt.Point))
			}
		}
	}
	return nil
}

// maxTree bounds the watched files of a look.
const maxTree = 300_000
