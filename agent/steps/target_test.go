package steps

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// A mount below the root leads elsewhere: no pull writes through it, and what lies there proves nothing. The root
// itself may be a mount.
func TestAPullCrossesNoMountBelowItsRoot(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	for _, d := range []string{"/tmp", "/target", "/data/llama", "/var/lib/models"} {
		hosttest.OK(t, os.MkdirAll(d, 0o755))
	}
	hosttest.OK(t, unix.Mount("/data", "/var/lib/models", "", unix.MS_BIND, ""))
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	defer func() { _ = m.Close() }()
	b, o := newBlob(t, "https_signed", "models.example/public/weights.bin"), newOCI(t)
	b.host.Machine, o.host.Machine = m, m
	for _, pull := range []func() error{
		func() error { return doKind(t, b.step(), "artifact.pull_blob") },
		func() error { return doKind(t, o.step(), "artifact.pull_oci") },
	} {
		hosttest.OK(t, unix.Mount("/target", "/var/lib/models/llama", "", unix.MS_BIND, ""))
		if err := pull(); taskcatalog.CodeOf(err, "") != taskcatalog.CodePathRefused {
			t.Errorf("a pull through a mount: %v, want %s", err, taskcatalog.CodePathRefused)
		}
		if names, err := os.ReadDir("/target"); err != nil || len(names) > 0 {
			t.Errorf("a pull has written %v behind a mount: %v", names, err)
		}
		hosttest.OK(t, unix.Unmount("/var/lib/models/llama", 0))
		hosttest.OK(t, pull())
	}
	b.looks(true)
	o.proven(true)
	hosttest.OK(t, os.Rename("/data/llama", "/data/aside"))
	hosttest.OK(t, os.Mkdir("/data/llama", 0o755))
	hosttest.OK(t, unix.Mount("/data/aside", "/var/lib/models/llama", "", unix.MS_BIND, ""))
	b.looks(false)
	kind, _ := Lookup("artifact.pull_oci")
	if _, done, err := kind.Look(t.Context(), o.step()); done || err != nil {
		t.Errorf("an artifact behind a mount is proven: %v", err)
	}
}

func doKind(t *testing.T, s *Step, name string) error {
	t.Helper()
	kind, _ := Lookup(name)
	_, err := kind.Do(t.Context(), s)
	return err
}

// A file system without room is disk_full, whatever a step writes. What was received goes, so that it does not keep the
// disk full.
func TestAFullDiskHasACodeAndNoHalfFile(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	for _, d := range []string{"/tmp", "/var/lib/models", "/etc/demo"} {
		hosttest.OK(t, os.MkdirAll(d, 0o755))
	}
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	defer func() { _ = m.Close() }()
	hosttest.OK(t, unix.Mount("tmpfs", "/var/lib/models", "tmpfs", 0, "size=1m,mode=755"))
	hosttest.OK(t, unix.Mount("tmpfs", "/etc/demo", "tmpfs", 0, "size=4k,nr_inodes=3,mode=755"))
	b := newBlob(t, "https_signed", "models.example/public/weights.bin")
	b.host.Machine = m
	if err := doKind(t, b.step(), "artifact.pull_blob"); taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskFull {
		t.Errorf("a pull: %v", err)
	}
	if names, err := os.ReadDir("/var/lib/models/llama"); err != nil || len(names) > 0 {
		t.Errorf("a pull has left %v, %v", names, err)
	}
	s := aStep(t, b.host, "file.render", fileArgs(nil))
	s.Args["template"] = strings.Repeat("x", 64<<10)
	if err := FullDisk(doKind(t, s, "file.render")); taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskFull {
		t.Errorf("a file: %v", err)
	}
	for _, other := range []error{nil, unix.EIO, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "no")} {
		if got := FullDisk(other); got != other {
			t.Errorf("%v became %v", other, got)
		}
	}
}
