package users

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

func provision(t *testing.T, h *host.Host, p taskcatalog.ProvisionUserParams) (*taskcatalog.ProvisionUserResult, error) {
	t.Helper()
	if p.SSHKeys == nil {
		p.SSHKeys = []string{hosttest.AliceKey}
	}
	result, _, err := Provision(t.Context(), &host.Run{Params: &p, Host: h})
	if err != nil {
		return nil, err
	}
	return result.(*taskcatalog.ProvisionUserResult), nil
}

func revoke(t *testing.T, h *host.Host, allocation, user string) (*taskcatalog.RevokeUserResult, taskcatalog.Report, error) {
	t.Helper()
	p := taskcatalog.RevokeUserParams{AllocationID: allocation, Username: user, GraceSeconds: 1}
	result, report, err := Revoke(t.Context(), &host.Run{Params: &p, Host: h})
	res, _ := result.(*taskcatalog.RevokeUserResult)
	return res, report, err
}

func TestAProvisionedUserHasKeysAndNoPassword(t *testing.T) {
	h, dir := hosttest.Box(t)
	res, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice", Groups: []string{"render"}})
	if err != nil {
		t.Fatal(err)
	}
	if res.UID != host.FirstUID || !res.Created || res.Home != "/home/alice" {
		t.Errorf("got %+v", res)
	}
	if passwd := hosttest.Read(t, dir, "etc/passwd"); !strings.Contains(passwd, "alice:x:70000:70000:allocation a-1:/home/alice:/bin/bash") {
		t.Errorf("passwd: %s", passwd)
	}
	if shadow := hosttest.Read(t, dir, "etc/shadow"); !strings.Contains(shadow, "alice:!:") {
		t.Errorf("the password is not locked: %s", shadow)
	}
	if group := hosttest.Read(t, dir, "etc/group"); !strings.Contains(group, "render:x:105:alice") {
		t.Errorf("group: %s", group)
	}
	if keys := hosttest.Read(t, dir, "home/alice/.ssh/authorized_keys"); keys != hosttest.AliceKey+"\n" {
		t.Errorf("keys: %q", keys)
	}
	again, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"})
	if err != nil || again.Created || again.UID != res.UID {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}

func TestProvisioningIsFinishedAfterACrashWithTheSameUID(t *testing.T) {
	h, _ := hosttest.Box(t)
	// The state after a crash between the record and the account.
	if err := h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 20077, GID: 20077, Home: "/home/alice"}); err != nil {
		t.Fatal(err)
	}
	res, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"})
	if err != nil || res.UID != 20077 || !res.Created {
		t.Errorf("got %+v, %v", res, err)
	}
}

// useradd enters the account before it creates the home.
func TestAHomeThatACrashKeptFromBeingIsMadeByTheNextProvisioning(t *testing.T) {
	h, dir := hosttest.Box(t)
	p := taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"}
	first, err := provision(t, h, p)
	hosttest.OK(t, err)
	hosttest.OK(t, os.RemoveAll(filepath.Join(dir, "home/alice")))
	res, err := provision(t, h, p)
	if err != nil || res.UID != first.UID || hosttest.Read(t, dir, "home/alice/.ssh/authorized_keys") != hosttest.AliceKey+"\n" {
		t.Errorf("got %+v, %v", res, err)
	}
}

// A group with the user's name but another gid belongs to the node.
func TestARevokeLeavesAGroupThatItDidNotMake(t *testing.T) {
	h, dir := hosttest.Box(t)
	hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "render", UID: 20077, GID: 20077, Home: "/home/render"}))
	_, report, err := revoke(t, h, "a-1", "render")
	if err != nil || len(report.Findings) != 1 {
		t.Errorf("got %+v, %v", report.Findings, err)
	}
	if groups := hosttest.Read(t, dir, "etc/group"); !strings.Contains(groups, "render:x:105:") {
		t.Errorf("the node's group is gone:\n%s", groups)
	}
}

func TestAProvisioningThatMustNotBeIsRefusedAndChangesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		setUp func(h *host.Host, dir string)
		p     taskcatalog.ProvisionUserParams
		code  taskcatalog.Code
	}{
		{name: "node is drained", setUp: func(h *host.Host, _ string) { h.Marks.SetDrained(true) }, code: taskcatalog.CodeNodeDraining},
		{name: "somebody else's account", p: taskcatalog.ProvisionUserParams{Username: "ubuntu"}, code: "user_exists"},
		{name: "another allocation's user", setUp: func(h *host.Host, _ string) {
			h.Accounts.Put(host.Account{AllocationID: "a-0", Username: "alice", UID: 20000})
		}, code: "user_exists"},
		{name: "allocation has another user", setUp: func(h *host.Host, _ string) {
			h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "bob", UID: 20000})
		}, code: "allocation_exists"},
		{name: "home planted beforehand", setUp: func(_ *host.Host, dir string) {
			os.Symlink("/etc", filepath.Join(dir, "home/alice"))
		}, code: "home_exists"},
		{name: "a group of the node's", p: taskcatalog.ProvisionUserParams{Username: "render"}, code: "group_exists"},
		{name: "root by a group", p: taskcatalog.ProvisionUserParams{Groups: []string{"docker"}}, code: taskcatalog.CodeBadParams},
		{name: "an option for a group", p: taskcatalog.ProvisionUserParams{Groups: []string{"--root=/x"}}, code: taskcatalog.CodeBadParams},
		{name: "a key with a command", p: taskcatalog.ProvisionUserParams{SSHKeys: []string{`command="id" ssh-ed25519 AAAA x`}}, code: taskcatalog.CodeBadParams},
		{name: "a key of two lines", p: taskcatalog.ProvisionUserParams{SSHKeys: []string{"ssh-ed25519 AAAA x\nssh-ed25519 BBBB y"}}, code: taskcatalog.CodeBadParams},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, dir := hosttest.Box(t)
			if c.setUp != nil {
				c.setUp(h, dir)
			}
			before := hosttest.Read(t, dir, "etc/passwd")
			p := c.p
			p.AllocationID = "a-1"
			if p.Username == "" {
				p.Username = "alice"
			}
			_, err := provision(t, h, p)
			if got := taskcatalog.CodeOf(err, ""); got != c.code {
				t.Errorf("got %q (%v), want %q", got, err, c.code)
			}
			if after := hosttest.Read(t, dir, "etc/passwd"); after != before {
				t.Errorf("accounts changed: %s", after)
			}
		})
	}
}

func TestARevokeLeavesNothingOfTheUser(t *testing.T) {
	h, dir := hosttest.Box(t)
	res, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice", Sudo: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"home/alice/data/model", "tmp/x", "var/tmp/deep/er/y", "dev/shm/z", "var/spool/cron/crontabs/alice",
		"opt/left here", "var/lib/systemd/linger/alice",
	} {
		hosttest.Put(t, dir, name, "alice's")
		if err := os.Chown(filepath.Join(dir, name), int(res.UID), int(res.GID)); err != nil {
			t.Fatal(err)
		}
	}
	got, report, err := revoke(t, h, "a-1", "alice")
	if err != nil {
		t.Fatal(err)
	}
	if !got.Existed || got.FilesRemoved == 0 || got.JobsRemoved != 2 || len(report.Dispositions) == 0 {
		t.Errorf("got %+v with %d dispositions", got, len(report.Dispositions))
	}
	err = filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && strings.Contains(name, "alice") {
			t.Errorf("%s is still there", name)
		}
		if raw, _ := os.ReadFile(name); strings.Contains(string(raw), "alice") && !strings.HasSuffix(name, "-") {
			t.Errorf("%s still names alice", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if hosttest.Read(t, dir, "home/ubuntu/file") != "the operator's" {
		t.Error("somebody else's file is gone")
	}
	if left, _ := h.Accounts.List(); len(left) != 0 {
		t.Errorf("the record is still there: %+v", left)
	}
	again, _, err := revoke(t, h, "a-1", "alice")
	if err != nil || again.Existed {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}

func TestARevokeOfWhatNoAllocationMadeIsRefused(t *testing.T) {
	h, dir := hosttest.Box(t)
	if _, _, err := revoke(t, h, "a-1", "ubuntu"); taskcatalog.CodeOf(err, "") != "user_not_provisioned" {
		t.Errorf("got %v", err)
	}
	if _, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := revoke(t, h, "a-1", "ubuntu"); taskcatalog.CodeOf(err, "") != "allocation_mismatch" {
		t.Errorf("got %v", err)
	}
	if hosttest.Read(t, dir, "home/ubuntu/file") == "" {
		t.Error("the operator's file is gone")
	}
}

// A tenant who creates links instead of directories cannot redirect the agent.
func TestARevokeFollowsNoLinkOfTheTenants(t *testing.T) {
	h, dir := hosttest.Box(t)
	res, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "home/alice/.ssh")); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"home/alice/.ssh": "home/ubuntu", "home/alice/etc": "etc", "tmp/all": "home/ubuntu"} {
		name := filepath.Join(dir, link)
		if err := os.Symlink(filepath.Join(dir, to), name); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(name, int(res.UID), int(res.GID)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := revoke(t, h, "a-1", "alice"); err != nil {
		t.Fatal(err)
	}
	if hosttest.Read(t, dir, "home/ubuntu/file") != "the operator's" || hosttest.Read(t, dir, "etc/login.defs") == "" {
		t.Error("a link led out")
	}
}

func TestAnAccountStaysRecordedUntilAllOfItIsGone(t *testing.T) {
	h, dir := hosttest.Box(t)
	if _, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"}); err != nil {
		t.Fatal(err)
	}
	// The kernel's list cannot be read: nobody knows whether IPC objects are left.
	if err := os.Remove(filepath.Join(dir, "proc/sysvipc/shm")); err != nil {
		t.Fatal(err)
	}
	_, _, err := revoke(t, h, "a-1", "alice")
	if taskcatalog.CodeOf(err, "") != "user_not_fully_revoked" {
		t.Errorf("got %v", err)
	}
	if _, there, _ := h.Machine.UserNamed("alice"); !there {
		t.Error("the account went although something was left")
	}
	if _, known, _ := h.Accounts.ByAllocation("a-1"); !known {
		t.Error("the record went although something was left")
	}
}
