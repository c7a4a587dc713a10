package validate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const stranger = 70001 // a uid that no baseline has

// meanwhile repeats do as fast as possible until the test ends.
func meanwhile(t *testing.T, do func(n int) error) {
	t.Helper()
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := do(n); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); running.Wait() })
}

// A tenant who is still on the machine can change these names, but nothing else.
func TestWhatChangesItsNameBetweenTwoLooksIsNeverClean(t *testing.T) {
	renamed := func(from string) func(t *testing.T, w *whole) {
		return func(t *testing.T, w *whole) {
			name := filepath.Join(w.dir, from)
			hosttest.Put(t, w.dir, from, "x")
			hosttest.OK(t, os.Chmod(filepath.Dir(name), 0o1777))
			hosttest.OK(t, os.Lchown(name, stranger, stranger))
			meanwhile(t, func(n int) error {
				to := fmt.Sprintf("%s.%d", filepath.Join(w.dir, from), n)
				err := os.Rename(name, to)
				name = to
				return err
			})
		}
	}
	for _, c := range []struct {
		name string
		row  string
		do   func(t *testing.T, w *whole)
	}{
		{"a file in /tmp", "temporary", renamed("tmp/x")},
		{"a file of an unknown owner elsewhere", "files", renamed("var/lib/x")},
		{"a shared-memory file", "ipc", renamed("dev/shm/x")},
		{"a directory that a file is moved to and from", "files", func(t *testing.T, w *whole) {
			from, to := filepath.Join(w.dir, "var/lib/a"), filepath.Join(w.dir, "var/lib/b")
			for _, dir := range []string{from, to} {
				hosttest.OK(t, os.MkdirAll(dir, 0o777))
				hosttest.OK(t, os.Chmod(dir, 0o777))
			}
			hosttest.Put(t, w.dir, "var/lib/a/x", "x")
			hosttest.OK(t, os.Lchown(filepath.Join(from, "x"), stranger, stranger))
			meanwhile(t, func(int) error {
				err := os.Rename(filepath.Join(from, "x"), filepath.Join(to, "x"))
				from, to = to, from
				return err
			})
		}},
		{"a process of an unknown owner", "processes", func(t *testing.T, w *whole) {
			w.process(t, 501, stranger, "x", "/tmp/x", "/user.slice")
			exe, next := filepath.Join(w.dir, "proc/501/exe"), filepath.Join(w.dir, "proc/501/next")
			meanwhile(t, func(n int) error {
				if err := os.Symlink(fmt.Sprintf("/tmp/x%d", n), next); err != nil {
					return err
				}
				return os.Rename(next, exe)
			})
		}},
		{"a process of root's", "processes", func(t *testing.T, w *whole) {
			w.process(t, 501, 0, "x", "/tmp/x", "/user.slice")
			exe, next := filepath.Join(w.dir, "proc/501/exe"), filepath.Join(w.dir, "proc/501/next")
			meanwhile(t, func(n int) error {
				if err := os.Symlink(fmt.Sprintf("/tmp/x%d", n), next); err != nil {
					return err
				}
				return os.Rename(next, exe)
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWhole(t)
			c.do(t, w)
			for range 5 {
				got, report := w.judge(t)
				if got.Verdict == taskcatalog.VerdictClean {
					t.Fatalf("the verdict is clean: %+v", report)
				}
				found := slices.ContainsFunc(report.Findings, func(f taskcatalog.Finding) bool { return f.Check == c.row })
				if !found && !slices.Contains(notMade(t, report), c.row) {
					t.Errorf("row %s is looked at and has no finding; found %q, not looked at are %q", c.row, told(report), notMade(t, report))
				}
			}
		})
	}
}

// Each of these things is another at each look, like a process that forks, listens and loads again:
// nothing stays, and the row never comes to rest.
func TestARowThatNeverComesToRestIsInconclusive(t *testing.T) {
	for _, c := range []struct {
		row string
		do  func(t *testing.T, w *whole, n int)
	}{
		{"processes", func(t *testing.T, w *whole, n int) {
			hosttest.OK(t, os.RemoveAll(filepath.Join(w.dir, fmt.Sprintf("proc/%d", 500+n-1))))
			w.process(t, 500+n, 0, "x", fmt.Sprintf("/tmp/x%d", n), "/system.slice/evil.service")
		}},
		{"listeners", func(t *testing.T, w *whole, n int) {
			hosttest.Put(t, w.dir, "proc/1/net/tcp", fmt.Sprintf("%s%4d: 00000000:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 %d\n", socketHead, 0, 2000+n, 4000+n))
		}},
		{"temporary", func(t *testing.T, w *whole, n int) {
			hosttest.OK(t, os.RemoveAll(filepath.Join(w.dir, fmt.Sprintf("tmp/x%d", n-1))))
			hosttest.Put(t, w.dir, fmt.Sprintf("proc/keep%d", n), "x") // so that no inode number is reused
			hosttest.Put(t, w.dir, fmt.Sprintf("tmp/x%d", n), "x")
		}},
		{"cron", func(t *testing.T, w *whole, n int) {
			hosttest.OK(t, os.RemoveAll(filepath.Join(w.dir, fmt.Sprintf("etc/cron.d/x%d", n-1))))
			hosttest.Put(t, w.dir, fmt.Sprintf("etc/cron.d/x%d", n), "x")
		}},
	} {
		t.Run(c.row, func(t *testing.T) {
			w := newWhole(t)
			n := 0
			w.kernel.BPF = func() ([]machine.BPFProgram, error) { // called at each look, after these rows
				n++
				c.do(t, w, n)
				return []machine.BPFProgram{{ID: uint32(n), Type: "kprobe", Name: fmt.Sprint("x", n), Tag: "00"}}, nil
			}
			c.do(t, w, 0)
			got, report := w.judge(t)
			if got.Verdict == taskcatalog.VerdictClean || !slices.Contains(notMade(t, report), c.row) || !slices.Contains(notMade(t, report), "bpf") {
				t.Fatalf("the verdict is %s, not looked at are %q, found %q", got.Verdict, notMade(t, report), told(report))
			}
			for _, check := range report.Checks {
				if check.Name == c.row && !strings.Contains(check.Reason, "came or went between two looks") {
					t.Errorf("the reason is %q", check.Reason)
				}
			}
		})
	}
}

// The system's own timers come and go, and leave nothing behind.
func TestAMomentsWorkOfTheSystemIsClean(t *testing.T) {
	w := newWhole(t)
	looks := 0
	w.kernel.BPF = func() ([]machine.BPFProgram, error) {
		if looks++; looks > 1 {
			return nil, nil
		}
		return []machine.BPFProgram{{Type: "cgroupskb", Name: "sd_fw_egress", Tag: "00"}}, nil
	}
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean || looks != 3 {
		t.Errorf("the verdict is %s after %d looks, found %q, not looked at are %q", got.Verdict, looks, told(report), notMade(t, report))
	}
}

// Rules that differ at each look still differ from the baseline.
func TestFirewallRulesThatChangeAreFound(t *testing.T) {
	w := newWhole(t)
	n := 0
	w.kernel.Firewall = func(context.Context, *host.Host) ([]string, error) {
		n++
		return []string{fmt.Sprint("rule ", n)}, nil
	}
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{"firewall firewall rules"}) {
		t.Errorf("the verdict is %s, found %q", got.Verdict, told(report))
	}
}
