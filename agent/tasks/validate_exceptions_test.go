package tasks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Things that the system creates under these names are no finding; things that somebody else puts
// there are. A name alone excepts nothing of unknown content.
func TestWhatIsExceptedByItsNameIsLookedAtByWhatIsInIt(t *testing.T) {
	honest := func(t *testing.T) *whole {
		w := newWhole(t)
		w.h.Scratch = []string{"/share*"}
		for _, dir := range []string{"tmp/snap-private-tmp/snap.lxd/tmp", "tmp/lost+found", "home/lost+found", "share1/lost+found", "var/crash/lost+found"} {
			ok(t, os.MkdirAll(filepath.Join(w.dir, dir), 0o700))
		}
		for _, file := range []string{
			"usr/share/doc/x/readme", "usr/share/mime/mime.cache", "usr/lib/x/__pycache__/x.cpython-312.pyc", "etc/lvm/archive/vg_00001.vg",
			"boot/grub/grubenv", "var/spool/cron/atjobs/.SEQ", "root/.ssh/known_hosts", "run/systemd/transient/session-1.scope", "var/lib/docker/volumes/metadata.db",
		} {
			put(t, w.dir, file, "x")
		}
		ok(t, os.Symlink("x.1", filepath.Join(w.dir, "usr/share/doc/x/link")))
		w.take(t)
		for _, file := range []string{"usr/share/doc/x/readme", "usr/share/mime/mime.cache", "usr/lib/x/__pycache__/x.cpython-312.pyc", "etc/lvm/archive/vg_00001.vg", "boot/grub/grubenv", "var/spool/cron/atjobs/.SEQ", "root/.ssh/known_hosts"} {
			put(t, w.dir, file, "the system changes it")
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
			put(t, w.dir, c.file, "x")
			ok(t, os.Chmod(filepath.Join(w.dir, c.file), c.mode))
			got, report := w.judge(t)
			if got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{c.row + " /" + c.file}) {
				t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
		})
	}
	t.Run("of a tenant's", func(t *testing.T) {
		w := honest(t)
		for _, name := range []string{"share1/lost+found", "var/lib/docker/volumes/metadata.db", "tmp/snap-private-tmp"} {
			ok(t, os.Lchown(filepath.Join(w.dir, name), stranger, stranger))
		}
		_, report := w.judge(t)
		for _, want := range []string{"scratch /share1/lost+found", "containers /var/lib/docker/volumes/metadata.db", "temporary /tmp/snap-private-tmp"} {
			if !slices.Contains(told(report), want) {
				t.Errorf("%s is not among %q", want, told(report))
			}
		}
	})
}

// A cleanup leaves no tenant's file in lost+found, and reports directories that it cannot remove.
func TestACleanupTellsOfADirectoryThatHoldsAnothersEntry(t *testing.T) {
	h, dir := used(t)
	private := "tmp/systemd-private-" + strings.ReplaceAll(bootID, "-", "") + "-chrony.service-AbC123"
	put(t, dir, private+"/tmp/strangers/of-root", "x")
	ok(t, os.Chmod(filepath.Join(dir, private), 0o700))
	ok(t, os.Lchown(filepath.Join(dir, private, "tmp/strangers"), stranger, stranger))
	ok(t, os.MkdirAll(filepath.Join(dir, "tmp/lost+found"), 0o700))
	put(t, dir, "tmp/lost+found/#12", "x")
	res, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: untouched()})
	if err == nil || res.Failed != 1 || there(dir, "tmp/lost+found/#12") || !there(dir, "tmp/lost+found") {
		t.Errorf("got %+v, %v", res, err)
	}
	if !slices.ContainsFunc(report.Dispositions, func(d taskcatalog.Disposition) bool {
		return d.Action == taskcatalog.ActionFailed && d.Path == "/"+private+"/tmp/strangers"
	}) {
		t.Errorf("nobody is told: %+v", report.Dispositions)
	}
}

func TestARevokeTellsOfADirectoryThatHoldsAnothersEntry(t *testing.T) {
	h, dir := used(t)
	put(t, dir, "data/alice/own", "x")
	put(t, dir, "data/alice/of-root", "x")
	for _, name := range []string{"data/alice", "data/alice/own"} {
		ok(t, os.Lchown(filepath.Join(dir, name), stranger, stranger))
	}
	v := &revocation{Run: &host.Run{Host: h}, account: host.Account{AllocationID: "a-1", Username: "alice", UID: stranger, Home: "/home/alice"}, ids: machine.UIDs{Own: stranger}}
	_, err := h.Machine.Empty(t.Context(), "/data", v.tree(v.owned))
	ok(t, err)
	if there(dir, "data/alice/own") || !there(dir, "data/alice/of-root") {
		t.Error("what is not the user's was removed, or what is was not")
	}
	if f := v.report.Findings; len(f) != 1 || f[0].Check != checkFiles || f[0].Subject != "/data/alice" || f[0].NextAction != taskcatalog.ActionReimage {
		t.Errorf("found %+v", f)
	}
}
