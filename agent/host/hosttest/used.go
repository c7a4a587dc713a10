package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// BootID is the boot id of a used box.
const BootID = "0a1b2c3d-0000-4000-8000-00000000cafe"

// Used is a box with everything that a cleanup looks at, beside the files of users.
func Used(t *testing.T) (*host.Host, string) {
	t.Helper()
	h, dir := Box(t)
	Put(t, dir, "proc/1/mountinfo", "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n")
	Put(t, dir, "proc/sys/kernel/random/boot_id", BootID+"\n")
	Put(t, dir, "proc/sys/kernel/core_pattern", "/var/cores/core.%e.%p\n")
	Put(t, dir, "proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
	OK(t, os.MkdirAll(filepath.Join(dir, "sys/block"), 0o755))
	OK(t, os.MkdirAll(filepath.Join(dir, "proc/1/ns"), 0o755))
	OK(t, os.Symlink("net:[4026531840]", filepath.Join(dir, "proc/1/ns/net")))
	return h, dir
}

// Untouched is the baseline of a box.
func Untouched() *taskcatalog.Baseline {
	return &taskcatalog.Baseline{
		Users: []taskcatalog.BaselineUser{
			{Name: "root", Home: "/root"},
			{Name: "daemon", UID: 1, Home: "/usr/sbin"},
			{Name: "ubuntu", UID: 1000, Home: "/home/ubuntu"},
		},
		Mounts: []string{"/ ext4 /"},
	}
}

// There reports whether the machine in dir has the name.
func There(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// Process puts a process into /proc of a box.
func Process(t *testing.T, dir string, pid int, uid uint32, exe, cgroup, netns string) {
	t.Helper()
	own := fmt.Sprintf("proc/%d/", pid)
	Put(t, dir, own+"stat",
		fmt.Sprintf("%d (x) S 1 %d %d 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", pid, pid, pid))
	Put(t, dir, own+"status", fmt.Sprintf("Name:\tx\nUid:\t%d\t%d\t%d\t%d\n", uid, uid, uid, uid))
	Put(t, dir, own+"cgroup", "0::"+cgroup+"\n")
	OK(t, os.MkdirAll(filepath.Join(dir, own, "ns"), 0o755))
	OK(t, os.Symlink(exe, filepath.Join(dir, own, "exe")))
	OK(t, os.Symlink(netns, filepath.Join(dir, own, "ns/net")))
}
