package users

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// A process that outlives a revoke can read the next tenant's data. Each attacker survives in a way
// of its own; a line in the table is enough to add another.
func TestNothingThatATenantRunsOutlivesARevoke(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("one of the attackers is a program for amd64")
	}
	files := hosttest.Libraries(t)
	if !hosttest.Jail(t) {
		return
	}
	h := hosttest.Jailed(t, files)
	bystander := exec.Command("/proc/self/exe", hosttest.AttackWord, "sit")
	bystander.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: hosttest.BystanderUID, Gid: hosttest.BystanderUID}}
	null, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	hosttest.OK(t, err)
	bystander.ExtraFiles = []*os.File{null}
	hosttest.OK(t, bystander.Start())
	// A long list takes time to read: a process that forks and ends is gone before its turn.
	for range 8 {
		crowd := exec.Command("/proc/self/exe", hosttest.AttackWord, "bomb")
		crowd.SysProcAttr, crowd.ExtraFiles = bystander.SysProcAttr, bystander.ExtraFiles
		hosttest.OK(t, crowd.Start())
	}
	for _, c := range []struct {
		name, how string
		count     int
		while     string // a file: more attackers start as long as the file exists
		before    func()
	}{
		{name: "one that ignores SIGTERM", how: "sit", count: 1},
		{name: "those that fork and end at once", how: "flee", count: 12},
		{name: "those that nobody sees in /proc", how: "flee", count: 2, before: func() {
			hosttest.OK(t, unix.Mount("", "/proc", "", unix.MS_REMOUNT, "hidepid=invisible"))
		}},
		{name: "a bounded fork bomb", how: "bomb", count: 4},
		{name: "one that kills whom it may", how: "killer", count: 1},
		{name: "one with 10,000 groups", how: "groups", count: 1},
		{name: "a container under a uid that is lent to the user", how: "container", count: 2},
		{name: "those under lent uids that fork and end at once", how: "flee under a lent uid", count: 4},
		{name: "one that is the user by its effective id", how: "borrower", count: 1},
		{name: "a crontab", how: "sit", count: 1, while: "/var/spool/cron/crontabs/alice"},
		{name: "an at job", how: "sit", count: 1, while: "/var/spool/cron/atjobs/a00001"},
		{name: "a manager that lingers", how: "sit", count: 1, while: "/var/lib/systemd/linger/alice"},
	} {
		hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: hosttest.AttackerUID, GID: hosttest.AttackerUID, Home: "/home/alice"}))
		if c.before != nil {
			c.before()
		}
		if c.while != "" {
			hosttest.Put(t, "/", strings.TrimPrefix(c.while, "/"), "")
			hosttest.OK(t, os.Chown(c.while, hosttest.AttackerUID, hosttest.AttackerUID))
		}
		ask := hosttest.Infest(t, c.how, c.count, c.while)
		res, report, err := revoke(t, h, "a-1", "alice")
		if err != nil || len(res.ProcessesLeft) > 0 {
			t.Errorf("%s: %v, %+v", c.name, err, report.Findings)
		}
		if said := ask(); said != "all are dead" {
			t.Errorf("%s: %s, and the revoke says %v", c.name, said, err)
		}
	}
	if p, err := h.Machine.Process(bystander.Process.Pid); err != nil || p.Ended() {
		t.Errorf("another user's process is gone: %v", err)
	}
	hosttest.OK(t, bystander.Process.Kill())
	_ = bystander.Wait()
	// The agent is root as before, in each of its threads.
	threads, err := os.ReadDir("/proc/self/task")
	hosttest.OK(t, err)
	for _, thread := range threads {
		status := hosttest.Read(t, "/proc/self/task", thread.Name()+"/status")
		if !strings.Contains(status, "\nUid:\t0\t0\t0\t0\n") || strings.Contains(status, "\nCapEff:\t0000000000000000\n") {
			t.Errorf("a thread of the agent's is not root any more:\n%s", status)
		}
	}
}

// A unit of root that starts a tenant's process cannot be recognised from here: the revoke reports
// that it is not complete.
func TestWhatComesBackAfterARevokeIsNoSuccess(t *testing.T) {
	files := hosttest.Libraries(t)
	if !hosttest.Jail(t) {
		return
	}
	h := hosttest.Jailed(t, files)
	_, _, err := Revoke(t.Context(), &host.Run{
		Params: &taskcatalog.RevokeUserParams{AllocationID: "a-1", Username: "alice", GraceSeconds: 1}, Host: h,
		Progress: func(step string, _, _, _ int, _ string) {
			if step == "still_gone" {
				hosttest.Infest(t, "sit", 1, "")
			}
		},
	})
	if err == nil || !strings.Contains(err.Error(), "processes") {
		t.Errorf("got %v", err)
	}
	if _, known, _ := h.Accounts.ByAllocation("a-1"); !known {
		t.Error("the record went although something runs")
	}
}

// A process that forks in a container's cgroup dies with the cgroup.
func TestAContainersCgroupIsKilledWhole(t *testing.T) {
	files := hosttest.Libraries(t)
	if !hosttest.Jail(t) {
		return
	}
	h := hosttest.Jailed(t, files)
	hosttest.OK(t, os.MkdirAll("/sys/fs/cgroup", 0o755))
	if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
		t.Skipf("no unified hierarchy is to be had: %v", err)
	}
	name := fmt.Sprintf("docker-%064x.scope", time.Now().UnixNano())
	dir := filepath.Join("/sys/fs/cgroup", name)
	if err := os.MkdirAll(dir+"/deeper", 0o755); err != nil {
		t.Skipf("no cgroup is to be had: %v", err)
	}
	defer func() { _ = errors.Join(os.Remove(dir+"/deeper"), os.Remove(dir)) }()
	if _, err := os.Stat(dir + "/cgroup.kill"); err != nil {
		t.Skip("the kernel kills no cgroups")
	}
	ask := hosttest.Infest(t, "sit", 2, "")
	all, err := h.Machine.Processes()
	hosttest.OK(t, err)
	for _, p := range all {
		if p.Has(hosttest.AttackerUID) {
			hosttest.OK(t, os.WriteFile(dir+"/deeper/cgroup.procs", []byte(fmt.Sprint(p.PID)), 0))
		}
	}
	hosttest.OK(t, h.Machine.KillCgroup("/"+name))
	for end := time.Now().Add(time.Minute); ask() != "all are dead"; {
		if time.Now().After(end) {
			t.Fatal("some are alive")
		}
	}
}
