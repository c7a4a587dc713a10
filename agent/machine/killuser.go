package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// StopUser is StopProcesses for all processes of a user. The kernel kills all of them at once: any
// list of processes misses a process that forks and ends at once.
func (m *Machine) StopUser(ctx context.Context, ids UIDs, grace time.Duration) (stopped int, left []Process, err error) {
	match := func(p Process) bool { return slices.ContainsFunc(p.UIDs, ids.Has) }
	stopped, left, err = m.StopProcesses(ctx, match, grace, func(left []Process) error {
		if !m.Live() {
			return nil // the processes in a directory's /proc run nowhere
		}
		// Processes outside this cgroup are killed by uid all the same.
		_ = m.KillCgroup(fmt.Sprintf("/user.slice/user-%d.slice", ids.Own))
		err := killUser(ids.Own)
		killed := map[uint32]bool{ids.Own: true}
		for _, p := range left {
			for _, uid := range p.UIDs {
				if ids.Has(uid) && !killed[uid] {
					killed[uid] = true
					err = errors.Join(err, killUser(uid))
				}
			}
		}
		return err
	})
	if err != nil || len(ids.Lent) == 0 || !m.Live() {
		return stopped, left, err
	}
	if err := killLent(ctx, ids.Lent); err != nil {
		return stopped, left, err
	}
	// A process that was killed is there until it has run once more. On a busy machine that takes a while, and
	// the next look would take the process for one that has just begun.
	ended, left, err := m.StopProcesses(ctx, match, 0, nil)
	return stopped + ended, left, err
}

const cgroups = "/sys/fs/cgroup"

// KillCgroup kills all processes of a cgroup and of the cgroups below. It freezes the cgroup first,
// so that no process changes its ids or its cgroup meanwhile. KillCgroup returns nil on a machine
// without the unified hierarchy, on a kernel before 5.14, and for a missing cgroup: KillCgroup is
// one of several ways to kill.
func (m *Machine) KillCgroup(name string) error {
	dir, err := m.OpenDir(path.Join(cgroups, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open cgroup %s: %w", name, err)
	}
	defer dir.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	write := func(file, value string) error {
		fd, err := openat2(int(dir.Fd()), file, unix.O_WRONLY, 0, resolveStrict)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte(value))
		return err
	}
	frozen := write("cgroup.freeze", "1")
	err = write("cgroup.kill", "1")
	if frozen == nil { // a killed process dies frozen too; thaw, so that a later process does not hang
		err = errors.Join(err, write("cgroup.freeze", "0"))
	}
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("cannot kill cgroup %s: %w", strings.TrimPrefix(name, "/"), err)
	}
	return nil
}

// unusedUID is a user id that no process has: the last possible id.
const unusedUID = 1<<32 - 2

// killUser sends SIGKILL to every process whose real or saved user id is uid. The kernel does so in
// one step, during which nobody forks.
//
// kill(-1) reaches every process that the caller may signal. So a thread of this process becomes
// the user for two system calls, by its effective id alone. The thread's real id is unusedUID and
// its saved id is root's. Therefore the user's own processes cannot signal, trace or limit the
// thread, the thread loses every capability, and the thread can become root again. killUser creates
// no process: a fork bomb may have left no room for another.
func killUser(uid uint32) error {
	if uid == 0 || uid >= unusedUID {
		return fmt.Errorf("cannot kill all processes of uid %d: not a tenant's", uid)
	}
	return onThread(func() error { return killAs(uid) })
}

// killLent is killUser for each uid lent to an account. A program of the account with the set-uid
// bit of a lent uid moves its process out of the user namespace in which the account may kill it,
// and no list shows the process if it forks and ends at once.
func killLent(ctx context.Context, lent []UIDRange) error {
	return onThread(func() error {
		for _, r := range lent {
			for n := range r.Count {
				if n%1024 == 0 && ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := killAs(r.First + n); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// killAs becomes uid, kills and becomes root again, all on the calling thread.
func killAs(uid uint32) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, unusedUID, uintptr(uid), 0); errno != 0 {
		return fmt.Errorf("cannot become uid %d to kill its processes: %w", uid, errno)
	}
	_, _, killed := unix.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0); errno != 0 {
		return fmt.Errorf("cannot become root again: %w", errno)
	}
	// EPERM comes from the last process the kernel looked at, which belongs to another user.
	if killed != 0 && killed != unix.ESRCH && killed != unix.EPERM {
		return fmt.Errorf("cannot kill the processes of uid %d: %w", uid, killed)
	}
	return nil
}

// onThread runs do on a thread that ends with do, so that no other code runs with the ids that do
// changed. The thread is never the first thread: the kernel takes the first thread's ids for those
// of the process, and the first thread does not end.
func onThread(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onThread(do)
			runtime.UnlockOSThread()
			return
		}
		done <- do()
	}()
	return <-done
}
