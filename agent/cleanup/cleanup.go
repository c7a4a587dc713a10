package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// A cleanup empties the places that a tenant could have written to. It continues past failures. It
// writes nothing of its own to a disk, so that a full disk does not stop it. It reports the result
// for each path.
type cleanup struct {
	*host.Run
	m        *machine.Machine
	params   *taskcatalog.StorageCleanupParams
	known    host.Known
	accounts []host.Account
	scratch  []string // the paths that match the patterns
	result   taskcatalog.StorageCleanupResult
	report   taskcatalog.Report
}

// Step is one step of a cleanup, named after its row in the table of checks.
type Step struct {
	Check string
	do    func(*cleanup, context.Context) error
}

// Steps are the steps of a cleanup in order. Running programs end first, so that they do not write
// removed files again. A swap file cannot be removed while it is in use. Devices are removed once
// nothing is mounted from them.
var Steps = []Step{
	{"containers", (*cleanup).containers},
	{"swap", (*cleanup).swap},
	{"temporary", (*cleanup).temporary},
	{"ipc", (*cleanup).ipc},
	{"scratch", (*cleanup).scratchSpace},
	{"homes", (*cleanup).homes},
	{"dumps", (*cleanup).dumps},
	{"hugepages", (*cleanup).hugepages},
	{"namespaces", (*cleanup).namespaces},
	{"block_devices", (*cleanup).blockDevices},
	{"free_blocks", (*cleanup).trim},
}

// rootFull is the free space, in bytes, below which a root file system counts as full. Some space
// is never free: ext4 lets nobody have its last 16 MiB.
const rootFull = 32 << 20

// Clean carries out node.storage_cleanup. Codes: bad_params, capability_missing,
// storage_not_fully_cleaned.
func Clean(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	c := &cleanup{Run: r, m: r.Host.Machine, params: r.Params.(*taskcatalog.StorageCleanupParams)}
	c.known = host.Known{Base: c.params.Baseline}
	if c.params.Scope != "local" {
		return nil, c.report, taskcatalog.Errorf(taskcatalog.CodeCapabilityMissing, "cannot clean scope %s: this node has no weka client that the agent knows (use scope local)", c.params.Scope)
	}
	var err error
	if c.accounts, err = r.Host.Accounts.List(); err != nil {
		return nil, c.report, err
	}
	// A pattern is refused before anything is changed. A FUSE in the way of a pattern is detached
	// first, and the pattern is matched again afterwards.
	if _, err := c.matchScratch(func(string, error) {}); err != nil {
		return nil, c.report, err
	}
	if err := c.served(); err != nil {
		c.failed("mounts", "", err)
	}
	fault := func(pattern string, err error) { c.failed("scratch", pattern, err) }
	if c.scratch, err = c.matchScratch(fault); err != nil {
		return nil, c.report, err
	}
	if space, err := c.m.Space("/"); err == nil {
		c.result.RootWasFull = space.Free < rootFull
	}
	for i, s := range Steps {
		r.Step(s.Check, i+1, len(Steps))
		if err := s.do(c, ctx); err != nil && ctx.Err() == nil {
			c.failed(s.Check, "", err)
		}
		if ctx.Err() != nil {
			return &c.result, c.report, context.Cause(ctx)
		}
	}
	if c.result.Failed > 0 {
		return &c.result, c.report, taskcatalog.Errorf("storage_not_fully_cleaned", "cannot clean %d of the node's paths and objects (see the dispositions, mend, and run it again)", c.result.Failed)
	}
	return &c.result, c.report, nil
}

// Probe reports after a crash which services were left stopped.
func Probe(ctx context.Context, h *host.Host, _ *taskcatalog.Task) string {
	var stopped []string
	for _, unit := range containerUnits {
		if active, err := h.Systemd.Active(ctx, unit); err == nil && !active && enabled(h.Machine, unit) {
			stopped = append(stopped, unit)
		}
	}
	if len(stopped) == 0 {
		return "no container service was left stopped; run it again"
	}
	return "left stopped: " + strings.Join(stopped, ", ") + "; run it again"
}

func (c *cleanup) dispose(check, name, action string, t machine.Tally, reason string) {
	c.report.Dispose(taskcatalog.Disposition{Check: check, Path: name, Action: action, Files: t.Files + t.Dirs, Bytes: t.Bytes, Reason: reason})
}

func (c *cleanup) failed(check, name string, err error) {
	c.result.Failed++
	c.dispose(check, name, taskcatalog.ActionFailed, machine.Tally{}, err.Error())
}

// skip records a path that was left alone on purpose.
func (c *cleanup) skip(check, name, reason string) {
	c.dispose(check, name, taskcatalog.ActionSkipped, machine.Tally{}, reason)
}

// empty sweeps the content of a directory and keeps the directory. A missing directory is clean. An
// entry that t.Remove does not choose stays.
func (c *cleanup) empty(ctx context.Context, check, top string, t machine.Tree) error {
	return c.sweep(ctx, check, top, taskcatalog.ActionEmptied, t, c.m.Empty)
}

// remove sweeps the path itself.
func (c *cleanup) remove(ctx context.Context, check, name string) error {
	return c.sweep(ctx, check, name, taskcatalog.ActionRemoved, machine.Tree{Remove: machine.Everything}, c.m.RemoveAll)
}

func (c *cleanup) sweep(ctx context.Context, check, top, action string, t machine.Tree,
	do func(context.Context, string, machine.Tree) (machine.Tally, error),
) error {
	bare := c.bare(top) // before the look: a mount there may never answer
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
	t.Kept = c.kept(check)
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

// kept reports a directory that should go but holds an entry that stays.
func (c *cleanup) kept(check string) func(*machine.Entry) {
	return func(e *machine.Entry) {
		c.failed(check, e.Path(), fmt.Errorf("a directory of uid %d that holds an entry which is to stay (move that entry out of it, then run it again)", e.Stat.Uid))
	}
}

// bare detaches a tenant's mounts on, above or below a path before the path is swept: a sweep must
// neither empty /etc because /etc was bound to /tmp, nor leave files that a mount covers.
func (c *cleanup) bare(top string) error {
	if err := c.detach(func(all, strangers []machine.Mount) []machine.Mount {
		on, _ := machine.Covering(all, top)
		return slices.DeleteFunc(strangers, func(mt machine.Mount) bool { return mt != on && !machine.Under(mt.Point, top) })
	}); err != nil {
		return err
	}
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	on, ok := machine.Covering(mounts, top)
	switch {
	case !ok:
		return errors.New("on no mount that is known")
	case slices.Contains(c.known.Foreign(mounts), on):
		return errors.New("the root file system is not the baseline's")
	case !on.Local():
		return fmt.Errorf("on a file system of type %s, which is not this machine's own", taskcatalog.Clean(on.Type, 32))
	}
	return nil
}

// detach detaches the mounts that the baseline does not have and choose picks, except for the root.
func (c *cleanup) detach(choose func(all, strangers []machine.Mount) []machine.Mount) error {
	return c.m.DetachAll(func(all []machine.Mount) []machine.Mount {
		return slices.DeleteFunc(choose(all, c.known.Foreign(all)), func(mt machine.Mount) bool { return mt.Point == "/" })
	}, func(mt machine.Mount) {
		c.dispose("mounts", mt.Point, taskcatalog.ActionRemoved, machine.Tally{}, "a mount of type "+mt.Type+" that the baseline does not have was detached")
	})
}

// served detaches every FUSE that the baseline does not have, anywhere on the machine: a FUSE may
// be dead or never answer, so a cleanup detaches them before it looks at anything.
func (c *cleanup) served() error {
	if c.known.Base == nil {
		c.skip("mounts", "/", "without a baseline nobody knows which FUSE is the node's")
		return nil
	}
	return c.detach(func(_, strangers []machine.Mount) []machine.Mount {
		return slices.DeleteFunc(strangers, func(mt machine.Mount) bool { return !mt.Served() })
	})
}

// matchScratch returns the paths that match the scratch patterns of node and task. A pattern that
// reaches the system's own directories is refused before anything is changed.
func (c *cleanup) matchScratch(fault func(pattern string, err error)) ([]string, error) {
	var all []string
	for _, pattern := range slices.Concat(c.Host.Scratch, c.params.Scratch) {
		if !path.IsAbs(pattern) || path.Clean(pattern) != pattern || pattern == "/" {
			return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot take %q for scratch: not a plain absolute path or pattern", taskcatalog.Clean(pattern, 200))
		}
		matches, err := c.m.Glob(pattern)
		if errors.Is(err, path.ErrBadPattern) {
			return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot take %q for scratch: a bad pattern", taskcatalog.Clean(pattern, 200))
		}
		if err != nil { // a failed directory: the others are cleaned all the same
			fault(pattern, err)
		}
		for _, name := range matches {
			if own := c.systemsOwn(name); own != "" {
				return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot take %q for scratch: it reaches %s", taskcatalog.Clean(pattern, 200), own)
			}
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// systemsOwn names the directory of the system that a sweep of name would reach, or "".
func (c *cleanup) systemsOwn(name string) string {
	for _, tree := range []string{c.Host.StateDir, c.Host.ConfigDir} {
		if tree != "" && (name == tree || machine.Under(name, tree) || machine.Under(tree, name)) {
			return tree
		}
	}
	return taskcatalog.ScratchReaches(name)
}

// MendsFile returns the action that removes a file of an unknown owner.
func MendsFile(name string) string {
	for _, dir := range []string{"/tmp/", "/var/tmp/", "/dev/shm/", "/home/", "/var/crash/"} {
		if strings.HasPrefix(name, dir) {
			return taskcatalog.ActionStorageCleanup
		}
	}
	return taskcatalog.ActionReimage
}
