package users

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// A user may mount FUSE without root, and the mount outlives its server process: then nobody can
// even look at it.
func TestWhatAUserMountedDoesNotKeepTheUserHere(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	for _, d := range []string{"/dev", "/etc/sudoers.d", "/home/alice/data", "/home/alice/more", "/srv/alice", "/srv/site", "/var/lib/systemd/linger", "/run/user/20077", "/run/user/20078"} {
		hosttest.OK(t, os.MkdirAll(d, 0o755))
	}
	hosttest.Put(t, "/", "etc/passwd", "root:x:0:0::/root:/bin/sh\n") // the account was removed before the revoke
	hosttest.Put(t, "/", "etc/group", "root:x:0:\n")
	hosttest.OK(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))))
	const uid = 20077
	dead := func(point string, owner int) {
		t.Helper()
		fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
		if err != nil {
			t.Skipf("no FUSE here: %v", err)
		}
		hosttest.OK(t, unix.Mount("sshfs", point, "fuse.sshfs", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, owner, owner)))
		hosttest.OK(t, unix.Close(fd))
		if _, err := os.Lstat(point); err == nil {
			t.Fatal("the mount is not dead: the test proves nothing")
		}
	}
	dead("/home/alice/data", uid)
	dead("/srv/alice", uid)
	hosttest.OK(t, unix.Mount("tmpfs", "/home/alice/more", "tmpfs", 0, ""))
	hosttest.OK(t, unix.Mount("tmpfs", "/srv/site", "tmpfs", 0, ""))
	// The revoke kills what systemd runs in the user's slice to unmount the runtime directory.
	hosttest.OK(t, unix.Mount("tmpfs", "/run/user/20077", "tmpfs", 0, fmt.Sprintf("uid=%d", uid)))
	hosttest.OK(t, unix.Mount("tmpfs", "/run/user/20078", "tmpfs", 0, ""))
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	store := &hosttest.Ledger{}
	h := &host.Host{Machine: m, Now: time.Now, Log: zap.NewNop(), Accounts: store, Marks: store, Systemd: &hosttest.Systemd{}}
	hosttest.OK(t, store.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: uid, GID: uid, Home: "/home/alice"}))
	v := &revocation{Run: &host.Run{Host: h}, account: store.Accounts[0], ids: machine.UIDs{Own: uid}}
	for _, s := range Steps {
		if slices.Contains([]string{"mounts", "home", "files"}, s.Name) {
			if err := s.do(v, t.Context()); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
	}
	for _, gone := range []string{"home/alice", "run/user/20077"} {
		if hosttest.There("/", gone) {
			t.Errorf("/%s is still there", gone)
		}
	}
	mounts, err := m.Mounts()
	hosttest.OK(t, err)
	left := map[string]bool{}
	for _, mt := range mounts {
		left[mt.Point] = true
	}
	if left["/srv/alice"] || left["/home/alice/data"] || left["/home/alice/more"] || left["/run/user/20077"] || !left["/srv/site"] || !left["/run/user/20078"] {
		t.Errorf("mounts are left, or too many are gone: %v", left)
	}
}

func TestARevokeTellsOfADirectoryThatHoldsAnothersEntry(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "data/alice/own", "x")
	hosttest.Put(t, dir, "data/alice/of-root", "x")
	for _, name := range []string{"data/alice", "data/alice/own"} {
		hosttest.OK(t, os.Lchown(filepath.Join(dir, name), hosttest.AttackerUID, hosttest.AttackerUID))
	}
	v := &revocation{Run: &host.Run{Host: h}, account: host.Account{AllocationID: "a-1", Username: "alice", UID: hosttest.AttackerUID, Home: "/home/alice"}, ids: machine.UIDs{Own: hosttest.AttackerUID}}
	_, err := h.Machine.Empty(t.Context(), "/data", v.tree(v.owned))
	hosttest.OK(t, err)
	if hosttest.There(dir, "data/alice/own") || !hosttest.There(dir, "data/alice/of-root") {
		t.Error("what is not the user's was removed, or what is was not")
	}
	if f := v.report.Findings; len(f) != 1 || f[0].Check != checkFiles || f[0].Subject != "/data/alice" || f[0].NextAction != taskcatalog.ActionReimage {
		t.Errorf("found %+v", f)
	}
}

func TestARevokeOfFilesOnAFileSystemThatIsReadOnlyFails(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	hosttest.OK(t, os.MkdirAll("/data", 0o755))
	hosttest.OK(t, unix.Mount("tmpfs", "/data", "tmpfs", 0, ""))
	const uid = 20077
	hosttest.Put(t, "/", "data/weights", "a user's")
	hosttest.OK(t, os.Chown("/data/weights", uid, uid))
	hosttest.OK(t, unix.Mount("", "/data", "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	store := &hosttest.Ledger{}
	h := &host.Host{Machine: m, Accounts: store, Marks: store}
	v := &revocation{Run: &host.Run{Host: h}, account: host.Account{AllocationID: "a-1", Username: "alice", UID: uid}, ids: machine.UIDs{Own: uid}}
	if err := v.files(t.Context()); err == nil || !strings.Contains(err.Error(), "/data: mounted read-only") {
		t.Errorf("the revoke says %v", err)
	}
	hosttest.OK(t, unix.Mount("", "/data", "", unix.MS_REMOUNT, ""))
	hosttest.OK(t, v.files(t.Context()))
	if hosttest.There("/", "data/weights") {
		t.Error("the user's file is still there")
	}
}
