package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
)

// Jailed returns a host in a jail with a user whose account is already gone, so that no account
// tool is needed.
func Jailed(t *testing.T, files map[string][]byte) *host.Host {
	t.Helper()
	for name, raw := range files {
		OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		OK(t, os.WriteFile(name, raw, 0o755))
	}
	for _, d := range []string{
		"/usr/sbin", "/etc/sudoers.d", "/home/alice", "/var/lib/systemd/linger", "/var/spool/cron/crontabs",
		"/var/spool/cron/atjobs", "/dev/shm", "/dev/mqueue", "/tmp",
	} {
		OK(t, os.MkdirAll(d, 0o755))
	}
	OK(t, unix.Mknod("/dev/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	OK(t, os.Chmod("/dev/null", 0o666))
	OK(t, os.WriteFile(fleeing, program(fleeingCode), 0o755))
	Put(t, "/", "etc/passwd", "root:x:0:0::/root:/bin/sh\n")
	Put(t, "/", "etc/group", "root:x:0:\n")
	Put(t, "/", "etc/subuid", "alice:165536:64\nbob:231072:65536\n")
	OK(t, os.Symlink("/proc/self/exe", "/usr/sbin/groupdel"))
	m, err := machine.Open("/")
	OK(t, err)
	t.Cleanup(func() { m.Close() })
	store := &Ledger{}
	OK(t, store.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: AttackerUID, GID: AttackerUID, Home: "/home/alice"}))
	return &host.Host{Machine: m, Now: time.Now, Log: zap.NewNop(), Accounts: store, Marks: store, Systemd: &Systemd{}}
}

// Libraries returns the libraries of this test's binary, by path, to be put onto an empty machine.
func Libraries(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	maps, err := os.ReadFile("/proc/self/maps")
	OK(t, err)
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		if len(f) != 6 || !strings.Contains(f[5], ".so") {
			continue
		}
		raw, err := os.ReadFile(f[5])
		OK(t, err)
		// The program names its loader, and the loader its libraries, by one of these directories.
		for _, dir := range []string{filepath.Dir(f[5]), "/lib64", "/lib"} {
			files[filepath.Join(dir, filepath.Base(f[5]))] = raw
		}
	}
	return files
}
