//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// residue is what a tenant leaves and a cleanup removes: how it is planted as
// the tenant, and the row of the table of checks that must find it.
var residue = []struct{ check, plant string }{
	{"processes", "setsid nohup sleep 86400 > /dev/null 2>&1 < /dev/null &"},
	{"jobs", "echo '* * * * * true # canary-token' | crontab -"},
	{"ipc", "ipcmk --shmem 65536 --semaphore 4 --queue > /dev/null"},
	{"ipc", "echo canary-token > /dev/shm/canary"},
	{"temporary", "echo canary-token > /tmp/canary; mkdir -p /var/tmp/deep/er; echo canary-token > /var/tmp/deep/er/canary"},
	{"homes", "echo canary-token > ~/canary; echo canary-token > ~/.bash_history; ln -s /etc ~/link"},
}

func TestAFreshNodeHasNoFindings(t *testing.T) {
	s := enrolled(t)
	got := s.must("node.validate_clean", map[string]any{})
	if got.Verdict != string(taskcatalog.VerdictClean) {
		t.Errorf("the verdict on an untouched node is %s: %+v %+v", got.Verdict, s.evidence(got.ID).Findings, unmade(s.evidence(got.ID)))
	}
}

func unmade(ev taskcatalog.Evidence) []taskcatalog.Check {
	return slices.DeleteFunc(slices.Clone(ev.Checks), func(c taskcatalog.Check) bool { return c.Made })
}

func TestWhatATenantLeavesIsFoundAndCleaned(t *testing.T) {
	s := enrolled(t)
	s.provision("a-1", "alice")
	for _, r := range residue {
		s.as("alice", r.plant)
	}
	dirty := s.must("node.validate_clean", map[string]any{})
	if dirty.Verdict != string(taskcatalog.VerdictNotClean) {
		t.Errorf("the verdict with residue is %s", dirty.Verdict)
	}
	found := map[string]bool{}
	for _, f := range s.evidence(dirty.ID).Findings {
		found[f.Check] = true
	}
	for _, r := range residue {
		if !found[r.check] {
			t.Errorf("%s was planted and not found; found: %v", r.check, found)
		}
	}

	s.must("allocation.revoke_user", map[string]any{"allocation_id": "a-1", "username": "alice"})
	s.must("node.storage_cleanup", map[string]any{"scope": "local"})
	clean := s.must("node.validate_clean", map[string]any{})
	if ev := s.evidence(clean.ID); clean.Verdict != string(taskcatalog.VerdictClean) {
		t.Errorf("the verdict after the cleanup is %s: %+v %+v", clean.Verdict, ev.Findings, unmade(ev))
	}
	// Not the agent's word: the disk is searched for what was planted.
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/home", "/var/spool"} {
		r, err := s.guest.Run(s.ctx, "grep", "-rl", "canary-token", dir)
		if r.Exit != 1 { // 1: nothing was found
			t.Errorf("left in %s: %s %v", dir, r.Stdout, err)
		}
	}
	if s.root("cat", "/etc/hostname") != node {
		t.Error("the tenant's link to /etc was followed")
	}
}

// What somebody with root changed is found and never mended.
func TestSystemWideChangesAskForAReimage(t *testing.T) {
	s := enrolled(t)
	for _, plant := range [][]string{
		{"sh", "-c", "printf '[Service]\\nExecStart=/bin/true\\n' > /etc/systemd/system/implant.service"},
		{"sh", "-c", "echo '* * * * * root true' > /etc/cron.d/implant"},
		{"sh", "-c", "mkdir -p /root/.ssh && echo 'ssh-ed25519 AAAAimplant x' >> /root/.ssh/authorized_keys"},
		{"sh", "-c", "echo /usr/lib/implant.so > /etc/ld.so.preload"},
		{"sh", "-c", "echo 'options dummy numdummies=3' > /etc/modprobe.d/implant.conf"},
		{"sh", "-c", "printf '\\n' >> /usr/share/perl5/Debian/AdduserCommon.pm 2>/dev/null || printf '#\\n' >> /usr/sbin/adduser"},
		{"sh", "-c", "echo 'implant ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/implant"},
		{"useradd", "--system", "implant"},
	} {
		s.root(plant...)
	}
	s.root("rm", "/etc/ld.so.preload") // it would break every command; its turn is below
	got := s.must("node.validate_clean", map[string]any{})
	subjects := ""
	for _, f := range s.evidence(got.ID).Findings {
		subjects += f.Check + " " + f.Subject + " " + f.NextAction + "\n"
	}
	for _, want := range []string{"implant.service", "/etc/cron.d/implant", "authorized_keys", "modprobe.d/implant", "adduser", "sudoers.d/implant"} {
		if !strings.Contains(strings.ToLower(subjects), strings.ToLower(want)) {
			t.Errorf("%s was planted and not found:\n%s", want, subjects)
		}
	}
	if got.Verdict != string(taskcatalog.VerdictNotClean) || !strings.Contains(subjects, "reimage") {
		t.Errorf("verdict %s:\n%s", got.Verdict, subjects)
	}
}
