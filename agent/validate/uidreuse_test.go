package validate

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// A new ledger starts the uids of a node's allocations again. An earlier tenant's file under such a
// uid stays a stranger's until it is gone, whatever account has the uid now.
func TestWhatAnEarlierTenantLeftIsFoundWhoeverHasItsUIDNow(t *testing.T) {
	for _, c := range []struct {
		name string
		take func(t *testing.T, w *whole)
	}{
		{"nobody", func(*testing.T, *whole) {}},
		{"an account that the site's policy allows", func(t *testing.T, w *whole) {
			hosttest.Put(t, w.dir, "etc/passwd", hosttest.Read(t, w.dir, "etc/passwd")+"ops:x:"+strconv.Itoa(host.FirstUID)+":100::/nonexistent:/bin/sh\n")
			hosttest.Put(t, w.dir, "etc/shadow", hosttest.Read(t, w.dir, "etc/shadow")+"ops:*:1::::::\n")
			w.policy = &taskcatalog.CleanPolicy{KnownUsers: []string{"ops"}}
		}},
		{"the next tenant", func(t *testing.T, w *whole) {
			res := letIn(t, w.h, "a-2", "bob")
			if res.UID != host.FirstUID {
				t.Fatalf("bob has uid %d", res.UID)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWhole(t)
			for _, name := range []string{"srv/weights", "opt/left/key", "dev/shm/mailbox"} {
				hosttest.Put(t, w.dir, name, "x")
				hosttest.OK(t, os.Lchown(filepath.Join(w.dir, name), host.FirstUID, host.FirstUID))
			}
			c.take(t, w)
			w.process(t, 501, host.FirstUID, "miner", "/dev/shm/miner", "/system.slice/ssh.service")
			got, report := w.judge(t)
			for _, want := range []string{"files /srv/weights", "files /opt/left/key", "processes 501 miner"} {
				if !slices.Contains(told(report), want) {
					t.Errorf("%s is not among %q", want, told(report))
				}
			}
			if got.Verdict != taskcatalog.VerdictNotClean {
				t.Errorf("the verdict is %s", got.Verdict)
			}
		})
	}
}

// An account allowed by a policy does not become the baseline's account whose uid it takes.
func TestAPolicyAllowsNoAccountWithAnothersUID(t *testing.T) {
	w := newWhole(t)
	uid := w.base.Users[slices.IndexFunc(w.base.Users, func(u taskcatalog.BaselineUser) bool { return u.UID != 0 })].UID
	hosttest.Put(t, w.dir, "etc/passwd", hosttest.Read(t, w.dir, "etc/passwd")+"ops:x:"+strconv.FormatUint(uint64(uid), 10)+":100::/nonexistent:/bin/sh\n")
	hosttest.Put(t, w.dir, "etc/shadow", hosttest.Read(t, w.dir, "etc/shadow")+"ops:*:1::::::\n")
	w.policy = &taskcatalog.CleanPolicy{KnownUsers: []string{"ops"}}
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictNotClean || !slices.Contains(told(report), "users ops") {
		t.Errorf("the verdict is %s, found %q", got.Verdict, told(report))
	}
}

// A tenant never gets the uid of a running process.
func TestAUIDOfARunningProcessIsNotGiven(t *testing.T) {
	w := newWhole(t)
	w.process(t, 501, host.FirstUID, "miner", "/dev/shm/miner", "/system.slice/ssh.service")
	if res := letIn(t, w.h, "a-2", "bob"); res.UID != host.FirstUID+1 {
		t.Errorf("bob has uid %d", res.UID)
	}
}
