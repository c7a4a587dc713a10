package validate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// broken lists faults of a look, each with every row that is then unknown.
var broken = []struct {
	name string
	rows []string
	do   func(t *testing.T, w *whole)
}{
	{"a line of passwd that is none", []string{"users"}, spoil("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000\n")},
	{"a uid in passwd that is no number", []string{"users"}, spoil("etc/passwd", "root:x:zero:0:root:/root:/bin/bash\n")},
	{"a line of group that is none", []string{"users"}, spoil("etc/group", "root:x\n")},
	{"no shadow", []string{"users"}, lose("etc/shadow")},
	{"a dpkg status of garbage", []string{"packages", "programs"}, spoil("var/lib/dpkg/status", "\x00\xff\n")},
	{"no dpkg status", []string{"packages", "programs"}, lose("var/lib/dpkg/status")},
	{"sums of a package that are none", []string{"packages", "programs"}, spoil("var/lib/dpkg/info/openssh-server.md5sums", "zz /usr/sbin/sshd\n")},
	{"a process without fields", []string{"namespaces", "processes"}, spoil("proc/1/stat", "1 (systemd) S\n")},
	{"a process without uids", []string{"namespaces", "processes"}, spoil("proc/1/status", "Name:\tsystemd\n")},
	{"no uptime", []string{"processes"}, spoil("proc/uptime", "soon\n")},
	{"sockets without a heading", []string{"listeners"}, spoil("proc/1/net/tcp", "garbage\n")},
	{"a socket cut short", []string{"listeners"}, spoil("proc/1/net/udp", socketHead+"0: 00000000:0016\n")},
	{"no list of sockets", []string{"listeners"}, lose("proc/1/net/tcp")},
	{"no list of shared memory", []string{"ipc"}, lose("proc/sysvipc/shm")},
	{"a semaphore without an owner", []string{"ipc"}, spoil("proc/sysvipc/sem", "key semid perms nsems uid gid cuid cgid otime ctime\n0 0\n")},
	{"swaps without a heading", []string{"swap"}, spoil("proc/swaps", "\x7fELF")},
	{"mounts of garbage", []string{"hugepages", "kernel_hooks", "mounts", "namespaces"}, spoil("proc/1/mountinfo", "22 1\n")},
	{"an empty list of mounts", []string{"hugepages", "kernel_hooks", "mounts", "namespaces"}, spoil("proc/1/mountinfo", "")},
	{"no list of the agent's mounts", []string{"files", "setuid"}, lose("proc/self/mountinfo")},
	{"no local file system", []string{"files", "setuid"}, spoil("proc/self/mountinfo", "")},
	{"no boot id", []string{"temporary"}, lose("proc/sys/kernel/random/boot_id")},
	{"a list of modules cut short", []string{"modules"}, spoil("proc/modules", "nvidia 16384\n")},
	{"no modules in sysfs", []string{"modules"}, lose("sys/module")},
	{"no release of the kernel", []string{"kernel_hooks", "modules"}, lose("proc/sys/kernel/osrelease")},
	{"no block devices", []string{"block_devices", "inventory"}, lose("sys/block")},
	{"no network cards", []string{"inventory"}, lose("sys/class/net")},
	{"a GPU that tells nothing", []string{"firmware_versions", "inventory"}, lose("proc/driver/nvidia/gpus/0000:01:00.0/information")},
	{"a boot entry that is not a file", []string{"efi"}, func(t *testing.T, w *whole) {
		hosttest.OK(t, os.Mkdir(filepath.Join(w.dir, "sys/firmware/efi/efivars/Boot0001-"+efiGlobal), 0o755))
	}},
	{"EFI without its variables", []string{"efi"}, lose("sys/firmware/efi/efivars")},
	{"no SMBIOS table", []string{"bmc_firmware", "bmc_lan", "bmc_users"}, lose("sys/firmware/dmi/tables/DMI")},
	{"a BMC and no ipmitool", []string{"bmc_firmware", "bmc_lan", "bmc_users"}, spoil("sys/class/ipmi/ipmi0/dev", "")},
	{"no BIOS version", []string{"firmware_versions"}, lose("sys/class/dmi/id/bios_version")},
	{"a network driver that fails", []string{"firmware_versions"}, func(_ *testing.T, w *whole) {
		w.kernel.Cards = func(string) (string, error) { return "", errors.New("no such device") }
	}},
	{"a count of virtual functions that is none", []string{"sriov"}, spoil("sys/bus/pci/devices/0000:01:00.0/sriov_numvfs", "many\n")},
	{"a scratch pattern that is none", []string{"scratch"}, func(_ *testing.T, w *whole) { w.h.Scratch = []string{"/["} }},
	{"a subuid that is a directory", []string{"users"}, func(t *testing.T, w *whole) {
		hosttest.OK(t, os.Mkdir(filepath.Join(w.dir, "etc/subuid"), 0o755))
	}},
	{"a kernel that lists no BPF programs", []string{"bpf"}, func(_ *testing.T, w *whole) {
		w.kernel.BPF = func() ([]machine.BPFProgram, error) { return nil, errors.New("not permitted") }
	}},
	{"a firewall that cannot be asked", []string{"firewall"}, func(_ *testing.T, w *whole) {
		w.kernel.Firewall = func(context.Context, *host.Host) ([]string, error) { return nil, errors.New("exit status 1") }
	}},
}

func spoil(name, text string) func(*testing.T, *whole) {
	return func(t *testing.T, w *whole) { hosttest.Put(t, w.dir, name, text) }
}

func lose(name string) func(*testing.T, *whole) {
	return func(t *testing.T, w *whole) {
		t.Helper()
		if !hosttest.There(w.dir, name) {
			t.Fatalf("%s is not there in the first place", name)
		}
		hosttest.OK(t, os.RemoveAll(filepath.Join(w.dir, name)))
	}
}

func TestALookThatFailsIsInconclusiveNamesItsRowsAndHidesNoFinding(t *testing.T) {
	for _, c := range broken {
		t.Run(c.name, func(t *testing.T) {
			w := newWhole(t)
			c.do(t, w)
			got, report := w.judge(t)
			if rows := notMade(t, report); !slices.Equal(rows, c.rows) || got.ChecksNotMade != len(rows) {
				t.Errorf("not looked at are %q, want %q", rows, c.rows)
			}
			if got.Verdict != taskcatalog.VerdictInconclusive || report.Verdict != got.Verdict {
				t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
			// The fault hides no finding in other rows.
			hosttest.Put(t, w.dir, "etc/cron.d/implant", "* * * * * root /bin/true\n")
			got, report = w.judge(t)
			if rows := notMade(t, report); !slices.Equal(rows, c.rows) {
				t.Errorf("beside a finding not looked at are %q, want %q", rows, c.rows)
			}
			if got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{"cron /etc/cron.d/implant"}) {
				t.Errorf("beside a finding the verdict is %s with findings %q", got.Verdict, told(report))
			}
		})
	}
}

// An item that was new at the first look must not be forgotten because the second look fails.
func TestASecondLookThatFailsIsNeverClean(t *testing.T) {
	w := newWhole(t)
	looks := 0
	w.kernel.BPF = func() ([]machine.BPFProgram, error) {
		if looks++; looks > 1 {
			return nil, errors.New("not permitted")
		}
		return []machine.BPFProgram{{Type: "kprobe", Name: "implant", Tag: "00"}}, nil
	}
	got, report := w.judge(t)
	if looks != 2 {
		t.Fatalf("%d looks", looks)
	}
	if got.Verdict == taskcatalog.VerdictClean || !slices.Equal(notMade(t, report), []string{"bpf"}) {
		t.Errorf("the verdict is %s, not looked at are %q", got.Verdict, notMade(t, report))
	}
}

// Packages' files are looked at last. A record that by then names fewer or other files must not
// have them left out.
func TestARecordThatChangesMeanwhileIsInconclusive(t *testing.T) {
	const sums = "var/lib/dpkg/info/openssh-server.md5sums"
	for name, spoilt := range map[string]string{
		"names no file":   "",
		"has another sum": strings.Repeat("0", 32) + "  usr/sbin/sshd\n",
	} {
		w := newWhole(t)
		w.kernel.BPF = func() ([]machine.BPFProgram, error) {
			hosttest.Put(t, w.dir, sums, spoilt)
			return nil, nil
		}
		got, report := w.judge(t)
		if got.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(notMade(t, report), []string{"packages"}) {
			t.Errorf("%s: the verdict is %s, not looked at are %q", name, got.Verdict, notMade(t, report))
		}
	}
}

func TestWithoutABaselineNothingIsClean(t *testing.T) {
	w := newWhole(t)
	w.base = nil
	got, report := w.judge(t)
	// All rows but the agent's, which is compared with the published package.
	without := slices.DeleteFunc(taskcatalog.LookedAt(), func(row string) bool { return row == taskcatalog.CheckAgent })
	slices.Sort(without)
	if got.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(notMade(t, report), without) || len(report.Findings) > 0 {
		t.Errorf("without a baseline: %+v, %q", got, told(report))
	}
	hosttest.OK(t, w.h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 70000, GID: 70000, Home: "/home/alice"}))
	hosttest.Put(t, w.dir, "tmp/weights", "alice's")
	hosttest.OK(t, os.Lchown(filepath.Join(w.dir, "tmp/weights"), 70000, 70000))
	// An allocation's residue is a finding even without a baseline.
	got, report = w.judge(t)
	if got.Verdict != taskcatalog.VerdictNotClean || !slices.Contains(told(report), "temporary /tmp/weights") {
		t.Errorf("with a tenant's file: %s, %q", got.Verdict, told(report))
	}
	for _, f := range report.Findings {
		if f.NextAction != taskcatalog.ActionRevokeUser {
			t.Errorf("%s %s is mended by %s", f.Check, f.Subject, f.NextAction)
		}
	}
}

func TestABaselineThatHasNothingIsNotClean(t *testing.T) {
	w := newWhole(t)
	w.base = &taskcatalog.Baseline{}
	if got, _ := w.judge(t); got.Verdict != taskcatalog.VerdictNotClean {
		t.Errorf("the verdict is %s", got.Verdict)
	}
}

func TestARowThatTheBaselineDoesNotHaveIsInconclusive(t *testing.T) {
	w := newWhole(t)
	for _, c := range validationChecks {
		for _, row := range c.rows {
			if row == taskcatalog.CheckAgent {
				continue // no baseline has the agent's row
			}
			w.base.NotTaken = []string{row}
			got, report := w.judge(t)
			if got.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(notMade(t, report), []string{row}) {
				t.Errorf("without %s the verdict is %s, not looked at are %q, found %q", row, got.Verdict, notMade(t, report), told(report))
			}
		}
	}
}

// A row whose look failed while the baseline was taken stays inconclusive, even after the look
// works again.
func TestABaselineTakenByALookThatFailedIsNeverClean(t *testing.T) {
	mended := newWhole(t)
	for _, c := range broken {
		t.Run(c.name, func(t *testing.T) {
			w := newWhole(t)
			c.do(t, w)
			w.take(t)
			mended.base = w.base
			got, report := mended.judge(t)
			rows := notMade(t, report)
			for _, row := range c.rows {
				if !slices.Contains(rows, row) {
					t.Errorf("row %s, which the baseline does not have, counts as looked at", row)
				}
			}
			if got.Verdict == taskcatalog.VerdictClean {
				t.Errorf("the verdict is %s", got.Verdict)
			}
		})
	}
}
