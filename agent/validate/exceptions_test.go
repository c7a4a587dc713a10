package validate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// Things that the system creates under these names are no finding; things that somebody else puts
// there are. A name alone excepts nothing of unknown content.
func TestWhatIsExceptedByItsNameIsLookedAtByWhatIsInIt(t *testing.T) {
	honest := func(t *testing.T) *whole {
		w := newWhole(t)
		w.h.Scratch = []string{"/share*"}
		for _, dir := range []string{"tmp/snap-private-tmp/snap.lxd/tmp", "tmp/lost+found", "home/lost+found", "share1/lost+found", "var/crash/lost+found"} {
			hosttest.OK(t, os.MkdirAll(filepath.Join(w.dir, dir), 0o700))
		}
		for _, file := range []string{
			"usr/share/doc/x/readme", "usr/share/mime/mime.cache", "usr/lib/x/__pycache__/x.cpython-312.pyc", "etc/lvm/archive/vg_00001.vg",
			"boot/grub/grubenv", "var/spool/cron/atjobs/.SEQ", "root/.ssh/known_hosts", "run/systemd/transient/session-1.scope", "var/lib/docker/volumes/metadata.db",
		} {
			hosttest.Put(t, w.dir, file, "x")
		}
		hosttest.OK(t, os.Symlink("x.1", filepath.Join(w.dir, "usr/share/doc/x/link")))
		w.take(t)
		for _, file := range []string{"usr/share/doc/x/readme", "usr/share/mime/mime.cache", "usr/lib/x/__pycache__/x.cpython-312.pyc", "etc/lvm/archive/vg_00001.vg", "boot/grub/grubenv", "var/spool/cron/atjobs/.SEQ", "root/.ssh/known_hosts"} {
			hosttest.Put(t, w.dir, file, "the system changes it")
		}
		return w
	}
	w := honest(t)
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Fatalf("the system's own is %s: %q, not looked at are %q", got.Verdict, told(report), notMade(t, report))
	}
	for _, c := range []struct {
		row, file string
		mode      os.FileMode
	}{
		{"temporary", "tmp/snap-private-tmp/snap.lxd/tmp/weights", 0o600},
		{"temporary", "tmp/snap-private-tmp/snap.lxd/weights", 0o600},
		{"temporary", "tmp/snap-private-tmp/weights", 0o600},
		{"temporary", "tmp/lost+found/#12", 0o600},
		{"homes", "home/lost+found/#12", 0o600},
		{"scratch", "share1/lost+found/#12", 0o600},
		{"dumps", "var/crash/lost+found/#12", 0o600},
		{"programs", "usr/share/doc/x/implant", 0o755},
		{"programs", "usr/share/fonts/implant", 0o755},
		{"programs", "usr/share/mime/implant", 0o755},
		{"programs", "usr/lib/x/__pycache__/implant.so", 0o644},
		{"programs", "usr/lib/x/__pycache__/implant.pyc", 0o755},
		{"config", "etc/lvm/archive/implant", 0o755},
		{"units", "run/systemd/transient/user@evil.service", 0o644},
		{"boot", "boot/grub/x/grubenv", 0o755},
		{"jobs", "var/spool/cron/crontabs/.SEQ", 0o600},
		{"authorized_keys", "root/.ssh/known_hosts_of_nobody", 0o600},
	} {
		t.Run(c.file, func(t *testing.T) {
			w := honest(t)
			hosttest.Put(t, w.dir, c.file, "x")
			hosttest.OK(t, os.Chmod(filepath.Join(w.dir, c.file), c.mode))
			got, report := w.judge(t)
			if got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{c.row + " /" + c.file}) {
				t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
		})
	}
	t.Run("of a tenant's", func(t *testing.T) {
		w := honest(t)
		for _, name := range []string{"share1/lost+found", "var/lib/docker/volumes/metadata.db", "tmp/snap-private-tmp"} {
			hosttest.OK(t, os.Lchown(filepath.Join(w.dir, name), stranger, stranger))
		}
		_, report := w.judge(t)
		for _, want := range []string{"scratch /share1/lost+found", "containers /var/lib/docker/volumes/metadata.db", "temporary /tmp/snap-private-tmp"} {
			if !slices.Contains(told(report), want) {
				t.Errorf("%s is not among %q", want, told(report))
			}
		}
	})
}
