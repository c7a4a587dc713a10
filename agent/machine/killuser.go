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

// StopUser is StopProcesses for all processes of a user. They are killed by the
// kernel at once: a list of processes, however often it is made, misses one that
// forks and ends at once.
func (m *Machine) StopUser(ctx context.Context, ids UIDs, grace time.Duration) (stopped int, left []Process, err error) {
	stopped, left, err = m.StopProcesses(ctx, func(p Process) bool { return slices.ContainsFunc(p.UIDs, ids.Has) }, grace, func(left []Process) error {
		if !m.Live() {
			return nil // who is in a directory's /proc runs nowhere
		}
		// Whoever is outside it is killed by uid all the same.
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
	if err == nil && m.Live() {
		err = killLent(ctx, ids.Lent)
	}
	return stopped, left, err
}

const cgroups = "/sys/fs/cgroup"

// KillCgroup kills all processes of a cgroup and of those below it. It freezes
// them first, so that none changes its ids or its cgroup meanwhile. A machine
// without the unified hierarchy, a kernel before 5.14 and a cgroup that is gone
// are no error: this is one way of several.
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
	if frozen == nil { // whoever is killed dies frozen too; who comes later is not to hang
		err = errors.Join(err, write("cgroup.freeze", "0"))
	}
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("cannot kill cgroup %s: %w", strings.TrimPrefix(name, "/"), err)
	}
	return nil
}

// nobodysUID is a user id that no process has: the last that there is.
const nobodysUID = 1<<32 - 2

// killUser sends SIGKILL to every process with uid for its real or its saved user
// id. The kernel does so in one step, during which nobody forks.
//
// kill(-1) reaches whom the caller may signal, so that one thread of this process
// becomes the user for the two system calls that it takes: the user by its
// effective id alone. Its real id is nobody's and its saved id root's, which keeps
// the user's own processes from signalling, tracing or limiting it, takes every
// capability away, and lets it become root again. No process is made for it: a fork
// bomb may have left none.
func killUser(uid uint32) error {
	if uid == 0 || uid >= nobodysUID {
		return fmt.Errorf("cannot kill all processes of uid %d: not a tenant's", uid)
	}
	return onThread(func() error { return killAs(uid) })
}

// killLent is killUser for each uid that an account is lent. A program of the account's with a lent
// uid's set-uid bit takes its process out of the user namespace in which the account
// may kill it, and no list shows the process if it forks and ends at once.
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
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobodysUID, uintptr(uid), 0); errno != 0 {
		return fmt.Errorf("cannot become uid %d to kill its processes: %w", uid, errno)
	}
	_, _, killed := unix.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0); errno != 0 {
		return fmt.Errorf("cannot become root again: %w", errno)
	}
	// EPERM is that of the last one looked at, which is somebody else's.
	if killed != 0 && killed != unix.ESRCH && killed != unix.EPERM {
		return fmt.Errorf("cannot kill the processes of uid %d: %w", uid, killed)
	}
	return nil
}

// onThread runs do on a thread that ends with it, so that nothing else runs with
// what do changed of it. It is never the first thread, whose ids are taken for
// those of the process, and which does not end.
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
