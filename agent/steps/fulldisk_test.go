package steps_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// small mounts a file system of so many bytes, or changes the size of the one that is there.
func small(t *testing.T, dir string, bytes int, flags uintptr) {
	t.Helper()
	hosttest.OK(t, errors.Join(os.MkdirAll(dir, 0o755), unix.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("mode=755,size=%d", bytes))))
}

// Packages that have no room are disk_full. What was unpacked is configured, what was downloaded or begun is gone, and
// with more room the same step ends well.
func TestPackagesForWhichThereIsNoRoomLeaveNothingHalfDone(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	install, look, _ := aptSystem(t)
	debSource(t, "/good", true, deb{name: "ht-a", version: "1.0"},
		deb{name: "ht-big", version: "1.0", control: "Depends: ht-a\n", data: 1 << 20})
	small(t, "/usr/share/ht-data", 256<<10, 0)
	const kept = "/var/cache/apt/archives/ht-a_1.0_all.deb" // as of a source on the network
	hosttest.Put(t, "/", kept, "downloaded")
	_, err := install("ht-a=1.0", "ht-big=1.0")
	if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskFull || steps.Final(taskcatalog.CodeDiskFull) || look("ht-big=1.0") {
		t.Fatalf("%v, want %s", err, taskcatalog.CodeDiskFull)
	}
	if names, err := os.ReadDir("/usr/share/ht-data"); err != nil || len(names) > 0 {
		t.Errorf("a half package is left: %v, %v", names, err)
	}
	if _, err := os.Stat(kept); err == nil {
		t.Error("what was downloaded keeps the disk full")
	}
	for line := range strings.Lines(hosttest.Read(t, "/", "var/lib/dpkg/status")) {
		if strings.HasPrefix(line, "Status:") && (strings.Contains(line, "unpacked") || strings.Contains(line, "half-")) {
			t.Errorf("dpkg has left a package with %s", line)
		}
	}
	small(t, "/usr/share/ht-data", 8<<20, unix.MS_REMOUNT)
	if _, err := install("ht-a=1.0", "ht-big=1.0"); err != nil || !look("ht-a=1.0", "ht-big=1.0") {
		t.Errorf("with more room: %v", err)
	}
}

// An environment that has no room is disk_full, and leaves nothing but its mark. Wheels leave room for the agent's own
// state.
func TestAnEnvironmentForWhichThereIsNoRoomLeavesNothingHalfDone(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	p := newPythonTest(t)
	raw := wheelOf(t, "ht_one", "1.0", "value = 1\n"+strings.Repeat("# a line of a large module\n", 30000))
	p.put("ht-one", "ht_one-1.0-py3-none-any.whl", "/files/ht_one-1.0-py3-none-any.whl", raw)
	lock := "ht-one==1.0" + hashOf(raw)
	small(t, "/opt/ht", 300<<10, 0)
	_, err := p.create(t, lock)
	if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskFull || p.done(t) {
		t.Fatalf("%v, want %s", err, taskcatalog.CodeDiskFull)
	}
	if names, err := os.ReadDir(envDir); err != nil || len(names) != 1 || names[0].Name() != ".hostler-environment" {
		t.Errorf("a half environment is left: %v, %v", names, err)
	}
	small(t, "/opt/ht", 64<<20, unix.MS_REMOUNT)
	if _, err := p.create(t, lock); err != nil || !p.done(t) {
		t.Errorf("with more room: %v", err)
	}
	hosttest.OK(t, os.RemoveAll(envDir))
	small(t, p.step.Host.StateDir, 64<<20, 0)
	if _, err := p.create(t, lock); taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskFull {
		t.Errorf("wheels where only the agent's own state has room: %v", err)
	}
	if left, err := filepath.Glob(p.step.Host.StateDir + "/*/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if _, err := os.Lstat(envDir); err == nil {
		t.Error("an environment was begun")
	}
}
