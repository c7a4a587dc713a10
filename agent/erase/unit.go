package erase

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// unit is a disk, or an NVMe controller with all its namespaces, erased as a whole.
type unit struct {
	targets    []*target
	controller string // nvme0; "" for other disks
	node       string // the controller's major:minor
	can        controller
	methods    []taskcatalog.EraseMethod // from the best to the least
}

// units makes the units of the task and asks each for its methods.
func (e *Erase) units(ctx context.Context) ([]*unit, error) {
	var all []*unit
	for _, t := range e.targets {
		if t.transport == "pcie" {
			c := t.controllers[0]
			if i := slices.IndexFunc(all, func(u *unit) bool { return u.controller == c }); i >= 0 {
				all[i].targets = append(all[i].targets, t)
				continue
			}
			all = append(all, &unit{targets: []*target{t}, controller: c})
			continue
		}
		all = append(all, &unit{targets: []*target{t}})
	}
	for _, u := range all {
		if err := e.chooseMethods(ctx, u); err != nil {
			return nil, err
		}
		for _, t := range u.targets {
			if t.out.Asked == "" {
				t.out.Asked = u.methods[0]
			}
		}
	}
	return all, nil
}

func (e *Erase) chooseMethods(ctx context.Context, u *unit) error {
	var err error
	switch {
	case u.controller != "":
		err = e.chooseNVMeMethods(ctx, u)
	case u.targets[0].ata:
		err = e.chooseATAMethods(ctx, u)
	}
	if err != nil {
		return err
	}
	if e.Params.Mode == taskcatalog.EraseQuick {
		u.methods = []taskcatalog.EraseMethod{taskcatalog.MethodTrim}
		for _, t := range u.targets {
			t.out.Asked, t.out.Attempts = "", nil
		}
		return nil
	}
	u.methods = append(u.methods, taskcatalog.MethodOverwrite)
	return nil
}

// controllerWide reports whether a method reaches every namespace of a controller.
func controllerWide(m taskcatalog.EraseMethod) bool {
	return m == taskcatalog.MethodNVMeSanitizeBlock || m == taskcatalog.MethodNVMeSanitizeCrypt || m == taskcatalog.MethodNVMeSanitizeWrite
}

// inside reports whether the drive carries out a method by itself.
func inside(m taskcatalog.EraseMethod) bool {
	return m != taskcatalog.MethodOverwrite && m != taskcatalog.MethodTrim
}

// erase goes through the methods until each disk of the unit is erased, or nothing more may be
// tried.
func (e *Erase) erase(ctx context.Context, u *unit) {
	if err := e.awaitSanitize(ctx, u); err != nil {
		u.end(taskcatalog.VerdictInconclusive, err)
		return
	}
	for _, m := range u.methods {
		if controllerWide(m) {
			e.try(ctx, u, m, u.pending())
			continue
		}
		for _, t := range u.pending() {
			if !t.ended() { // ended together with an earlier disk of the same controller
				e.try(ctx, u, m, []*target{t})
			}
		}
	}
	for _, t := range u.pending() {
		last := t.out.Attempts[len(t.out.Attempts)-1]
		t.out.Verdict, t.out.Code, t.out.Message = taskcatalog.VerdictNotClean, last.Code, last.Message
	}
	if t := u.targets[0]; t.ata && t.out.Verdict == taskcatalog.VerdictClean {
		e.unlocked(ctx, t)
	}
}

// pending returns the disks without a verdict.
func (u *unit) pending() []*target {
	return slices.DeleteFunc(slices.Clone(u.targets), (*target).ended)
}

// end sets the verdict of all disks without one; no further method is tried.
func (u *unit) end(verdict taskcatalog.Verdict, err error) {
	for _, t := range u.pending() {
		t.end(verdict, err)
	}
}

// try applies a method to the disks that share it, and records the outcome.
func (e *Erase) try(ctx context.Context, u *unit, m taskcatalog.EraseMethod, disks []*target) {
	if len(disks) == 0 {
		return
	}
	stop := func(verdict taskcatalog.Verdict, err error) {
		for _, t := range disks {
			t.end(verdict, err)
		}
	}
	if ctx.Err() != nil {
		stop(taskcatalog.VerdictNotClean, fmt.Errorf("it was not erased: %w", context.Cause(ctx)))
		return
	}
	if err := e.verifyUnchanged(ctx, u, m, disks); err != nil {
		stop(taskcatalog.VerdictInconclusive, err)
		return
	}
	for _, t := range disks {
		t.lastPercent = -1
		e.reportProgress(t, 0, m)
	}
	err := e.do(ctx, u, m, disks)
	switch code := taskcatalog.CodeOf(err, ""); {
	case err == nil:
		for _, t := range disks {
			e.reportProgress(t, 100, m)
		}
	case slices.Contains(unknown, code): // the state of the controller, and so of all its disks, is unknown
		u.end(taskcatalog.VerdictInconclusive, err)
	case ctx.Err() != nil:
		stop(taskcatalog.VerdictNotClean, fmt.Errorf("%s was stopped and the disk is not erased: %w", m, context.Cause(ctx)))
	default:
		for _, t := range disks {
			t.failed(m, err)
		}
	}
}

// unknown are the codes after which nobody can say what a method did, and to which disks.
var unknown = []taskcatalog.Code{
	taskcatalog.CodeEraseUnfinished, taskcatalog.CodeDiskChanged, taskcatalog.CodeDiskDiffers,
	taskcatalog.CodeDiskControllerShared, taskcatalog.CodeDiskUnreadable,
}

// verifyUnchanged verifies that the judged disks are unchanged. A method may affect all disks of a
// controller, so a single changed disk is reason enough to leave all of them alone.
func (e *Erase) verifyUnchanged(ctx context.Context, u *unit, m taskcatalog.EraseMethod, disks []*target) error {
	for _, t := range disks {
		if err := e.rejudge(t); err != nil {
			return err
		}
	}
	if u.controller == "" {
		return nil
	}
	if err := e.sameController(u); err != nil {
		return err
	}
	if err := e.verifyNamespaces(u); err != nil || !inside(m) {
		return err
	}
	_, err := e.identify(ctx, u)
	return err
}

// do applies a method, and records its completion for each disk.
func (e *Erase) do(ctx context.Context, u *unit, m taskcatalog.EraseMethod, disks []*target) error {
	switch m {
	case taskcatalog.MethodOverwrite:
		t := disks[0]
		return e.overwrite(ctx, t)
	case taskcatalog.MethodTrim:
		t := disks[0]
		if _, err := e.tool(ctx, "blkdiscard", map[string]any{"disk": "/dev/" + t.name}); err != nil {
			return ended(ctx, taskcatalog.CodeEraseUnfit, err)
		}
		t.finished(m, taskcatalog.OverwriteNone, 0)
		return nil
	}
	if u.controller == "" { // a locked disk takes no blocks either
		if err := e.unlock(ctx, disks[0]); err != nil {
			return err
		}
	}
	before := make([]*planted, len(disks))
	why := make([]error, len(disks)) // why a disk's erase cannot be proven
	for i, t := range disks {
		e.forget(t) // planting blocks would damage an interrupted overwrite
		before[i], why[i] = plant(t.device, t.size, e)
	}
	var err error
	switch {
	case controllerWide(m):
		err = e.sanitize(ctx, u, m, disks)
	case u.controller != "":
		err = e.format(ctx, u, m, disks[0])
	default:
		err = e.ataErase(ctx, m, disks[0])
	}
	if err != nil {
		return err
	}
	var remains []string
	for i, t := range disks {
		if why[i] != nil {
			continue
		}
		var left int
		if left, why[i] = before[i].remaining(t.device); left > 0 {
			remains = append(remains, fmt.Sprintf("of %d blocks that were written to %s before, %d are still there", len(before[i].places),
				t.name, left))
		}
	}
	switch {
	case len(remains) > 0: // the drive has lied: its report on the other disks is worthless
		return taskcatalog.Errorf(taskcatalog.CodeEraseResidue, "the drive reports that the erase is done, and %s",
			strings.Join(remains, "; "))
	case controllerWide(m):
		// The log page was read by the controller's name, perhaps hours after the judgement.
		if err := e.verifyUnchanged(ctx, u, m, disks); err != nil {
			return err
		}
	case why[0] != nil:
		return taskcatalog.Errorf(taskcatalog.CodeEraseUnverified,
			"the drive reports that the erase is done, and the agent cannot verify it: %v", why[0])
	}
	for i, t := range disks {
		if why[i] == nil {
			t.finished(m, taskcatalog.OverwriteVerified, before[i].bytes())
			continue
		}
		t.finished(m, taskcatalog.OverwriteUnverified, 0)
		t.out.Code, t.out.Message = taskcatalog.CodeEraseUnverified, taskcatalog.Clean(why[i].Error(), taskcatalog.MaxText)
	}
	return nil
}

// finished records a method that ran to its end.
func (t *target) finished(m taskcatalog.EraseMethod, verification string, readBack uint64) {
	t.out.Method, t.out.Verification, t.out.ReadBackBytes = m, verification, readBack
	t.out.CoveredBytes, t.out.Verdict = uint64(t.size), taskcatalog.VerdictClean
	if t.transport == "mmc" {
		t.out.Message = "the erase does not reach its boot areas and its replay protected memory block"
	}
}

// ended converts a tool's error to the disk's code.
func ended(ctx context.Context, code taskcatalog.Code, err error) error {
	switch {
	case outcomeUnknown(err) || ctx.Err() != nil:
		return taskcatalog.Errorf(taskcatalog.CodeEraseUnfinished,
			"cannot tell how the erase ended; the erase may still run inside the drive: %v", err)
	case missing(err):
		return err
	}
	return taskcatalog.Errorf(code, "%v", err)
}
