package tasks

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

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// jailed returns a host in a jail with a user whose account is already gone, so that no account
// tool is needed.
func jailed(t *testing.T, files map[string][]byte) *host.Host {
	t.Helper()
	for name, raw := range files {
		ok(t, os.MkdirAll(filepath.Dir(name), 0o755))
		ok(t, os.WriteFile(name, raw, 0o755))
	}
	for _, d := range []string{"/usr/sbin", "/etc/sudoers.d", "/home/alice", "/var/lib/systemd/linger", "/var/spool/cron/crontabs", "/var/spool/cron/atjobs", "/dev/shm", "/dev/mqueue", "/tmp"} {
		ok(t, os.MkdirAll(d, 0o755))
	}
	ok(t, unix.Mknod("/dev/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	ok(t, os.Chmod("/dev/null", 0o666))
	ok(t, os.WriteFile(fleeing, program(fleeingCode), 0o755))
	put(t, "/", "etc/passwd", "root:x:0:0::/root:/bin/sh\n")
	put(t, "/", "etc/group", "root:x:0:\n")
	put(t, "/", "etc/subuid", "alice:165536:64\nbob:231072:65536\n")
	ok(t, os.Symlink("/proc/self/exe", "/usr/sbin/groupdel"))
	m, err := machine.Open("/")
	ok(t, err)
	t.Cleanup(func() { m.Close() })
	store := &memory{}
	ok(t, store.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: attackerUID, GID: attackerUID, Home: "/home/alice"}))
	return &host.Host{Machine: m, Now: time.Now, Log: zap.NewNop(), Accounts: store, Marks: store, Systemd: &quietSystemd{}}
}

// A process that outlives a revoke can read the next tenant's data. Each attacker survives in a way
// of its own; a line in the table is enough to add another.
func TestNothingThatATenantRunsOutlivesARevoke(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("one of the attackers is a program for amd64")
	}
	files := carried(t)
	if !jail(t) {
		return
	}
	h := jailed(t, files)
	bystander := exec.Command("/proc/self/exe", attackWord, "sit")
	bystander.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: bystanderUID, Gid: bystanderUID}}
	null, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	ok(t, err)
	bystander.ExtraFiles = []*os.File{null}
	ok(t, bystander.Start())
	// A long list takes time to read: a process that forks and ends is gone before its turn.
	for range 8 {
		crowd := exec.Command("/proc/self/exe", attackWord, "bomb")
		crowd.SysProcAttr, crowd.ExtraFiles = bystander.SysProcAttr, bystander.ExtraFiles
		ok(t, crowd.Start())
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
			ok(t, unix.Mount("", "/proc", "", unix.MS_REMOUNT, "hidepid=invisible"))
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
		ok(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: attackerUID, GID: attackerUID, Home: "/home/alice"}))
		if c.before != nil {
			c.before()
		}
		if c.while != "" {
			put(t, "/", strings.TrimPrefix(c.while, "/"), "")
			ok(t, os.Chown(c.while, attackerUID, attackerUID))
		}
		ask := infest(t, c.how, c.count, c.while)
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
	ok(t, bystander.Process.Kill())
	_ = bystander.Wait()
	// The agent is root as before, in each of its threads.
	threads, err := os.ReadDir("/proc/self/task")
	ok(t, err)
	for _, thread := range threads {
		status := read(t, "/proc/self/task", thread.Name()+"/status")
		if !strings.Contains(status, "\nUid:\t0\t0\t0\t0\n") || strings.Contains(status, "\nCapEff:\t0000000000000000\n") {
			t.Errorf("a thread of the agent's is not root any more:\n%s", status)
		}
	}
}

// A unit of root that starts a tenant's process cannot be recognised from here: the revoke reports
// that it is not complete.
func TestWhatComesBackAfterARevokeIsNoSuccess(t *testing.T) {
	files := carried(t)
	if !jail(t) {
		return
	}
	h := jailed(t, files)
	_, _, err := revokeUser(t.Context(), &host.Run{
		Params: &taskcatalog.RevokeUserParams{AllocationID: "a-1", Username: "alice", GraceSeconds: 1}, Host: h,
		Progress: func(step string, _, _, _ int, _ string) {
			if step == "still_gone" {
				infest(t, "sit", 1, "")
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
	files := carried(t)
	if !jail(t) {
		return
	}
	h := jailed(t, files)
	ok(t, os.MkdirAll("/sys/fs/cgroup", 0o755))
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
	ask := infest(t, "sit", 2, "")
	all, err := h.Machine.Processes()
	ok(t, err)
	for _, p := range all {
		if p.Has(attackerUID) {
			ok(t, os.WriteFile(dir+"/deeper/cgroup.procs", []byte(fmt.Sprint(p.PID)), 0))
		}
	}
	ok(t, h.Machine.KillCgroup("/"+name))
	for end := time.Now().Add(time.Minute); ask() != "all are dead"; {
		if time.Now().After(end) {
			t.Fatal("some are alive")
		}
	}
}
