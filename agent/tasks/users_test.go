package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// memory is Accounts and Marks without a disk.
type memory struct {
	next     uint32
	accounts []host.Account
	drained  bool
}

func (m *memory) NextUID() (uint32, error) { m.next++; return m.next, nil }

func (m *memory) Put(a host.Account) error {
	if err := m.Delete(a.AllocationID); err != nil {
		return err
	}
	m.accounts = append(m.accounts, a)
	return nil
}

func (m *memory) ByAllocation(id string) (host.Account, bool, error) {
	for _, a := range m.accounts {
		if a.AllocationID == id {
			return a, true, nil
		}
	}
	return host.Account{}, false, nil
}

func (m *memory) List() ([]host.Account, error) { return slices.Clone(m.accounts), nil }

func (m *memory) Delete(id string) error {
	m.accounts = slices.DeleteFunc(m.accounts, func(a host.Account) bool { return a.AllocationID == id })
	return nil
}

func (m *memory) Drained() bool           { return m.drained }
func (m *memory) SetDrained(d bool) error { m.drained = d; return nil }

// quietSystemd has no sessions and no units; it records the requests.
type quietSystemd struct {
	asked []string
	// start returns the result of starting a unit; nil: the unit runs.
	start func(unit string) error
	runs  map[string]host.UnitRun
	on    map[string]bool
	main  map[string]int // main processes
	// files are the files of each unit: first the defining file, then additions. Without an entry a
	// unit is the file below /usr/lib.
	files map[string][]string
}

func (s *quietSystemd) ask(what string) error { s.asked = append(s.asked, what); return nil }

func (s *quietSystemd) Stop(_ context.Context, unit string) error { return s.ask("stop " + unit) }
func (s *quietSystemd) Start(_ context.Context, unit string) error {
	if s.start != nil {
		return errors.Join(s.ask("start "+unit), s.start(unit))
	}
	return s.ask("start " + unit)
}

func (s *quietSystemd) Active(_ context.Context, unit string) (bool, error) { return s.on[unit], nil }

func (s *quietSystemd) MainPID(_ context.Context, unit string) (int, error) { return s.main[unit], nil }

func (s *quietSystemd) Enable(_ context.Context, unit string) error { return s.ask("enable " + unit) }

func (s *quietSystemd) LastRun(_ context.Context, unit string) (host.UnitRun, error) {
	return s.runs[unit], nil
}

func (s *quietSystemd) Files(_ context.Context, unit string) (string, []string, error) {
	if of := s.files[unit]; len(of) > 0 {
		return of[0], of[1:], nil
	}
	return hwSyncUnits + "/" + unit, nil, nil
}
func (s *quietSystemd) Reload(context.Context) error                  { return s.ask("reload") }
func (s *quietSystemd) Disable(_ context.Context, unit string) error  { return s.ask("disable " + unit) }
func (s *quietSystemd) Sessions(context.Context, uint32) (int, error) { return 0, nil }
func (s *quietSystemd) EndSessions(context.Context, uint32) error     { return s.ask("end sessions") }
func (s *quietSystemd) LingerOff(context.Context, uint32) error       { return s.ask("linger off") }
func (s *quietSystemd) Run(_ context.Context, unit string, argv []string) error {
	return s.ask(unit + ": " + strings.Join(argv, " "))
}

// box is a machine in a temporary directory, with accounts on which shadow's tools work. It has no
// processes and one file system.
func box(t *testing.T) (*host.Host, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"etc/passwd":          "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n",
		"etc/group":           "root:x:0:\nsudo:x:27:\nrender:x:105:\nubuntu:x:1000:\n",
		"etc/shadow":          "root:*:20000:0:99999:7:::\nubuntu:!:20000:0:99999:7:::\n",
		"etc/gshadow":         "root:*::\nsudo:*::\nrender:!::\nubuntu:!::\n",
		"etc/login.defs":      "UID_MIN 1000\nUID_MAX 60000\n",
		"etc/sudoers.d/.keep": "",
		"home/ubuntu/file":    "the operator's",
		"tmp/.keep":           "", "var/tmp/.keep": "", "dev/shm/.keep": "", "dev/mqueue/.keep": "",
		"var/spool/cron/crontabs/.keep": "", "var/lib/systemd/linger/.keep": "",
		"proc/1/mountinfo":    "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n",
		"proc/self/mountinfo": "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n",
		"proc/sysvipc/shm":    "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n",
		"proc/sysvipc/sem":    "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n",
		"proc/sysvipc/msg":    "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n",
	} {
		put(t, dir, name, text)
	}
	m, err := machine.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	store := &memory{next: host.FirstUID - 1}
	return &host.Host{
		Machine: m, Now: func() time.Time { return time.Unix(1_790_000_000, 0) }, Log: zap.NewNop(), Version: "test",
		Accounts: store, Marks: store, Systemd: &quietSystemd{},
		StateDir: "/var/lib/hostler-agent", ConfigDir: "/etc/hostler-agent",
	}, dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const aliceKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxq alice"

func provision(t *testing.T, h *host.Host, p taskcatalog.ProvisionUserParams) (*taskcatalog.ProvisionUserResult, error) {
	t.Helper()
	if p.SSHKeys == nil {
		p.SSHKeys = []string{aliceKey}
	}
	result, _, err := provisionUser(t.Context(), &host.Run{Params: &p, Host: h})
	if err != nil {
		return nil, err
	}
	return result.(*taskcatalog.ProvisionUserResult), nil
}

func revoke(t *testing.T, h *host.Host, allocation, user string) (*taskcatalog.RevokeUserResult, taskcatalog.Report, error) {
	t.Helper()
	p := taskcatalog.RevokeUserParams{AllocationID: allocation, Username: user, GraceSeconds: 1}
	result, report, err := revokeUser(t.Context(), &host.Run{Params: &p, Host: h})
	res, _ := result.(*taskcatalog.RevokeUserResult)
	return res, report, err
}

func TestAProvisionedUserHasKeysAndNoPassword(t *testing.T) {
	h, dir := box(t)
	res, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice", Groups: []string{"render"}})
	if err != nil {
		t.Fatal(err)
	}
	if res.UID != host.FirstUID || !res.Created || res.Home != "/home/alice" {
		t.Errorf("got %+v", res)
	}
	if passwd := read(t, dir, "etc/passwd"); !strings.Contains(passwd, "alice:x:70000:70000:allocation a-1:/home/alice:/bin/bash") {
		t.Errorf("passwd: %s", passwd)
	}
	if shadow := read(t, dir, "etc/shadow"); !strings.Contains(shadow, "alice:!:") {
		t.Errorf("the password is not locked: %s", shadow)
	}
	if group := read(t, dir, "etc/group"); !strings.Contains(group, "render:x:105:alice") {
		t.Errorf("group: %s", group)
	}
	if keys := read(t, dir, "home/alice/.ssh/authorized_keys"); keys != aliceKey+"\n" {
		t.Errorf("keys: %q", keys)
	}
	again, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"})
	if err != nil || again.Created || again.UID != res.UID {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}

func TestProvisioningIsFinishedAfterACrashWithTheSameUID(t *testing.T) {
	h, _ := box(t)
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
	h, dir := box(t)
	p := taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"}
	first, err := provision(t, h, p)
	ok(t, err)
	ok(t, os.RemoveAll(filepath.Join(dir, "home/alice")))
	res, err := provision(t, h, p)
	if err != nil || res.UID != first.UID || read(t, dir, "home/alice/.ssh/authorized_keys") != aliceKey+"\n" {
		t.Errorf("got %+v, %v", res, err)
	}
}

// A group with the user's name but another gid belongs to the node.
func TestARevokeLeavesAGroupThatItDidNotMake(t *testing.T) {
	h, dir := box(t)
	ok(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "render", UID: 20077, GID: 20077, Home: "/home/render"}))
	_, report, err := revoke(t, h, "a-1", "render")
	if err != nil || len(report.Findings) != 1 {
		t.Errorf("got %+v, %v", report.Findings, err)
	}
	if groups := read(t, dir, "etc/group"); !strings.Contains(groups, "render:x:105:") {
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
			h, dir := box(t)
			if c.setUp != nil {
				c.setUp(h, dir)
			}
			before := read(t, dir, "etc/passwd")
			p := c.p
			p.AllocationID = "a-1"
			if p.Username == "" {
				p.Username = "alice"
			}
			_, err := provision(t, h, p)
			if got := taskcatalog.CodeOf(err, ""); got != c.code {
				t.Errorf("got %q (%v), want %q", got, err, c.code)
			}
			if after := read(t, dir, "etc/passwd"); after != before {
				t.Errorf("accounts changed: %s", after)
			}
		})
	}
}

func TestARevokeLeavesNothingOfTheUser(t *testing.T) {
	h, dir := box(t)
	res, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice", Sudo: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"home/alice/data/model", "tmp/x", "var/tmp/deep/er/y", "dev/shm/z", "var/spool/cron/crontabs/alice",
		"opt/left here", "var/lib/systemd/linger/alice",
	} {
		put(t, dir, name, "alice's")
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
	if read(t, dir, "home/ubuntu/file") != "the operator's" {
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
	h, dir := box(t)
	if _, _, err := revoke(t, h, "a-1", "ubuntu"); taskcatalog.CodeOf(err, "") != "user_not_provisioned" {
		t.Errorf("got %v", err)
	}
	if _, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := revoke(t, h, "a-1", "ubuntu"); taskcatalog.CodeOf(err, "") != "allocation_mismatch" {
		t.Errorf("got %v", err)
	}
	if read(t, dir, "home/ubuntu/file") == "" {
		t.Error("the operator's file is gone")
	}
}

// A tenant who creates links instead of directories cannot redirect the agent.
func TestARevokeFollowsNoLinkOfTheTenants(t *testing.T) {
	h, dir := box(t)
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
	if read(t, dir, "home/ubuntu/file") != "the operator's" || read(t, dir, "etc/login.defs") == "" {
		t.Error("a link led out")
	}
}

func TestAnAccountStaysRecordedUntilAllOfItIsGone(t *testing.T) {
	h, dir := box(t)
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

func TestADrainedNodeLetsNobodyInUntilItIsResumed(t *testing.T) {
	h, _ := box(t)
	for _, c := range []struct {
		resume  bool
		drained bool
	}{{false, true}, {true, false}} {
		result, _, err := drain(t.Context(), &host.Run{Params: &taskcatalog.DrainParams{Resume: c.resume}, Host: h})
		if err != nil || result.(*taskcatalog.DrainResult).Drained != c.drained || h.Marks.Drained() != c.drained {
			t.Errorf("resume %v: %+v, %v", c.resume, result, err)
		}
	}
}

func TestUninstallIsForPackagesAndHappensAfterTheResult(t *testing.T) {
	h, dir := box(t)
	r := &host.Run{Params: &taskcatalog.UninstallParams{}, Host: h}
	if _, _, err := uninstall(t.Context(), r); taskcatalog.CodeOf(err, "") != "not_packaged" {
		t.Errorf("got %v", err)
	}
	put(t, dir, "var/lib/dpkg/info/hostler-agent.list", "/.\n")
	if _, _, err := uninstall(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	systemd := h.Systemd.(*quietSystemd)
	if len(systemd.asked) != 0 {
		t.Errorf("something was done before the result: %v", systemd.asked)
	}
	handler, _ := Lookup("node.uninstall", 1)
	if err := handler.After(t.Context(), h); err != nil || !slices.Equal(systemd.asked, []string{"hostler-agent-uninstall.service: /usr/bin/dpkg --purge hostler-agent"}) {
		t.Errorf("asked %v, %v", systemd.asked, err)
	}
}

func TestATrustUpdateIsTakenOrItsRefusalIsTheTasks(t *testing.T) {
	h, _ := box(t)
	refusal := taskcatalog.Errorf("trust_key_unknown", "no")
	h.Trust = func(bundle string) (int64, bool, error) {
		if bundle != "good" {
			return 0, false, refusal
		}
		return 7, true, nil
	}
	for bundle, code := range map[string]taskcatalog.Code{"good": "", "bad": "trust_key_unknown", "": taskcatalog.CodeBadParams} {
		result, _, err := trustUpdate(t.Context(), &host.Run{Params: &taskcatalog.TrustUpdateParams{Bundle: bundle}, Host: h})
		if taskcatalog.CodeOf(err, "") != code {
			t.Errorf("%q: %v", bundle, err)
		}
		if err == nil && result.(*taskcatalog.TrustUpdateResult).Version != 7 {
			t.Errorf("%q: %+v", bundle, result)
		}
	}
}
