package steps

import (
	"os"
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
