package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/taskcatalog"
)

// inNamespace runs the calling test again in a child with a mount namespace of its own, and returns
// false in the child. Mounts of the child are not visible outside.
func inNamespace(t *testing.T) (parent bool) {
	t.Helper()
	const mark = "HOSTLER_TEST_NAMESPACE"
	if os.Getenv(mark) == t.Name() {
		return false
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this machine lets nobody make a mount namespace")
	}
	if err != nil {
		t.Fatalf("in the namespace: %v\n%s", err, out)
	}
	return true
}

// fill takes every byte left on a file system.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "tenant.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, size := range []int{1 << 20, 4096, 1} {
		for piece := make([]byte, size); err == nil; {
			_, err = f.Write(piece)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("filling the disk: %v", err)
		}
		err = nil
	}
}

// The file system of the state directory has no byte left. A node must still be drained, cleaned
// and validated, because these tasks free its space again.
func TestWithoutAByteFreeTasksStillRunAndAreReported(t *testing.T) {
	if inNamespace(t) {
		return
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	inBubble(t, func(l *lab) {
		l.config.StateDir = filepath.Join(disk, "state")
		l.config.StatusFile = filepath.Join(disk, "run", "status.json")
		for id, result := range map[string]any{
			"node.drain@1": &taskcatalog.DrainResult{}, "node.storage_cleanup@1": &taskcatalog.StorageCleanupResult{},
			"node.validate_clean@1": &taskcatalog.ValidateCleanResult{},
		} {
			l.handle(id, do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
				return result, taskcatalog.Report{}, nil
			}))
		}
		p := l.start()
		l.works(p)
		// A file kept until the first boot is complete would free a block later.
		l.until("nothing of the first boot is left to do", func() bool {
			_, err := os.Stat(filepath.Join(l.config.StateDir, "first-boot"))
			return errors.Is(err, fs.ErrNotExist)
		})
		fill(t, disk)
		id := l.nodeID(p)
		for typ, params := range map[string]string{"node.drain": `{}`, "node.storage_cleanup": `{"scope":"local"}`, "node.validate_clean": `{}`} {
			wantResult(t, l.broker.Wait(l.broker.Enqueue(id, typ, params), time.Minute), taskcatalog.OutcomeSucceeded, "")
		}
		// A day later the certificate is renewed from memory, and a restart works.
		time.Sleep(20 * time.Hour)
		l.works(p)
		if !p.state.Unsaved() {
			t.Error("the renewed certificate was written to a full disk?")
		}
		p.quit()
		time.Sleep(24 * time.Hour)
		p = l.start()
		l.works(p)
		if err := os.Remove(filepath.Join(disk, "tenant.bin")); err != nil {
			t.Fatal(err)
		}
		l.until("the certificate is written", func() bool { return !p.state.Unsaved() })
	})
}

// A file system that was full before the agent's first start has no room to reserve. The agent
// reports this instead of starting by half.
func TestADiskThatIsFullFromTheBeginningIsNamed(t *testing.T) {
	if inNamespace(t) {
		return
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	if err := os.Mkdir(filepath.Join(disk, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	fill(t, disk)
	if _, err := ledger.Open(filepath.Join(disk, "state")); taskcatalog.CodeOf(err, "") != taskcatalog.CodeLedgerUnavailable {
		t.Fatal(err)
	}
}
