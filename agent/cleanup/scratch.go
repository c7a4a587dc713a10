package cleanup

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// matchScratch returns the paths that match the scratch patterns of node and task. A pattern that
// reaches the system's own directories is refused before anything is changed.
func (c *cleanup) matchScratch(fault func(pattern string, err error)) ([]string, error) {
	var all []string
	for _, pattern := range slices.Concat(c.Host.Scratch, c.params.Scratch) {
		if !path.IsAbs(pattern) || path.Clean(pattern) != pattern || pattern == "/" {
			return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams,
				"cannot use %q as a scratch path: not a plain absolute path or pattern", taskcatalog.Clean(pattern, 200))
		}
		matches, err := c.m.Glob(pattern)
		if errors.Is(err, path.ErrBadPattern) {
			return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot use %q as a scratch path: a malformed pattern",
				taskcatalog.Clean(pattern, 200))
		}
		if err != nil { // a failed directory: the others are cleaned all the same
			fault(pattern, err)
		}
		for _, name := range matches {
			if own := c.systemDirectory(name); own != "" {
				return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot use %q as a scratch path: the pattern reaches %s",
					taskcatalog.Clean(pattern, 200), own)
			}
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// systemDirectory names the directory of the system that a sweep of name would reach, or "".
func (c *cleanup) systemDirectory(name string) string {
	for _, tree := range []string{c.Host.StateDir, c.Host.ConfigDir} {
		if tree != "" && (name == tree || machine.Under(name, tree) || machine.Under(tree, name)) {
			return tree
		}
	}
	return taskcatalog.ScratchReaches(name)
}

// scratchSpace empties the directories that match the scratch patterns, and removes all other
// matches.
func (c *cleanup) scratchSpace(ctx context.Context) error {
	var all error
	for _, name := range c.scratch {
		st, err := c.m.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		switch {
		case err != nil:
			all = errors.Join(all, err)
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			all = errors.Join(all, c.empty(ctx, "scratch", name, c.exceptKnown("scratch/")))
		default:
			all = errors.Join(all, c.remove(ctx, "scratch", name))
		}
	}
	return all
}
