package validate

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// Every kind of tenant file is found while it exists, and a revoke removes all of it: afterwards
// the machine is clean, and no other user's file was touched.
func TestWhateverFilesATenantMakesAreFoundAndThenGone(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(t *testing.T, dir string, uid int)
	}{
		{"200,000 entries", func(t *testing.T, dir string, uid int) {
			many := filepath.Join(dir, "tmp/many")
			hosttest.OK(t, os.Mkdir(many, 0o755))
			hosttest.OK(t, os.Lchown(many, uid, uid))
			fd, err := unix.Open(many, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			hosttest.OK(t, err)
			defer unix.Close(fd)
			for i := range 200_000 {
				hosttest.OK(t, unix.Mknodat(fd, fmt.Sprint(i), unix.S_IFREG|0o600, 0))
				hosttest.OK(t, unix.Fchownat(fd, fmt.Sprint(i), uid, uid, unix.AT_SYMLINK_NOFOLLOW))
			}
		}},
		{"a sparse file of 8 EiB", func(t *testing.T, dir string, uid int) {
			for _, name := range []string{"tmp/sparse", "var/spool/cron/crontabs/sparse"} {
				hosttest.Put(t, dir, name, "")
				hosttest.OK(t, os.Truncate(filepath.Join(dir, name), math.MaxInt64))
				hosttest.OK(t, os.Lchown(filepath.Join(dir, name), uid, uid))
			}
		}},
		{"immutable and append-only files", func(t *testing.T, dir string, uid int) {
			hosttest.Put(t, dir, "tmp/a/immutable", "x")
			hosttest.Put(t, dir, "tmp/a/append", "x")
			for _, a := range []struct {
				name string
				flag int
			}{{"tmp/a/immutable", unix.STATX_ATTR_IMMUTABLE}, {"tmp/a/append", unix.STATX_ATTR_APPEND}, {"tmp/a", unix.STATX_ATTR_IMMUTABLE}} {
				hosttest.OK(t, os.Lchown(filepath.Join(dir, a.name), uid, uid))
				setAttribute(t, filepath.Join(dir, a.name), a.flag)
			}
		}},
		{"odd names", func(t *testing.T, dir string, uid int) {
			for _, name := range []string{"a\nb", "\x1b[2J", "\xff\xfe", "..x", " ", "-rf", "*", strings.Repeat("x", 255), "lost+found", "snap-private-tmp", ".X11-unix", "systemd-private-" + strings.ReplaceAll(hosttest.BootID, "-", "") + "-ssh.service-AbCd12"} {
				for _, where := range []string{"tmp", "var/tmp", "dev/shm"} {
					hosttest.Put(t, dir, filepath.Join(where, name, name), "x")
					hosttest.OK(t, os.Lchown(filepath.Join(dir, where, name, name), uid, uid))
					hosttest.OK(t, os.Lchown(filepath.Join(dir, where, name), uid, uid))
				}
			}
		}},
		{"a file in a directory that an ACL opens", func(t *testing.T, dir string, uid int) {
			hosttest.Put(t, dir, "var/lib/site/x", "x")
			hosttest.OK(t, os.Lchown(filepath.Join(dir, "var/lib/site/x"), uid, uid))
			acl := binary.LittleEndian.AppendUint32(nil, 2)
			for _, e := range []struct {
				tag, perm uint16
				id        uint32
			}{{1, 7, math.MaxUint32}, {2, 7, uint32(uid)}, {4, 5, math.MaxUint32}, {0x10, 7, math.MaxUint32}, {0x20, 5, math.MaxUint32}} {
				acl = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(acl, e.tag), e.perm), e.id)
			}
			hosttest.OK(t, unix.Setxattr(filepath.Join(dir, "var/lib/site"), "system.posix_acl_access", acl, 0))
			st, err := os.Stat(filepath.Join(dir, "var/lib/site"))
			if hosttest.OK(t, err); st.Mode()&0o020 == 0 {
				t.Fatalf("an entry of an ACL lets somebody write, and the mode is %v", st.Mode())
			}
		}},
		{"links among jobs", func(t *testing.T, dir string, uid int) {
			hosttest.Put(t, dir, "tmp/job", "* * * * * true\n")
			hosttest.OK(t, os.Lchown(filepath.Join(dir, "tmp/job"), uid, uid))
			hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "var/spool/at/dir"), 0o755))
			hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "var/spool/cron/crontabs"), 0o755))
			hosttest.OK(t, os.Link(filepath.Join(dir, "tmp/job"), filepath.Join(dir, "var/spool/at/a00001")))
			hosttest.OK(t, os.Link(filepath.Join(dir, "tmp/job"), filepath.Join(dir, "var/spool/cron/crontabs/alice")))
			for _, link := range []string{"var/spool/at/a00002", "var/spool/cron/crontabs/mallory", "var/spool/at/dir/a00003"} {
				hosttest.OK(t, os.Symlink("/etc/shadow", filepath.Join(dir, link)))
				hosttest.OK(t, os.Lchown(filepath.Join(dir, link), uid, uid))
			}
			hosttest.OK(t, os.Lchown(filepath.Join(dir, "var/spool/at/dir"), uid, uid))
		}},
		{"a home that is a link", func(t *testing.T, dir string, uid int) {
			hosttest.OK(t, os.RemoveAll(filepath.Join(dir, "home/alice")))
			hosttest.OK(t, os.Symlink("/etc", filepath.Join(dir, "home/alice")))
			hosttest.OK(t, os.Lchown(filepath.Join(dir, "home/alice"), uid, uid))
		}},
		{"a home that is a FIFO", func(t *testing.T, dir string, uid int) {
			hosttest.OK(t, os.RemoveAll(filepath.Join(dir, "home/alice")))
			hosttest.OK(t, unix.Mkfifo(filepath.Join(dir, "home/alice"), 0o600))
			hosttest.OK(t, os.Lchown(filepath.Join(dir, "home/alice"), uid, uid))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWhole(t)
			shadow := hosttest.Read(t, w.dir, "etc/shadow")
			res := letIn(t, w.h, "a-1", "alice")
			for _, dir := range []string{"var/spool/cron/crontabs", "var/spool/at", "var/lib"} {
				hosttest.OK(t, os.MkdirAll(filepath.Join(w.dir, dir), 0o755))
			}
			c.plant(t, w.dir, int(res.UID))
			if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictNotClean {
				t.Errorf("before the revoke the verdict is %s, found %q", got.Verdict, told(report))
			}
			if report, err := putOut(t, w.h, "a-1", "alice"); err != nil {
				t.Fatalf("%v: %+v", err, report)
			}
			got, report := w.judge(t)
			if got.Verdict != taskcatalog.VerdictClean {
				t.Errorf("after the revoke the verdict is %s, found %q, not looked at are %q", got.Verdict, told(report), notMade(t, report))
			}
			if now := hosttest.Read(t, w.dir, "etc/shadow"); now != shadow {
				t.Errorf("another's file was changed: %q", now)
			}
		})
	}
}

// setAttribute sets an attribute of a file, and clears it before the test's directory is removed.
func setAttribute(t *testing.T, name string, flag int) {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	hosttest.OK(t, err)
	defer unix.Close(fd)
	if err := unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flag); err != nil {
		t.Skipf("a file system without attributes: %v", err)
	}
	t.Cleanup(func() {
		if fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0)
			unix.Close(fd)
		}
	})
}
