package validate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// strange returns a machine with more than its baseline in each list that a site's policy may know.
func strange(t *testing.T) *whole {
	t.Helper()
	w := newWhole(t)
	hosttest.Put(t, w.dir, "etc/passwd", hosttest.Read(t, w.dir, "etc/passwd")+"site:x:1001:100::/nonexistent:/bin/sh\nsite2:x:1002:100::/nonexistent:/bin/sh\n")
	hosttest.Put(t, w.dir, "etc/shadow", hosttest.Read(t, w.dir, "etc/shadow")+"site:*:1::::::\nsite2:*:1::::::\n")
	hosttest.Put(t, w.dir, "etc/systemd/system/site.service", "x")
	hosttest.Put(t, w.dir, "etc/systemd/system/site2.service", "x")
	hosttest.Put(t, w.dir, "etc/systemd/system/site.service.d/site.conf", "a drop-in is another file")
	hosttest.Put(t, w.dir, "etc/cron.d/site.service", "a job named like a unit")
	w.process(t, 501, 0, "exporter", "/opt/site/exporter", "/system.slice/ssh.service")
	w.process(t, 502, 0, "exporter", "/opt/site2/exporter", "/system.slice/ssh.service")
	w.process(t, 503, 0, "exporter", "/opt/site/exporter (deleted)", "/system.slice/ssh.service")
	w.process(t, 504, 5000, "exporter", "/opt/site/exporter", "/system.slice/ssh.service")
	w.listen(t, "tcp", 9100, 9101)
	w.listen(t, "udp", 9100)
	return w
}

func TestAPolicySuppressesWhatItListsAndNothingBeside(t *testing.T) {
	w := strange(t)
	_, report := w.judge(t)
	all := told(report)
	for _, c := range []struct {
		name   string
		policy taskcatalog.CleanPolicy
		hides  []string
	}{
		{"nothing", taskcatalog.CleanPolicy{}, nil},
		{"user", taskcatalog.CleanPolicy{KnownUsers: []string{"site"}}, []string{"users site"}},
		{"user by another's beginning", taskcatalog.CleanPolicy{KnownUsers: []string{"sit"}}, nil},
		{"unit", taskcatalog.CleanPolicy{KnownUnits: []string{"site.service"}}, []string{"units /etc/systemd/system/site.service"}},
		{"unit without its suffix", taskcatalog.CleanPolicy{KnownUnits: []string{"site"}}, nil},
		{"port", taskcatalog.CleanPolicy{KnownPorts: []string{"tcp/9100"}}, []string{"listeners tcp/9100 at 0.0.0.0"}},
		{"port without a protocol", taskcatalog.CleanPolicy{KnownPorts: []string{"9100"}}, nil},
		{"port by another's beginning", taskcatalog.CleanPolicy{KnownPorts: []string{"tcp/910"}}, nil},
		{"process by path", taskcatalog.CleanPolicy{KnownProcesses: []string{"/opt/site/exporter"}}, []string{"processes 501 exporter"}},
		{"process by name", taskcatalog.CleanPolicy{KnownProcesses: []string{"exporter"}}, []string{"processes 501 exporter", "processes 502 exporter"}},
		{"process of nothing", taskcatalog.CleanPolicy{KnownProcesses: []string{"", "/"}}, nil},
		{"a user's name for a unit's", taskcatalog.CleanPolicy{KnownUnits: []string{"site2"}, KnownUsers: []string{"site.service"}, KnownPorts: []string{"site"}, KnownProcesses: []string{"site"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.policy = &c.policy
			got, report := w.judge(t)
			want := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(c.hides, s) })
			if len(want) != len(all)-len(c.hides) {
				t.Fatalf("without a policy there are %q, and not all of %q", all, c.hides)
			}
			if !slices.Equal(told(report), want) || got.Verdict != taskcatalog.VerdictNotClean {
				t.Errorf("the verdict is %s with findings %q, want %q", got.Verdict, told(report), want)
			}
		})
	}
}

func TestAPolicyThatKnowsAllOfItIsClean(t *testing.T) {
	w := newWhole(t)
	hosttest.Put(t, w.dir, "etc/systemd/system/site.service", "x")
	w.process(t, 501, 0, "exporter", "/opt/site/exporter", "/system.slice/site.service")
	w.listen(t, "tcp", 9100)
	w.policy = &taskcatalog.CleanPolicy{KnownUnits: []string{"site.service"}, KnownPorts: []string{"tcp/9100"}, KnownProcesses: []string{"/opt/site/exporter"}}
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
	}
}

// A policy lists a site's additions to its baseline. No list of names accepts a changed user of the
// baseline.
func TestAPolicyAcceptsNoFilesOfATenant(t *testing.T) {
	w := strange(t)
	hosttest.OK(t, w.h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 70000, GID: 70000, Home: "/home/alice"}))
	w.process(t, 600, 70000, "exporter", "/opt/site/exporter", "/system.slice/site.service")
	hosttest.Put(t, w.dir, "opt/x", "alice's")
	hosttest.OK(t, os.Lchown(filepath.Join(w.dir, "opt/x"), 70000, 70000))
	w.policy = &taskcatalog.CleanPolicy{KnownUsers: []string{"alice"}, KnownProcesses: []string{"/opt/site/exporter", "exporter"}}
	_, report := w.judge(t)
	for _, want := range []string{"processes 600 exporter", "files /opt/x"} {
		i := slices.IndexFunc(report.Findings, func(f taskcatalog.Finding) bool { return f.Check+" "+f.Subject == want })
		if i < 0 || report.Findings[i].NextAction != taskcatalog.ActionRevokeUser {
			t.Errorf("%s is not told as the allocation's: %q", want, told(report))
		}
	}
}

// A policy's scratch directories are looked at in addition to the node's own.
func TestAPolicysScratchIsLookedAt(t *testing.T) {
	w := newWhole(t)
	w.policy = &taskcatalog.CleanPolicy{Scratch: []string{"/data*"}}
	hosttest.Put(t, w.dir, "data1/weights", "a tenant's")
	_, report := w.judge(t)
	if !slices.Contains(told(report), "scratch /data1/weights") {
		t.Errorf("found %q", told(report))
	}
}
