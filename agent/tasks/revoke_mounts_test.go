package tasks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
)

// A user may mount FUSE without root, and the mount outlives its server process: then nobody can
// even look at it.
func TestWhatAUserMountedDoesNotKeepTheUserHere(t *testing.T) {
	if !jail(t) {
		return
	}
	for _, d := range []string{"/dev", "/etc/sudoers.d", "/home/alice/data", "/home/alice/more", "/srv/alice", "/srv/site", "/var/lib/systemd/linger"} {
		ok(t, os.MkdirAll(d, 0o755))
	}
	put(t, "/", "etc/passwd", "root:x:0:0::/root:/bin/sh\n") // the account was removed before the revoke
	put(t, "/", "etc/group", "root:x:0:\n")
	ok(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))))
	const uid = 20077
	dead := func(point string, owner int) {
		t.Helper()
		fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
		if err != nil {
			t.Skipf("no FUSE here: %v", err)
		}
		ok(t, unix.Mount("sshfs", point, "fuse.sshfs", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, owner, owner)))
		ok(t, unix.Close(fd))
		if _, err := os.Lstat(point); err == nil {
			t.Fatal("the mount is not dead: the test proves nothing")
		}
	}
	dead("/home/alice/data", uid)
	dead("/srv/alice", uid)
	ok(t, unix.Mount("tmpfs", "/home/alice/more", "tmpfs", 0, ""))
	ok(t, unix.Mount("tmpfs", "/srv/site", "tmpfs", 0, ""))
	m, err := machine.Open("/")
	ok(t, err)
	store := &memory{}
	h := &host.Host{Machine: m, Now: time.Now, Log: zap.NewNop(), Accounts: store, Marks: store, Systemd: &quietSystemd{}}
	ok(t, store.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: uid, GID: uid, Home: "/home/alice"}))
	v := &revocation{Run: &host.Run{Host: h}, account: store.accounts[0], ids: machine.UIDs{Own: uid}}
	for name, do := range map[string]error{"mounts": v.mounts(t.Context()), "home": v.home(t.Context()), "files": v.files(t.Context())} {
		if do != nil {
			t.Errorf("%s: %v", name, do)
		}
	}
	if there("/", "home/alice") {
		t.Error("the home is still there")
	}
	mounts, err := m.Mounts()
	ok(t, err)
	left := map[string]bool{}
	for _, mt := range mounts {
		left[mt.Point] = true
	}
	if left["/srv/alice"] || left["/home/alice/data"] || left["/home/alice/more"] || !left["/srv/site"] {
		t.Errorf("mounts are left, or too many are gone: %v", left)
	}
}
