//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// residue lists a tenant's leftovers that a cleanup removes: the user who plants each, the shell
// line, and the row of the table of checks that must find it.
var residue = []struct{ check, subject, by, plant string }{
	{"processes", "sleep", "alice", "setsid nohup sleep 86400 > /dev/null 2>&1 < /dev/null &"},
	{"jobs", "/var/spool/cron/atjobs/", "alice", "echo true | at now + 1 day 2> /dev/null"},
	{"jobs", "/var/spool/cron/crontabs/alice", "alice", "echo '* * * * * true # canary-token' | crontab -"},
	{"jobs", "/var/lib/systemd/linger/alice", "root", "loginctl enable-linger alice"},
	{"ipc", "shm ", "alice", "ipcmk --shmem 65536 > /dev/null"},
	{"ipc", "sem ", "alice", "ipcmk --semaphore 4 > /dev/null"},
	{"ipc", "msg ", "alice", "ipcmk --queue > /dev/null"},
	{"ipc", "/dev/shm/canary", "alice", "echo canary-token > /dev/shm/canary"},
	{"temporary", "/tmp/canary", "alice", "echo canary-token > /tmp/canary; mkdir -p /var/tmp/deep/er; echo canary-token > /var/tmp/deep/er/canary"},
	{"homes", "", "alice", "echo canary-token > ~/canary; echo canary-token > ~/.bash_history; ln -s /etc ~/link"},
}

// The node is checked three times: fresh, with a tenant's leftovers, and with changes that no
// cleanup can mend.
func TestANodeIsJudgedAndCleaned(t *testing.T) {
	s := enrolled(t)
	s.part("FreshItHasNoFindings", isClean)
	s.part("WhatATenantLeavesIsFoundAndCleaned", leftByATenant)
	s.part("SystemWideChangesAskForAReimage", implanted)
}

func isClean(s *site) {
	got := s.must("node.validate_clean", map[string]any{})
	if got.Verdict != string(taskcatalog.VerdictClean) {
		s.t.Errorf("the verdict is %s: %+v %+v", got.Verdict, s.evidence(got.ID).Findings, unmade(s.evidence(got.ID)))
	}
}

func unmade(ev taskcatalog.Evidence) []taskcatalog.Check {
	return slices.DeleteFunc(slices.Clone(ev.Checks), func(c taskcatalog.Check) bool { return c.Made })
}

func leftByATenant(s *site) {
	s.provision("a-1", "alice")
	for _, r := range residue {
		s.as(r.by, r.plant)
	}
	for _, p := range setUp {
		s.root("sh", "-c", p.plant)
	}
	dirty := s.must("node.validate_clean", map[string]any{})
	if dirty.Verdict != string(taskcatalog.VerdictNotClean) {
		s.t.Errorf("the verdict with residue is %s", dirty.Verdict)
	}
	found := s.evidence(dirty.ID).Findings
	for _, r := range residue {
		if !has(found, r.check, r.subject, "") {
			s.t.Errorf("%s %s was planted and not found; found: %+v", r.check, r.subject, found)
		}
	}
	for _, p := range setUp {
		if !has(found, p.check, p.subject, taskcatalog.ActionStorageCleanup) {
			s.t.Errorf("%s %s was planted and not found; found: %+v", p.check, p.subject, found)
		}
	}

	s.must("allocation.revoke_user", map[string]any{"allocation_id": "a-1", "username": "alice"})
	s.must("node.storage_cleanup", map[string]any{"scope": "local"})
	isClean(s)
	// The agent's result is not trusted: the test searches the disk for the planted text.
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/home", "/var/spool", "/var/crash"} {
		r, err := s.guest.Run(s.ctx, "grep", "-rl", "canary-token", dir)
		if r.Exit != 1 { // 1: nothing was found
			s.t.Errorf("left in %s: %s %v", dir, r.Stdout, err)
		}
	}
	if s.root("cat", "/etc/hostname") != node {
		s.t.Error("the tenant's link to /etc was followed")
	}
	for command, want := range map[string]string{"ls /dev/hugepages": "", "swapon --show --noheadings": "", "losetup --list --noheadings": "", "dmsetup ls": "No devices found", "ip netns list": "", "ls /tmp/a": ""} {
		r, _ := s.guest.Run(s.ctx, strings.Fields(command)...)
		if strings.TrimSpace(r.Stdout) != want {
			s.t.Errorf("%s still shows %s", command, r.Stdout)
		}
	}
}

// has reports whether a row has a finding whose subject contains a text ($ marks the subject's
// end). If next is not empty, the finding must have that next action.
func has(findings []taskcatalog.Finding, check, subject, next string) bool {
	return slices.ContainsFunc(findings, func(f taskcatalog.Finding) bool {
		return f.Check == check && strings.Contains(f.Subject+"$", subject) && (next == "" || f.NextAction == next)
	})
}

// implants are changes that root makes to come back later, and the row that must find each. No
// cleanup mends them.
var implants = []struct{ check, subject, plant string }{
	{"units", "implant.service", "printf '[Service]\\nExecStart=/bin/true\\n' > /etc/systemd/system/implant.service"},
	{"cron", "/etc/cron.d/implant", "echo '* * * * * root true' > /etc/cron.d/implant"},
	{"authorized_keys", "/root/.ssh/authorized_keys", "mkdir -p /root/.ssh && echo 'ssh-ed25519 AAAAimplant x' >> /root/.ssh/authorized_keys"},
	{"modprobe", "/etc/modprobe.d/implant.conf", "echo 'options dummy numdummies=3' > /etc/modprobe.d/implant.conf"},
	{"packages", "/usr/sbin/adduser", "printf '#\\n' >> /usr/sbin/adduser"},
	{"programs", "/usr/local/sbin/implant", "cp /bin/true /usr/local/sbin/implant"},
	{"setuid", "/usr/local/sbin/implant-suid", "cp /bin/sh /usr/local/sbin/implant-suid && chmod 4755 /usr/local/sbin/implant-suid"},
	{"sudoers", "/etc/sudoers.d/implant", "echo 'implant ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/implant"},
	{"pam", "/etc/pam.d/sshd", "echo 'auth sufficient pam_permit.so' >> /etc/pam.d/sshd"},
	{"udev", "/etc/udev/rules.d/99-implant.rules", "mkdir -p /etc/udev/rules.d && echo 'ACTION==\"add\", RUN+=\"/bin/true\"' > /etc/udev/rules.d/99-implant.rules"},
	{"ssh_server", "/etc/ssh/sshd_config", "echo '# implant' >> /etc/ssh/sshd_config"},
	{"preload", "/etc/ld.so.preload", "echo /lib/x86_64-linux-gnu/libc.so.6 > /etc/ld.so.preload"},
	{"boot", "/boot/implant", "echo x > /boot/implant"},
	{"firewall", "", "nft add table inet implant"},
	{"kernel_hooks", "core_pattern", "echo '/tmp/implant.%p' > /proc/sys/kernel/core_pattern"},
	{"listeners", "4444", "systemd-run --quiet --unit=implant-listens python3 -c 'import socket,time; s=socket.create_server((\"\",4444)); time.sleep(86400)'"},
	{"mounts", "/mnt", "mount -t tmpfs none /mnt"},
	{"mounts", "/srv/huge", "mkdir /srv/huge && mount -t hugetlbfs none /srv/huge"},
	{"users", "implant", "useradd --system implant"},
	{"bpf", "implant", "/root/planted pin /sys/fs/bpf/implant"},
	{"modules", "plant", "insmod /root/plant.ko"},
	{"cloud_init", "/obj.pkl", `python3 -c 'import pickle; p = "/var/lib/cloud/instance/obj.pkl"; d = pickle.load(open(p, "rb")); d.userdata_raw = "#cloud-boothook\n#!/bin/sh\ntrue\n"; pickle.dump(d, open(p, "wb"))'`},
	{"cloud_init", "/var/lib/cloud/scripts/per-boot/implant", "printf '#!/bin/sh\\n' > /var/lib/cloud/scripts/per-boot/implant && chmod 755 /var/lib/cloud/scripts/per-boot/implant"},
	{"cloud_init", "/boothooks/implant", "mkdir -p /var/lib/cloud/instance/boothooks && printf '#!/bin/sh\\n' > /var/lib/cloud/instance/boothooks/implant"},
	{"cloud_init", "/var/lib/cloud/seed/nocloud-net/user-data", "mkdir -p /var/lib/cloud/seed/nocloud-net && printf '#!/bin/sh\\n' > /var/lib/cloud/seed/nocloud-net/user-data"},
	{"cloud_init", "/var/lib/cloud/instances/implant/", "cp -a /var/lib/cloud/instance/. /var/lib/cloud/instances/implant"},
	{"cloud_init", "/var/lib/cloud/instance$", "ln -sfn /var/lib/cloud/instances/implant /var/lib/cloud/instance"},
	{"cloud_init", "/var/lib/hostler-bootstrap/laid-out", "mkdir -p /var/lib/hostler-bootstrap && echo implant > /var/lib/hostler-bootstrap/laid-out"},
}

func implanted(s *site) {
	s.put("/root/planted", planted(s.t), 0o755)
	s.put("/root/plant.ko", s.module(), 0o644)
	for _, i := range implants {
		s.root("sh", "-c", i.plant)
	}
	got := s.must("node.validate_clean", map[string]any{})
	if got.Verdict != string(taskcatalog.VerdictNotClean) {
		s.t.Errorf("the verdict is %s", got.Verdict)
	}
	findings := s.evidence(got.ID).Findings
	for _, i := range implants {
		if !has(findings, i.check, i.subject, taskcatalog.ActionReimage) {
			s.t.Errorf("%s %s was planted and is not among the findings that ask for a reimage", i.check, i.subject)
		}
	}
	if s.t.Failed() {
		for _, f := range findings {
			s.t.Logf("%s: %s: %s: %s", f.Check, f.Subject, f.Detail, f.NextAction)
		}
	}
}

// setUp are things that root sets up to hide data or to come back later and that a cleanup removes,
// with the row that must find each.
var setUp = []struct{ check, subject, plant string }{
	{"swap", "/var/tmp/swap", "dd if=/dev/zero of=/var/tmp/swap bs=1M count=8 status=none && chmod 600 /var/tmp/swap && mkswap -q /var/tmp/swap && swapon /var/tmp/swap"},
	{"block_devices", "loop", "truncate --size 16M /var/tmp/disk && losetup --find /var/tmp/disk"},
	{"block_devices", "hidden", "dmsetup create hidden --table '0 2048 zero'"},
	{"block_devices", "tenant", "truncate --size 64M /var/tmp/pv && d=$(losetup --find --show /var/tmp/pv) && vgcreate --quiet tenant $d && lvcreate --quiet --yes --extents 4 --name data tenant"},
	{"namespaces", "/run/netns/hidden", "ip netns add hidden"},
	{"hugepages", "/dev/hugepages/hidden", "echo 4 > /proc/sys/vm/nr_hugepages && fallocate --length 2M /dev/hugepages/hidden"},
	{"dumps", "/var/crash/core.1", "mkdir -p /var/crash && echo canary-token > /var/crash/core.1"},
	{"temporary", "/tmp/a", "mkdir -p /tmp/a/b && chattr +i /tmp/a/b"},
}

// A rebooted node has no findings: objects that a boot creates are no residue. In the end no file
// of the agent is left.
func TestANodeIsStartedAgainAndUninstalled(t *testing.T) {
	s := enrolled(t)
	s.part("StartedAgainItHasNoFindings", startedAgain)
	s.part("UninstalledItHasNothingOfTheAgent", uninstalled)
}

func startedAgain(s *site) {
	s.reboot()
	if err := s.guest.WaitBooted(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	isClean(s)
}

// reboot restarts the guest and returns once the guest answers.
func (s *site) reboot() {
	s.t.Helper()
	before := s.bootID()
	if err := errors.Join(s.guest.Reboot(s.ctx), s.guest.WaitSSH(s.ctx)); err != nil {
		s.t.Fatal(err)
	}
	if s.bootID() == before {
		s.t.Fatal("it is the same boot")
	}
}

func (s *site) bootID() string { return s.root("cat", "/proc/sys/kernel/random/boot_id") }

func uninstalled(s *site) {
	s.hostler("node", "retire", node, "--yes", "--wait", "--reason", "end of its lease")
	s.hostler("node", "remove", node, "--yes", "--reason", "it goes back to its maker")
	err := s.Wait(s.ctx, "the agent to be gone", func() error {
		left := s.root("sh", "-c", "ls -d /var/lib/hostler-agent /etc/hostler-agent /run/hostler-agent /usr/bin/hostler-agent /usr/lib/hostler-agent 2> /dev/null; systemctl is-active hostler-agent || true")
		if left != "inactive" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}
