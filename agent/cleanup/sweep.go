package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// empty sweeps the content of a directory and keeps the directory. A missing directory is clean. An
// entry that t.Remove does not choose stays.
func (c *cleanup) empty(ctx context.Context, check, top string, t machine.Tree) error {
	return c.sweep(ctx, check, top, taskcatalog.ActionEmptied, t, c.m.Empty)
}

// remove sweeps the path itself.
func (c *cleanup) remove(ctx context.Context, check, name string) error {
	return c.sweep(ctx, check, name, taskcatalog.ActionRemoved, machine.Tree{Remove: machine.AllEntries}, c.m.RemoveAll)
}

func (c *cleanup) sweep(
	ctx context.Context, check, top, action string, t machine.Tree,
	do func(context.Context, string, machine.Tree) (machine.Tally, error),
) error {
	bare := c.detachTenantMounts(top) // before the look: a mount there may never answer
	if _, err := c.m.Lstat(top); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err := cmp.Or(bare, err); err != nil {
		return fmt.Errorf("%s: %w", top, err)
	}
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	var faults int
	t.Fault = func(p string, err error) {
		known := errors.Is(err, machine.ErrMount) && slices.ContainsFunc(mounts, func(mt machine.Mount) bool { return mt.Point == p })
		if known && action == taskcatalog.ActionEmptied {
			c.skip(check, p, "a mount of the baseline")
			return
		}
		faults++
		c.failed(check, p, err)
	}
	t.Kept = c.reportKept(check)
	tally, err := do(ctx, top, t)
	c.result.FilesRemoved += tally.Files + tally.Dirs
	c.result.BytesRemoved += tally.Bytes
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		c.result.Failed++
		c.dispose(check, top, taskcatalog.ActionFailed, tally, err.Error())
	case faults > 0:
		c.dispose(check, top, taskcatalog.ActionFailed, tally, fmt.Sprintf("%d paths could not be handled", faults))
	case tally.Files+tally.Dirs > 0:
		c.dispose(check, top, action, tally, "")
	}
	return ctx.Err()
}

// reportKept reports a directory that should go but holds an entry that stays.
func (c *cleanup) reportKept(check string) func(*machine.Entry) {
	return func(e *machine.Entry) {
		c.failed(check, e.Path(),
			fmt.Errorf("a directory of uid %d holds an entry that must stay (move that entry out of the directory, then run the cleanup again)", e.Stat.Uid))
	}
}

// emptyAny is empty for the kernel's own file systems, which hold objects rather than files on a
// disk.
func (c *cleanup) emptyAny(ctx context.Context, check, top string, t machine.Tree) error {
	t.Fault, t.Kept = func(p string, err error) { c.failed(check, p, err) }, c.reportKept(check)
	tally, err := c.m.Empty(ctx, top, t)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", top, err)
	}
	c.result.FilesRemoved += tally.Files + tally.Dirs
	c.result.BytesRemoved += tally.Bytes
	if tally.Files+tally.Dirs > 0 {
		c.dispose(check, top, taskcatalog.ActionEmptied, tally, "")
	}
	return nil
}

// exceptKnown removes everything except the baseline's objects of a kind, with their content. The
// objects are entries of the top directory, or of lost+found in the top directory.
func (c *cleanup) exceptKnown(kind string) machine.Tree {
	kept := func(e *machine.Entry) bool {
		found := e.Depth() == 2 && path.Base(path.Dir(e.Path())) == "lost+found"
		return (e.Depth() == 1 || found) && c.known.Object(kind+e.Path())
	}
	return machine.Tree{
		Remove: func(e *machine.Entry) bool { return !kept(e) && !e.LostAndFound() },
		Enter:  func(e *machine.Entry) bool { return !kept(e) },
	}
}
