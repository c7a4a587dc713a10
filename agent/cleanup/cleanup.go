package cleanup

import (
	"context"
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
		return nil, c.report, taskcatalog.Errorf(taskcatalog.CodeCapabilityMissing,
			"cannot clean scope %s: the agent finds no weka client on this node (use scope local)", c.params.Scope)
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
	if err := c.detachFUSE(); err != nil {
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
		return &c.result, c.report, taskcatalog.Errorf("storage_not_fully_cleaned",
			"cannot clean %d of the node's paths and objects (repair what the dispositions list, then run the cleanup again)",
			c.result.Failed)
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
		return "the cleanup left no container service stopped; run the cleanup again"
	}
	return "left stopped: " + strings.Join(stopped, ", ") + "; run the cleanup again"
}

func (c *cleanup) dispose(check, name, action string, t machine.Tally, reason string) {
	c.report.Dispose(taskcatalog.Disposition{
		Check: check, Path: name, Action: action, Files: t.Files + t.Dirs, Bytes: t.Bytes,
		Reason: reason,
	})
}

func (c *cleanup) failed(check, name string, err error) {
	c.result.Failed++
	c.dispose(check, name, taskcatalog.ActionFailed, machine.Tally{}, err.Error())
}

// skip records a path that was left alone on purpose.
func (c *cleanup) skip(check, name, reason string) {
	c.dispose(check, name, taskcatalog.ActionSkipped, machine.Tally{}, reason)
}

// FileRemedy returns the action that removes a file of an unknown owner.
func FileRemedy(name string) string {
	for _, dir := range []string{"/tmp/", "/var/tmp/", "/dev/shm/", "/home/", "/var/crash/"} {
		if strings.HasPrefix(name, dir) {
			return taskcatalog.ActionStorageCleanup
		}
	}
	return taskcatalog.ActionReimage
}
