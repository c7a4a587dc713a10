package users

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// The names under which a revoke reports. They are rows of the table of checks.
const (
	CheckProcesses = "processes"
	checkJobs      = "jobs"
	checkIPC       = "ipc"
	checkFiles     = "files"
	checkMounts    = "mounts"
	checkAccount   = "users"
)

// DefaultGrace is how long processes get to end by themselves before they are killed, unless the
// task says otherwise.
const DefaultGrace = 10 * time.Second

// revocation is a running revoke. It continues past a failed step. The account's record is deleted
// only if no step failed: then nothing of the user is left except what the report lists as found.
type revocation struct {
	*host.Run
	account host.Account
	ids     machine.UIDs
	grace   time.Duration
	result  taskcatalog.RevokeUserResult
	report  taskcatalog.Report
	failed  []error
}

// Step is one step of a revoke.
type Step struct {
	Name string
	do   func(*revocation, context.Context) error
}

// Steps are the steps of a revoke in order: first new logins and scheduled starts end, then running
// processes, then leftovers, and the account last. Jobs are removed once more after the processes,
// which may have created new jobs meanwhile. Before the account goes, still_gone checks again that
// no process of the user runs.
var Steps = []Step{
	{"lock", (*revocation).lock},
	{"sessions", (*revocation).sessions},
	{"jobs", (*revocation).jobs},
	{"first_mounts", (*revocation).firstMounts},
	{"processes", (*revocation).processes},
	{"late_jobs", (*revocation).jobs},
	{"ipc", (*revocation).ipc},
	{"mounts", (*revocation).mounts},
	{"home", (*revocation).home},
	{"files", (*revocation).files},
	{"still_gone", (*revocation).stillGone},
	{"account", (*revocation).remove},
}

// Revoke removes an allocation's user. A crash in between leaves the record, and the same task
// continues when it runs again.
func Revoke(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	p, h := r.Params.(*taskcatalog.RevokeUserParams), r.Host
	account, known, err := h.Accounts.ByAllocation(p.AllocationID)
	if err != nil {
		return nil, taskcatalog.Report{}, err
	}
	if !known {
		return notRecorded(h, p)
	}
	if account.Username != p.Username {
		return nil, taskcatalog.Report{}, taskcatalog.Errorf("allocation_mismatch", "cannot revoke %s: the user of allocation %s is %s",
			p.Username, p.AllocationID, account.Username)
	}
	v := &revocation{Run: r, account: account, grace: DefaultGrace}
	if p.GraceSeconds > 0 {
		v.grace = time.Duration(p.GraceSeconds) * time.Second
	}
	v.result.UID, v.result.Existed = account.UID, true
	if v.ids, err = h.Machine.UIDsOf(account.Username, account.UID); err != nil {
		v.failed = append(v.failed, err)
	}
	for i, s := range Steps {
		r.Step(s.Name, i+1, len(Steps))
		if err := s.do(v, ctx); err != nil {
			v.failed = append(v.failed, fmt.Errorf("%s: %w", s.Name, err))
		}
		if ctx.Err() != nil {
			return &v.result, v.report, context.Cause(ctx)
		}
	}
	if len(v.failed) > 0 {
		return &v.result, v.report, taskcatalog.Errorf("user_not_fully_revoked",
			"cannot revoke %s completely: %s (see the dispositions, then run the task again)", p.Username, oneLine(v.failed))
	}
	return &v.result, v.report, h.Accounts.Delete(p.AllocationID)
}

// oneLine formats several errors, also joined errors, as one sentence.
func oneLine(all []error) string {
	return strings.ReplaceAll(errors.Join(all...).Error(), "\n", "; ")
}

// notRecorded answers for an allocation without a user on this node. A user of the same name that
// no allocation created is not removed.
func notRecorded(h *host.Host, p *taskcatalog.RevokeUserParams) (any, taskcatalog.Report, error) {
	user, there, err := h.Machine.UserNamed(p.Username)
	if err == nil && there {
		err = taskcatalog.Errorf("user_not_provisioned", "cannot revoke %s: uid %d was not created for allocation %s", p.Username, user.UID,
			p.AllocationID)
	}
	return &taskcatalog.RevokeUserResult{}, taskcatalog.Report{}, err
}

// removed records the result for one path, and returns an error if the removal failed.
func (v *revocation) removed(check, name string, t machine.Tally, err error) error {
	d := taskcatalog.Disposition{Check: check, Path: name, Action: taskcatalog.ActionRemoved, Files: t.Files + t.Dirs, Bytes: t.Bytes}
	v.result.FilesRemoved += t.Files + t.Dirs
	v.result.BytesRemoved += t.Bytes
	switch {
	case err != nil:
		d.Action, d.Reason = taskcatalog.ActionFailed, err.Error()
	case t.Faults > 0:
		d.Action, d.Reason = taskcatalog.ActionFailed, fmt.Sprintf("%d paths could not be handled", t.Faults)
		err = fmt.Errorf("%s: %s", taskcatalog.Clean(name, 200), d.Reason)
	case d.Files == 0:
		return nil
	}
	v.report.Dispose(d)
	return err
}

// tree returns a sweep that removes the entries chosen by choose, and records each fault. A user's
// directory that holds another user's entry stays and becomes a finding: another revoke would not
// remove it either.
func (v *revocation) tree(choose func(*machine.Entry) bool) machine.Tree {
	return machine.Tree{Remove: choose, Fault: func(p string, err error) {
		v.report.Dispose(taskcatalog.Disposition{Check: checkFiles, Path: p, Action: taskcatalog.ActionFailed, Reason: err.Error()})
	}, Kept: func(e *machine.Entry) {
		name := e.Path()
		v.report.Find(taskcatalog.Finding{
			Check: checkFiles, Subject: name, UID: &v.account.UID, NextAction: cleanup.FileRemedy(name),
			Detail: "a directory of the user was kept, because it holds files of other users",
		})
	}}
}

func (v *revocation) owned(e *machine.Entry) bool { return v.ids.Has(e.Stat.Uid) }

// lock prevents new logins: no password, no keys, no sudo.
func (v *revocation) lock(ctx context.Context) error {
	var locked error
	if _, there, err := v.Host.Machine.UserNamed(v.account.Username); err != nil {
		return err
	} else if there {
		locked = v.Host.AccountTool(ctx, "usermod", "--lock", "--expiredate", "1", v.account.Username)
	}
	for _, name := range []string{host.SudoersFile(v.account.Username), path.Join(v.account.Home, ".ssh/authorized_keys")} {
		t, err := v.Host.Machine.RemoveAll(ctx, name, v.tree(machine.AllEntries))
		// If .ssh is a link, or a FUSE covers the home, authorized_keys is not a file that the
		// agent wrote; the home itself is removed later.
		if err != nil && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, machine.ErrFUSE) {
			locked = errors.Join(locked, err)
		}
		v.result.FilesRemoved += t.Files
	}
	return locked
}

func (v *revocation) sessions(ctx context.Context) error {
	_, ended := v.Host.EndTerminals(ctx, v.account.Username)
	return errors.Join(ended, v.Host.Systemd.LingerOff(ctx, v.account.UID), v.Host.Systemd.EndSessions(ctx, v.account.UID))
}

func (v *revocation) processes(ctx context.Context) error {
	stopped, left, err := v.Host.Machine.StopUser(ctx, v.ids, v.grace)
	v.result.ProcessesStopped = stopped
	v.result.ProcessesLeft = Stuck(left)
	for _, p := range v.result.ProcessesLeft {
		v.report.Find(taskcatalog.Finding{
			Check: CheckProcesses, Subject: fmt.Sprintf("%d %s", p.PID, p.Name), UID: &v.account.UID,
			Detail: "outlived SIGKILL, state " + p.State, NextAction: "reimage",
		})
	}
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d processes outlived SIGKILL", len(left))
	}
	return err
}

// stillGone checks that no process of the user has started since the earlier steps. Such a process
// may have left files in places already swept. Another revoke must remove them, once the cause of
// the start is known.
func (v *revocation) stillGone(ctx context.Context) error {
	if len(v.failed) > 0 {
		return nil // the revoke has already failed
	}
	came, left, err := v.Host.Machine.StopUser(ctx, v.ids, 0)
	v.result.ProcessesStopped += came
	if n := came + len(left); err == nil && n > 0 {
		err = fmt.Errorf("%d processes started after all had been ended (find the program that starts them: a unit with User=%s, or a job of root)", n, v.account.Username)
	}
	return err
}

// jobs removes whatever would run later: crontab, at jobs, linger.
func (v *revocation) jobs(ctx context.Context) error {
	var all error
	for _, dir := range []string{"/var/spool/cron", "/var/spool/at", "/var/mail", "/var/spool/mail"} {
		t, err := v.Host.Machine.Empty(ctx, dir, v.tree(v.ownedOrNamed))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
			continue
		}
		v.result.JobsRemoved += int(t.Files)
		all = errors.Join(all, v.removed(checkJobs, dir, t, err))
	}
	t, err := v.Host.Machine.RemoveAll(ctx, path.Join("/var/lib/systemd/linger", v.account.Username), v.tree(machine.AllEntries))
	v.result.JobsRemoved += int(t.Files)
	return errors.Join(all, err)
}

// ownedOrNamed also chooses a crontab by name: cron runs a crontab as the user that its name gives.
func (v *revocation) ownedOrNamed(e *machine.Entry) bool {
	return v.owned(e) || e.IsRegular() && e.Name == v.account.Username
}

func (v *revocation) ipc(ctx context.Context) error {
	objects, err := v.Host.Machine.SysVIPC()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if !v.ids.Has(o.UID) && !v.ids.Has(o.CUID) {
			continue
		}
		name := fmt.Sprintf("sysv/%s/%d", o.Kind, o.ID)
		if failed := machine.RemoveIPC(o); failed != nil {
			err = errors.Join(err, failed)
			v.report.Dispose(taskcatalog.Disposition{Check: checkIPC, Path: name, Action: taskcatalog.ActionFailed, Reason: failed.Error()})
			continue
		}
		v.result.IPCRemoved++
		v.report.Dispose(taskcatalog.Disposition{Check: checkIPC, Path: name, Action: taskcatalog.ActionRemoved, Bytes: o.Bytes})
	}
	for _, dir := range []string{"/dev/shm", "/dev/mqueue"} {
		t, failed := v.Host.Machine.Empty(ctx, dir, v.tree(v.owned))
		if errors.Is(failed, fs.ErrNotExist) {
			continue
		}
		v.result.IPCRemoved += int(t.Files)
		err = errors.Join(err, v.removed(checkIPC, dir, t, failed))
	}
	return err
}

// runtimeDir is where systemd mounts a file system of the user's while the user is logged in. A
// program in the user's slice unmounts it, and is killed with all else that runs there.
func (v *revocation) runtimeDir() string { return fmt.Sprintf("/run/user/%d", v.account.UID) }

// mounts detaches the mounts in the home and of the runtime directory, and the user's mounts elsewhere:
// a user may mount FUSE without root. No file system is looked at. The step runs twice: before the processes are ended,
// since a process that waits for a dead FUSE does not die; and before the home is entered.
func (v *revocation) mounts(context.Context) error {
	return v.Host.Machine.DetachAll(func(all []machine.Mount) []machine.Mount {
		return slices.DeleteFunc(all, func(mt machine.Mount) bool {
			inside := func(dir string) bool { return mt.Point == dir || machine.Under(mt.Point, dir) }
			return !inside(v.account.Home) && !inside(v.runtimeDir()) &&
				mt.User != strconv.FormatUint(uint64(v.account.UID), 10)
		})
	}, func(mt machine.Mount) {
		v.report.Dispose(taskcatalog.Disposition{
			Check: checkMounts, Path: mt.Point, Action: taskcatalog.ActionRemoved,
			Reason: "a mount of type " + mt.Type + " of the user's was detached",
		})
	})
}

// firstMounts detaches as many mounts as possible and ignores errors: a living process may mount
// again, and the later mounts step reports the mounts that are left.
func (v *revocation) firstMounts(ctx context.Context) error {
	_ = v.mounts(ctx)
	return nil
}

// home removes the home and the runtime directory.
func (v *revocation) home(ctx context.Context) (all error) {
	for _, dir := range []string{v.account.Home, v.runtimeDir()} {
		t, err := v.Host.Machine.RemoveAll(ctx, dir, v.tree(machine.AllEntries))
		all = errors.Join(all, v.removed(checkFiles, dir, t, err))
	}
	return all
}

// files removes the user's files elsewhere on local file systems. Each file system is swept on its
// own, so a mount point inside is no fault.
func (v *revocation) files(ctx context.Context) error {
	mounts, err := v.Host.Machine.LocalMounts()
	if err != nil {
		return err
	}
	var all error
	for _, m := range mounts {
		tree, within, readOnly := v.tree(v.owned), int64(0), false
		fault := tree.Fault
		tree.Fault = func(p string, err error) {
			if errors.Is(err, machine.ErrMount) {
				within++
				return
			}
			readOnly = readOnly || errors.Is(err, unix.EROFS)
			fault(p, err)
		}
		t, err := v.Host.Machine.Empty(ctx, m, tree)
		if errors.Is(err, fs.ErrNotExist) {
			continue // unmounted meanwhile
		}
		t.Faults -= within
		if err == nil && readOnly {
			err = fmt.Errorf("%s: mounted read-only and holds files of the user's (mount it read-write, then run the task again)",
				taskcatalog.Clean(m, 200))
		}
		all = errors.Join(all, v.removed(checkFiles, m, t, err))
	}
	return all
}

// remove deletes the account itself, but only once nothing of it is left: a uid without a name is
// harder to find again.
func (v *revocation) remove(ctx context.Context) error {
	if len(v.failed) > 0 {
		return nil
	}
	user, there, err := v.Host.Machine.UserNamed(v.account.Username)
	if err != nil {
		return err
	}
	const groupMissing = 6 // groupdel's exit code
	if there {
		if user.UID != v.account.UID {
			v.report.Find(taskcatalog.Finding{
				Check: checkAccount, Subject: v.account.Username, UID: &user.UID, NextAction: "reimage",
				Detail: "its uid is not " + strconv.FormatUint(uint64(v.account.UID), 10) + " any more: somebody with root changed it",
			})
		}
		if err := v.Host.AccountTool(ctx, "userdel", "--force", v.account.Username); err != nil {
			return err
		}
	}
	groups, err := v.Host.Machine.Groups()
	if err != nil {
		return err
	}
	if of, gid := groupNamed(groups, v.account.Username); of && gid != strconv.FormatUint(uint64(v.account.GID), 10) {
		v.report.Find(taskcatalog.Finding{
			Check: checkAccount, Subject: "group " + v.account.Username, NextAction: "reimage",
			Detail: "its gid is not " + strconv.FormatUint(uint64(v.account.GID), 10) + ": not the group that was created for the user",
		})
	} else if err := v.Host.AccountTool(ctx, "groupdel", v.account.Username); err != nil && host.ExitCode(err) != groupMissing {
		return err
	}
	v.report.Dispose(taskcatalog.Disposition{Check: checkAccount, Path: v.account.Username, Action: taskcatalog.ActionRemoved})
	return nil
}

// groupNamed finds a group's gid in the list returned by Machine.Groups.
func groupNamed(groups []string, name string) (there bool, gid string) {
	for _, g := range groups {
		if f := strings.Split(g, ":"); f[0] == name {
			return true, f[1]
		}
	}
	return false, ""
}

// Stuck converts processes to the entries of a result, 100 at most.
func Stuck(left []machine.Process) []taskcatalog.StuckProcess {
	var all []taskcatalog.StuckProcess
	for _, p := range left {
		if len(all) == 100 {
			break
		}
		all = append(all, taskcatalog.StuckProcess{PID: p.PID, UID: p.UIDs[0], Name: taskcatalog.Clean(p.Name, 64), State: p.State})
	}
	return all
}
