package erase

import (
	"context"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// chooseATAMethods reads a disk's security feature set and chooses its methods. Reasons against a
// method are kept as attempts, because the following overwrite is less than the task asked for.
func (e *Erase) chooseATAMethods(ctx context.Context, u *unit) error {
	t := u.targets[0]
	best := func(m taskcatalog.EraseMethod, err error) {
		t.out.Asked = m
		if err != nil {
			t.failed(m, err)
		}
	}
	s, err := e.security(ctx, t)
	if err != nil {
		if taskcatalog.CodeOf(err, "") == taskcatalog.CodeDiskDiffers {
			return err
		}
		best(taskcatalog.MethodATAEnhancedErase, err)
		return nil
	}
	if !s.supported {
		return nil
	}
	all := []taskcatalog.EraseMethod{taskcatalog.MethodATASecureErase}
	if s.enhanced {
		all = append([]taskcatalog.EraseMethod{taskcatalog.MethodATAEnhancedErase}, all...)
	}
	switch {
	case s.frozen && s.enabled:
		best(all[0], taskcatalog.Errorf(taskcatalog.CodeATAPassword,
			"the disk has a password, and its security is frozen, as firmware does at boot (power-cycle the disk, or suspend and wake the machine, then run the erase again; a password that the agent did not set: remove it with hdparm --security-disable)"))
		return nil
	case s.frozen:
		best(all[0], taskcatalog.Errorf(taskcatalog.CodeATAFrozen,
			"its security is frozen, as firmware does at boot (power-cycle the disk, or suspend and wake the machine)"))
		return nil
	}
	u.methods = all
	return nil
}

// security reads a disk's security state, and verifies that the answer is from this disk.
func (e *Erase) security(ctx context.Context, t *target) (security, error) {
	raw, err := e.tool(ctx, "hdparm_identify", map[string]any{"disk": "/dev/" + t.name})
	if err != nil {
		return security{}, ended(ctx, taskcatalog.CodeEraseRefused, err)
	}
	s, err := parseSecurity(raw)
	if err != nil {
		return s, taskcatalog.Errorf(taskcatalog.CodeEraseRefused, "%v", err)
	}
	// The kernel truncates the model.
	if s.serial != collapseSpaces(t.serial) || !strings.HasPrefix(s.model, collapseSpaces(t.model)) {
		return s, taskcatalog.Errorf(taskcatalog.CodeDiskDiffers, "cannot erase %s: hdparm -I calls it %s", t.disk.label(),
			taskcatalog.Clean(s.serial+" "+s.model, 200))
	}
	return s, nil
}

// hdparm runs a security command of hdparm.
func (e *Erase) hdparm(ctx context.Context, id string, t *target) error {
	if _, err := e.tool(ctx, id, map[string]any{"disk": "/dev/" + t.name}); err != nil {
		return ended(ctx, taskcatalog.CodeEraseRefused, err)
	}
	return nil
}

// unlock removes the password that a killed task may have left. A password set by anyone else
// stays, and locks the disk at its next loss of power.
func (e *Erase) unlock(ctx context.Context, t *target) error {
	s, err := e.security(ctx, t)
	if err != nil || !s.enabled {
		return err
	}
	if s.locked {
		err = e.hdparm(ctx, "hdparm_unlock", t)
	}
	if err == nil {
		err = e.hdparm(ctx, "hdparm_disable_password", t)
	}
	switch {
	case taskcatalog.CodeOf(err, "") == taskcatalog.CodeEraseUnfinished:
		return err
	case err != nil && s.frozen:
		return taskcatalog.Errorf(taskcatalog.CodeATAPassword,
			"the disk has a password and its security is frozen: the disk locks when it loses power (power-cycle the disk and run the erase again; a password that the agent did not set: remove it with hdparm --security-disable): %v", err)
	case err != nil:
		return taskcatalog.Errorf(taskcatalog.CodeATAPassword,
			"the disk has a password that the agent did not set, and locks when it loses power (remove the password with hdparm --security-disable; if the password is not known, replace the disk): %v", err)
	}
	if s, err = e.security(ctx, t); err == nil && s.enabled {
		return taskcatalog.Errorf(taskcatalog.CodeATAPassword,
			"hdparm reports that the password was removed, and the disk still has one (replace the disk)")
	}
	return err
}

// unlocked lets an erased disk be clean only if it has no password, whoever set it.
func (e *Erase) unlocked(ctx context.Context, t *target) {
	err := e.unlock(ctx, t)
	switch {
	case err == nil:
	case taskcatalog.CodeOf(err, "") == taskcatalog.CodeATAPassword:
		t.end(taskcatalog.VerdictNotClean, err)
	default:
		t.end(taskcatalog.VerdictInconclusive, taskcatalog.Errorf(taskcatalog.CodeOf(err, taskcatalog.CodeDiskUnreadable),
			"cannot tell whether the disk has a password, with which it would lock when it loses power: %v", err))
	}
}

// ataErase sets a password, as the command requires, and starts the disk's own erase. The erase
// removes the password.
func (e *Erase) ataErase(ctx context.Context, m taskcatalog.EraseMethod, t *target) error {
	if err := e.hdparm(ctx, "hdparm_set_password", t); err != nil {
		return err
	}
	id := "hdparm_erase"
	if m == taskcatalog.MethodATAEnhancedErase {
		id = "hdparm_enhanced_erase"
	}
	err := e.hdparm(ctx, id, t)
	if taskcatalog.CodeOf(err, "") == taskcatalog.CodeEraseUnfinished || ctx.Err() != nil {
		return taskcatalog.Errorf(taskcatalog.CodeEraseUnfinished,
			"the erase may still run inside the drive, whose password is \"hostler\" until the erase ends: %v", err)
	}
	s, asked := e.security(ctx, t)
	switch {
	case asked != nil: // like a drive that is still erasing
		return taskcatalog.Errorf(taskcatalog.CodeEraseUnfinished,
			"cannot tell whether the disk was erased: the erase may still run inside the drive, whose password may be \"hostler\": %s",
			joinErrors(err, asked))
	case s.enabled: // a completed erase would have removed the password
		switch off := e.hdparm(ctx, "hdparm_disable_password", t); {
		case taskcatalog.CodeOf(off, "") == taskcatalog.CodeEraseUnfinished:
			return taskcatalog.Errorf(taskcatalog.CodeEraseUnfinished,
				"the erase was not done, and the disk's password may be \"hostler\": %s", joinErrors(err, off))
		case off != nil:
			return taskcatalog.Errorf(taskcatalog.CodeEraseFailed,
				"the erase was not done, and the disk's password is still \"hostler\": %s", joinErrors(err, off))
		}
		if err == nil {
			err = taskcatalog.Errorf(taskcatalog.CodeEraseFailed,
				"hdparm reports that the erase is done, and the disk still has the password that an erase removes")
		}
	}
	return err
}

// joinErrors joins two errors on a line; first may be nil.
func joinErrors(first, second error) string {
	if first == nil {
		return second.Error()
	}
	return first.Error() + "; " + second.Error()
}
