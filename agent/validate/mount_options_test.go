package validate

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
)

// A user with root may remount the file system of their files read-only, or let programs run where
// they could not.
func TestAMountWithOtherOptionsIsFound(t *testing.T) {
	h, dir := hosttest.Used(t)
	table := func(data, shm string) {
		t.Helper()
		hosttest.Put(t, dir, "proc/1/mountinfo", "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n23 22 254:2 / /data "+data+",relatime - ext4 /dev/vdb rw\n24 22 0:20 / /dev/shm "+shm+" - tmpfs tmpfs rw\n")
	}
	table("rw", "rw,nosuid,nodev,noexec")
	base := baseOf(t, h, lookMounts)
	table("rw,noatime", "noexec,rw,nodev,nosuid")
	if got := keys(t, newLook(h, base), lookMounts); len(got) > 0 {
		t.Fatalf("what is as it was has findings: %q", got)
	}
	table("ro", "rw,nosuid,nodev")
	want := []string{"mounts options ro of /data ext4 /", "mounts options rw,nosuid,nodev of /dev/shm tmpfs /"}
	if got := keys(t, newLook(h, base), lookMounts); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := (host.Known{Base: base}).Foreign([]machine.Mount{{Point: "/data", Type: "ext4", Root: "/", Access: "ro"}}); len(got) > 0 {
		t.Errorf("a mount of the baseline with other options is to be detached: %+v", got)
	}
}

func TestAFileSystemThatWasMadeReadOnlyHidesNothing(t *testing.T) {
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
	if got := keys(t, newLook(h, nil), lookFiles); !slices.Contains(got, "files foreign//data/weights uid 20077") {
		t.Errorf("found %q", got)
	}
}
