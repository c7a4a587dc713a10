package erase

import (
	"context"
	"path"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

func (u *unit) device() string { return "/dev/" + u.controller }

// chooseNVMeMethods reads a controller's methods. It refuses a controller with a namespace that the
// task does not name, because a sanitize reaches all namespaces.
func (e *Erase) chooseNVMeMethods(ctx context.Context, u *unit) error {
	first := u.targets[0].disk
	err := e.verifyNamespaces(u)
	if err != nil {
		return err
	}
	if u.node, err = e.sys.text(path.Join("/sys/class/nvme", u.controller, "dev")); err == nil {
		err = e.sameController(u)
	}
	if err != nil {
		return unreadable(first.label(), err)
	}
	u.can, err = e.identify(ctx, u)
	if missing(err) {
		for _, t := range u.targets {
			t.out.Asked = taskcatalog.MethodNVMeSanitizeBlock
			t.failed(t.out.Asked, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range []struct {
		can    bool
		method taskcatalog.EraseMethod
	}{
		{u.can.sanitizeBlock, taskcatalog.MethodNVMeSanitizeBlock},
		{u.can.sanitizeCrypto, taskcatalog.MethodNVMeSanitizeCrypt},
		{u.can.sanitizeWrite, taskcatalog.MethodNVMeSanitizeWrite},
		{u.can.format && u.can.cryptoErase, taskcatalog.MethodNVMeFormatCrypto},
		{u.can.format, taskcatalog.MethodNVMeFormatErase},
	} {
		if m.can {
			u.methods = append(u.methods, m.method)
		}
	}
	return nil
}

// shared is the refusal of a controller with more namespaces than the task names.
func (u *unit) shared(what string) error {
	return taskcatalog.Errorf(taskcatalog.CodeDiskControllerShared,
		"cannot erase %s: its controller %s has %s, which the task does not name", u.targets[0].disk.label(), u.controller, what)
}

// verifyNamespaces verifies that the task names every namespace that the kernel shows of a
// controller.
func (e *Erase) verifyNamespaces(u *unit) error {
	shown, err := e.sys.namespaces(u.controller)
	if err != nil {
		return unreadable(u.targets[0].disk.label(), err)
	}
	for _, name := range shown {
		if !slices.ContainsFunc(u.targets, func(t *target) bool { return t.name == name }) {
			return u.shared("the namespace " + name)
		}
	}
	return nil
}

// identify asks the controller itself for its identity and its namespaces, which must be those of
// the task and no others. It returns the controller's present abilities.
func (e *Erase) identify(ctx context.Context, u *unit) (controller, error) {
	first := u.targets[0].disk
	args := map[string]any{"controller": u.device()}
	raw, err := e.tool(ctx, "nvme_id_ctrl", args)
	if missing(err) {
		return controller{}, err
	}
	var can controller
	if err == nil {
		can, err = parseController(raw)
	}
	if err != nil {
		return can, unreadable(first.label(), err)
	}
	if can.serial != collapseSpaces(first.serial) || can.model != collapseSpaces(first.model) {
		return can, taskcatalog.Errorf(taskcatalog.CodeDiskDiffers, "cannot erase %s: nvme id-ctrl calls it %s", first.label(),
			taskcatalog.Clean(can.serial+" "+can.model, 200))
	}
	args["all"] = can.namespaces
	if raw, err = e.tool(ctx, "nvme_list_ns", args); err != nil {
		return can, unreadable(first.label(), err)
	}
	ids, err := parseNamespaces(raw)
	if err != nil {
		return can, unreadable(first.label(), err)
	}
	for _, t := range u.targets {
		if !slices.Contains(ids, t.nsid) {
			return can,
				unreadable(t.disk.label(), taskcatalog.Errorf(taskcatalog.CodeDiskDiffers, "nvme list-ns does not list its namespace %d",
					t.nsid))
		}
	}
	if len(ids) > len(u.targets) {
		return can, u.shared("a namespace that the kernel does not show")
	}
	return can, nil
}

// sameController verifies that the controller's node in /dev has the kernel's device number.
func (e *Erase) sameController(u *unit) error {
	if err := e.Devices.Is(u.controller, u.node, false); err != nil {
		return taskcatalog.Errorf(taskcatalog.CodeDiskChanged, "cannot erase by controller %s: %s", u.controller,
			taskcatalog.Clean(err.Error(), 300))
	}
	return nil
}

func (u *unit) sanitizes() bool {
	return u.can.sanitizeBlock || u.can.sanitizeCrypto || u.can.sanitizeWrite
}

// awaitSanitize waits for a sanitize begun earlier, for example by a killed task: until it ends the
// drive takes no other command. After a failed sanitize, awaitSanitize asks the drive to leave that
// state, because in it the drive takes no blocks and no format.
func (e *Erase) awaitSanitize(ctx context.Context, u *unit) error {
	if !u.sanitizes() {
		return nil
	}
	state, err := e.wait(ctx, u, taskcatalog.MethodNone, u.targets)
	if err != nil || state.status != sanitizeFailed {
		return err
	}
	if err := e.verifyUnchanged(ctx, u, taskcatalog.MethodNVMeSanitizeBlock, u.targets); err != nil {
		return err
	}
	// If the drive does not leave the state, or had left it before, the methods will show.
	if err := e.exit(ctx, u); err != nil {
		e.Log.Warn("a drive stays in the state of a failed sanitize", zap.String("controller", u.controller), zap.Error(err))
	}
	return nil
}

// exit makes the drive leave the state of a failed sanitize.
func (e *Erase) exit(ctx context.Context, u *unit) error {
	_, err := e.tool(ctx, "nvme_sanitize_exit", map[string]any{"controller": u.device()})
	return err
}

// sanitize starts the controller's own erase and waits until its log page reports completion.
func (e *Erase) sanitize(ctx context.Context, u *unit, m taskcatalog.EraseMethod, disks []*target) error {
	args := map[string]any{"controller": u.device()}
	switch m {
	case taskcatalog.MethodNVMeSanitizeBlock:
		args["action"] = sanitizeBlock
	case taskcatalog.MethodNVMeSanitizeCrypt:
		args["action"] = sanitizeCrypto
	default:
		args["action"], args["passes"] = sanitizeWrite, 1
	}
	if _, err := e.tool(ctx, "nvme_sanitize", args); err != nil {
		return ended(ctx, taskcatalog.CodeEraseRefused, err)
	}
	state, err := e.wait(ctx, u, m, disks)
	switch {
	case err != nil:
		return err
	case state.status == sanitizeFailed:
		// The drive returns no data until it leaves this state; the next method is recorded as the
		// weaker method.
		if err := e.exit(ctx, u); err != nil {
			return taskcatalog.Errorf(taskcatalog.CodeEraseFailed,
				"its log page reports that the sanitize failed, and the drive stays in that state: %v", err)
		}
		return taskcatalog.Errorf(taskcatalog.CodeEraseFailed, "its log page reports that the sanitize failed")
	case state.status == sanitizeNever:
		return taskcatalog.Errorf(taskcatalog.CodeEraseFailed,
			"the drive accepted the sanitize command, and its log page reports that none was ever run")
	case state.action != args["action"]:
		return taskcatalog.Errorf(taskcatalog.CodeEraseFailed, "its log page reports sanitize action %d, and action %d was requested",
			state.action, args["action"])
	}
	return nil
}

// logTries is how often in a row reading the log page may fail: a busy drive may let a command wait
// too long.
const logTries = 5

// wait reads the log page until no sanitize runs.
func (e *Erase) wait(ctx context.Context, u *unit, m taskcatalog.EraseMethod, disks []*target) (sanitizeState, error) {
	unread := 0
	for {
		raw, err := e.tool(ctx, "nvme_sanitize_log", map[string]any{"controller": u.device()})
		var state sanitizeState
		if err == nil {
			state, err = parseSanitize(raw)
		}
		switch {
		case ctx.Err() != nil:
			return state, taskcatalog.Errorf(taskcatalog.CodeEraseUnfinished,
				"the agent stopped waiting, and the sanitize may still run inside the drive: %v", context.Cause(ctx))
		case err == nil && state.status != sanitizeRunning:
			return state, nil
		case err == nil:
			unread = 0
			for _, t := range disks {
				e.reportProgress(t, state.percent, m)
			}
		default:
			if unread++; unread == logTries {
				return state, taskcatalog.Errorf(taskcatalog.CodeEraseUnfinished,
					"the drive's sanitize log page cannot be read, and a sanitize may still run inside the drive: %v", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(e.Interval):
		}
	}
}

// format has the controller erase a namespace and keep its present LBA format.
func (e *Erase) format(ctx context.Context, u *unit, m taskcatalog.EraseMethod, t *target) error {
	args := map[string]any{"controller": u.device(), "nsid": t.nsid}
	raw, err := e.tool(ctx, "nvme_id_ns", args)
	if err != nil {
		return ended(ctx, taskcatalog.CodeEraseRefused, err)
	}
	if args["lbaf"], err = parseLBAFormat(raw); err != nil {
		return taskcatalog.Errorf(taskcatalog.CodeEraseRefused, "%v", err)
	}
	const userData, key = 1, 2
	args["erase"] = userData
	if m == taskcatalog.MethodNVMeFormatCrypto {
		args["erase"] = key
	}
	if _, err := e.tool(ctx, "nvme_format", args); err != nil {
		return ended(ctx, taskcatalog.CodeEraseRefused, err)
	}
	return nil
}
