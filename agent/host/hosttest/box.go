package hosttest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
)

// Ledger is Accounts and Marks without a disk.
type Ledger struct {
	next     uint32
	Accounts []host.Account
	drained  bool
}

func (m *Ledger) NextUID() (uint32, error) { m.next++; return m.next, nil }

func (m *Ledger) Put(a host.Account) error {
	if err := m.Delete(a.AllocationID); err != nil {
		return err
	}
	m.Accounts = append(m.Accounts, a)
	return nil
}

func (m *Ledger) ByAllocation(id string) (host.Account, bool, error) {
	for _, a := range m.Accounts {
		if a.AllocationID == id {
			return a, true, nil
		}
	}
	return host.Account{}, false, nil
}

func (m *Ledger) List() ([]host.Account, error) { return slices.Clone(m.Accounts), nil }

func (m *Ledger) Delete(id string) error {
	m.Accounts = slices.DeleteFunc(m.Accounts, func(a host.Account) bool { return a.AllocationID == id })
	return nil
}

func (m *Ledger) Drained() bool { return m.drained }

func (m *Ledger) SetDrained(d bool) error { m.drained = d; return nil }

// Box is a machine in a temporary directory, with accounts on which shadow's tools work. It has no
// processes and one file system.
func Box(t *testing.T) (*host.Host, string) {
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
		Put(t, dir, name, text)
	}
	m, err := machine.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	store := &Ledger{next: host.FirstUID - 1}
	return &host.Host{
		Machine: m, Now: func() time.Time { return time.Unix(1_790_000_000, 0) }, Log: zap.NewNop(), Version: "test",
		Accounts: store, Marks: store, Systemd: &Systemd{},
		StateDir: "/var/lib/hostler-agent", ConfigDir: "/etc/hostler-agent",
	}, dir
}

// Put writes a file of the machine in dir, with its directories.
func Put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Read returns a file of the machine in dir.
func Read(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// AliceKey is a public SSH key of a tenant.
const AliceKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxq alice"
