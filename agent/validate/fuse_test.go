package validate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAFUSEThatNeverAnswersHoldsUpNoTask(t *testing.T) {
	files := hosttest.Libraries(t)
	if !hosttest.Jail(t) {
		return
	}
	h := hosttest.Jailed(t, files)
	hosttest.OK(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))))
	m := h.Machine
	h.Scratch = []string{"/scratch*/*"}
	hosttest.OK(t, os.MkdirAll("/scratch0", 0o755))
	hosttest.HangFUSE(t, "/tmp/of bob's", hosttest.BystanderUID, "allow_other")
	hosttest.HangFUSE(t, "/home/bob/mnt", hosttest.BystanderUID)
	// A validation, and a revoke of another user, meet the FUSE; neither detaches it.
	v := newLook(h, &taskcatalog.Baseline{Users: []taskcatalog.BaselineUser{{Name: "root"}}})
	v.users = map[uint32]string{0: "root"}
	for what, look := range map[string]func(context.Context, *validation) ([]item, error){
		"files": lookFiles, "mounts": lookMounts, "scratch": lookScratch, "homes": lookHomes,
	} {
		hosttest.Soon(t, m, "look at "+what, func() error {
			_, err := look(t.Context(), v)
			return err
		})
	}
	for _, hung := range []string{"/home/alice/data", "/scratch0/alice", "/srv/alice", "/home/alice/.ssh"} {
		hosttest.HangFUSE(t, hung, hosttest.AttackerUID, "allow_other")
	}
	hosttest.HangFUSE(t, "/var/tmp/dead", hosttest.AttackerUID)()
	// The whole home is covered, and every mount in it.
	hosttest.HangFUSE(t, "/home/alice", hosttest.AttackerUID)
	hosttest.Soon(t, m, "a look through a process's root", func() error {
		if _, err := m.StatIn("/proc/self/root", "/srv/alice/x"); !errors.Is(err, machine.ErrFUSE) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	hosttest.Soon(t, m, "revoke", func() error {
		_, err := putOut(t, h, "a-1", "alice")
		return err
	})
	for _, at := range hosttest.MountPoints(t, m) {
		if slices.Contains([]string{"/home/alice", "/home/alice/data", "/home/alice/.ssh", "/scratch0/alice", "/srv/alice", "/var/tmp/dead"}, at) {
			t.Errorf("%s is still mounted", at)
		}
	}
	if got := hosttest.MountPoints(t, m); !slices.Contains(got, "/home/bob/mnt") {
		t.Errorf("another user's mount is gone: %q", got)
	}
	if hosttest.There("/", "home/alice") {
		t.Error("the home is still there")
	}
}
