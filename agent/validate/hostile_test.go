package validate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// showable reports whether text can be displayed safely: nothing in it moves a cursor, starts
// another line or turns the direction of reading.
func showable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\a\b\n\r\t\x1b\x7f\u009b\u200b\u2028\u202e\ufeff") && len(s) <= taskcatalog.MaxText
}

// wantShowable checks all text of a report.
func wantShowable(t *testing.T, r taskcatalog.Report) {
	t.Helper()
	for _, f := range r.Findings {
		if !showable(f.Check) || !showable(f.Subject) || !showable(f.Detail) || !showable(f.NextAction) {
			t.Errorf("not fit to show: %+q", []string{f.Check, f.Subject, f.Detail, f.NextAction})
		}
	}
	for _, c := range r.Checks {
		if !showable(c.Name) || !showable(c.Reason) {
			t.Errorf("not fit to show: %q: %q", c.Name, c.Reason)
		}
	}
}

// Markup such as <script> stays unchanged: a viewer that shows a finding as HTML escapes it, and a
// changed name would no longer be a path.
func TestNamesThatATenantChoseAreCleanedInFindings(t *testing.T) {
	long := strings.Repeat("long\x1b/", 300)
	for _, c := range []struct {
		name    string
		do      func(t *testing.T, w *whole)
		finding taskcatalog.Finding
	}{
		{
			"process named by escape sequences", func(t *testing.T, w *whole) {
				w.process(t, 501, 0, "\x1b[2J)\x9b\n (x", "/tmp/\x1b]0;x\a", "/system.slice/\u202e.service")
			},
			taskcatalog.Finding{Check: "processes", Subject: `501 \x1b[2J)\x9b\x0a (x`, Detail: `/tmp/\x1b]0;x\x07; in \u{202e}.service`},
		},
		{
			"path of markup", func(t *testing.T, w *whole) { hosttest.Put(t, w.dir, "tmp/<script>alert(1)<", "x") },
			taskcatalog.Finding{Check: "temporary", Subject: "/tmp/<script>alert(1)<"},
		},
		{
			"path that is no UTF-8", func(t *testing.T, w *whole) { hosttest.Put(t, w.dir, "tmp/a\xff\xc0\xafb", "x") },
			taskcatalog.Finding{Check: "temporary", Subject: `/tmp/a\xff\xc0\xafb`},
		},
		{
			"watched path that is no UTF-8", func(t *testing.T, w *whole) { hosttest.Put(t, w.dir, "etc/cron.d/\xfe\r\n", "x") },
			taskcatalog.Finding{Check: "cron", Subject: `/etc/cron.d/\xfe\x0d\x0a`},
		},
		{
			"path that is longer than a finding", func(t *testing.T, w *whole) { hosttest.Put(t, w.dir, "etc/cron.d/"+long+"x", "x") },
			taskcatalog.Finding{Check: "cron", Subject: taskcatalog.Clean("/etc/cron.d/"+long, taskcatalog.MaxText)},
		},
		{
			"link to hostile text", func(t *testing.T, w *whole) {
				hosttest.OK(t, os.Symlink("\x1b[31m\xff", filepath.Join(w.dir, "etc/x")))
			},
			taskcatalog.Finding{Check: "config", Subject: "/etc/x", Detail: `not in the baseline: link:\x1b[31m\xff`},
		},
		{
			"account named by escape sequences", func(t *testing.T, w *whole) {
				hosttest.Put(t, w.dir, "etc/passwd", hosttest.Read(t, w.dir, "etc/passwd")+"\x1b[8m\xff:x:0:0::/root:/bin/sh\n")
			},
			taskcatalog.Finding{Check: "users", Subject: `\x1b[8m\xff`, Detail: "an account that is not in the baseline, uid 0"},
		},
		{
			"group named by escape sequences", func(t *testing.T, w *whole) {
				hosttest.Put(t, w.dir, "etc/group", hosttest.Read(t, w.dir, "etc/group")+"\x1b[8m\xff:x:0:\u202eroot\n")
			},
			taskcatalog.Finding{Check: "users", Subject: `group \x1b[8m\xff`, Detail: `gid and members differ from the baseline: 0:\u{202e}root`},
		},
		{
			"mount point of escape sequences", func(t *testing.T, w *whole) {
				hosttest.Put(t, w.dir, "proc/1/mountinfo", hosttest.Read(t, w.dir, "proc/1/mountinfo")+"23 22 0:40 / /mnt/\x1b[2J\xff rw - tmpfs tmpfs rw\n")
			},
			taskcatalog.Finding{Check: "mounts", Subject: `/mnt/\x1b[2J\xff`, Detail: "tmpfs /"},
		},
		{
			"disk image of escape sequences", func(t *testing.T, w *whole) {
				hosttest.Put(t, w.dir, "sys/block/loop0/loop/backing_file", "/tmp/\x1b[2J\xff\n")
			},
			taskcatalog.Finding{Check: "block_devices", Subject: `loop//tmp/\x1b[2J\xff`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWhole(t)
			c.do(t, w)
			got, report := w.judge(t)
			if got.Verdict != taskcatalog.VerdictNotClean || len(report.Findings) != 1 {
				t.Fatalf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
			f := report.Findings[0]
			if f.Check != c.finding.Check || f.Subject != c.finding.Subject || c.finding.Detail != "" && f.Detail != c.finding.Detail {
				t.Errorf("found %+q, want %+q", []string{f.Check, f.Subject, f.Detail}, []string{c.finding.Check, c.finding.Subject, c.finding.Detail})
			}
			wantShowable(t, report)
		})
	}
}

// Files from before the first tenant may have strange names as well.
func TestAStrangeNameOfTheBaselineIsKnownAgain(t *testing.T) {
	w := newWhole(t)
	for _, name := range []string{"etc/cron.d/\xff\x1b", "tmp/\xff\n", "opt/" + strings.Repeat("x", 200) + "\u202e", "boot/\x1b[2J"} {
		hosttest.Put(t, w.dir, name, "x")
	}
	w.process(t, 501, 0, "\x1b", "/opt/\xff", "/system.slice/\x1b.service")
	w.take(t)
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
	}
}

// The error of a failed look may contain names chosen by a tenant.
func TestWhyALookFailedIsCleaned(t *testing.T) {
	w := newWhole(t)
	w.h.Scratch = []string{"/\x1b[2J\xff["}
	hosttest.Put(t, w.dir, "var/lib/dpkg/status", "Package: \x1b[2J\xff\nStatus: install ok installed\nArchitecture: amd64\n")
	hosttest.Put(t, w.dir, "var/lib/dpkg/info/\x1b[2J\xff.md5sums", "none\n")
	got, report := w.judge(t)
	if rows := notMade(t, report); strings.Join(rows, " ") != "packages programs scratch" || got.Verdict != taskcatalog.VerdictInconclusive {
		t.Errorf("the verdict is %s, not looked at are %q, found %q", got.Verdict, rows, told(report))
	}
	wantShowable(t, report)
}

// The names of one row do not crowd out another row's.
func TestManyNamesOfOneRowHideNoOther(t *testing.T) {
	w := newWhole(t)
	for i := range maxPerRow + 7 {
		hosttest.Put(t, w.dir, filepath.Join("etc/cron.d", strings.Repeat("x", i+1)), "x")
	}
	hosttest.Put(t, w.dir, "etc/udev/rules.d/99-implant.rules", "x")
	got, report := w.judge(t)
	if len(report.Findings) != maxPerRow+1 || report.FindingsOmitted != 7 || got.Findings != maxPerRow+8 {
		t.Errorf("%d findings, %d omitted, %d in all", len(report.Findings), report.FindingsOmitted, got.Findings)
	}
	if f := report.Findings[len(report.Findings)-1]; f.Check != "udev" {
		t.Errorf("the last is %+v", f)
	}
}
