package validate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/gpu/amd"
	"github.com/hostler/hostler/agent/gpu/nvidia"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// nft is the path at which a test puts this binary in place of a system program. nftSays is the
// file with the output and the exit code to play.
const nft, nftSays = "/usr/sbin/nft", "/nft.says"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == gpuChild {
		os.Exit(gpu.Child([]gpu.Vendor{nvidia.New(), amd.New(nil)}, time.Now, [32]byte{1}))
	}
	// Under the race detector os.Exit waits a second. These programs get no environment that could switch that off, so
	// they end by syscall.Exit.
	if os.Args[0] == ipmitool {
		syscall.Exit(sayAsBMC(os.Args[3:]))
	}
	if os.Args[0] == nft {
		raw, err := os.ReadFile(nftSays)
		if err != nil {
			syscall.Exit(99)
		}
		end, text, _ := strings.Cut(string(raw), "\n")
		fmt.Print(text)
		switch end {
		case "fails":
			fmt.Fprint(os.Stderr, "\x1b[2Jnetlink: \xff\n")
			syscall.Exit(1)
		case "dies":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "floods":
			flood := make([]byte, 1<<20)
			for range 33 {
				_, _ = os.Stdout.Write(flood)
			}
		}
		syscall.Exit(0)
	}
	os.Exit(m.Run())
}

// carried returns this test's binary, as the program nft, and its libraries, by path, to be put onto
// an empty machine.
func carried(t *testing.T) map[string][]byte {
	t.Helper()
	files := hosttest.Libraries(t)
	self, err := os.ReadFile("/proc/self/exe")
	hosttest.OK(t, err)
	files[nft] = self
	return files
}

// withoutKernelView opens the machine as a user who may not mount: /sys is then the plain directory
// of the jail.
func withoutKernelView(t *testing.T) *machine.Machine {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	hosttest.OK(t, unix.Capget(&header, &has[0]))
	less := has
	less[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	hosttest.OK(t, unix.Capset(&header, &less[0]))
	m, err := machine.Open("/")
	hosttest.OK(t, errors.Join(err, unix.Capset(&header, &has[0])))
	return m
}

func TestAProgramThatFailsOrPrintsGarbageIsInconclusive(t *testing.T) {
	files := carried(t)
	if !hosttest.Jail(t) {
		return
	}
	for name, raw := range files {
		hosttest.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		hosttest.OK(t, os.WriteFile(name, raw, 0o755))
	}
	hosttest.OK(t, os.MkdirAll(os.TempDir(), 0o755))
	hosttest.OK(t, os.MkdirAll("/sys/module/nf_tables", 0o755))
	hosttest.OK(t, os.MkdirAll("/dev", 0o755))
	hosttest.OK(t, unix.Mknod("/dev/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	live := withoutKernelView(t)
	w := newWhole(t)
	w.kernel.Firewall = func(ctx context.Context, _ *host.Host) ([]string, error) {
		return readFirewall(ctx, &host.Host{Machine: live})
	}
	const rules = `{"nftables": [{"metainfo": {}}, {"table": {"family": "ip", "name": "filter", "handle": 1}}]}`
	hosttest.OK(t, os.WriteFile(nftSays, []byte("well\n"+rules), 0o644))
	w.take(t)
	if len(w.base.NotTaken) > 0 || w.base.Firewall == "" {
		_, err := w.kernel.Firewall(t.Context(), nil)
		t.Fatalf("the baseline has not %q, firewall %q: %v", w.base.NotTaken, w.base.Firewall, err)
	}
	for _, c := range []struct {
		name, says string
		verdict    taskcatalog.Verdict
		reason     string
	}{
		{"as it was", "well\n" + strings.Replace(rules, `"handle": 1`, `"handle": 7`, 1), taskcatalog.VerdictClean, ""},
		{"other rules", "well\n" + strings.Replace(rules, "filter", "other", 1), taskcatalog.VerdictNotClean, ""},
		{"no rules", `well` + "\n" + `{"nftables": []}`, taskcatalog.VerdictNotClean, ""},
		{"good rules and an exit that says no", "fails\n" + rules, taskcatalog.VerdictInconclusive, `/usr/sbin/nft: exit status 1: \x1b[2Jnetlink: \xff\x0a`},
		{"killed", "dies\n" + rules, taskcatalog.VerdictInconclusive, "/usr/sbin/nft: signal: killed: "},
		{"nothing", "well\n", taskcatalog.VerdictInconclusive, "cannot parse firewall rules: unexpected end of JSON input"},
		{"rules cut short", "well\n" + rules[:40], taskcatalog.VerdictInconclusive, "cannot parse firewall rules: unexpected end of JSON input"},
		{"two lists", "well\n" + rules + rules, taskcatalog.VerdictInconclusive, "cannot parse firewall rules: invalid character '{' after top-level value"},
		{"no list", "well\n{}", taskcatalog.VerdictInconclusive, "cannot parse firewall rules: no list"},
		{"garbage", "well\n\x7fELF\xff", taskcatalog.VerdictInconclusive, `cannot parse firewall rules: invalid character '\x7f' looking for beginning of value`},
		{"more than anyone reads", "floods\n", taskcatalog.VerdictInconclusive, "/usr/sbin/nft printed more than 33554432 bytes"},
	} {
		hosttest.OK(t, os.WriteFile(nftSays, []byte(c.says), 0o644))
		got, report := w.judge(t)
		if got.Verdict != c.verdict {
			t.Errorf("%s: the verdict is %s with findings %q", c.name, got.Verdict, told(report))
		}
		i := slices.IndexFunc(report.Checks, func(c taskcatalog.Check) bool { return c.Name == "firewall" })
		if check := report.Checks[i]; check.Made != (c.reason == "") || check.Reason != c.reason {
			t.Errorf("%s: the row says %+v, want reason %q", c.name, check, c.reason)
		}
		wantShowable(t, report)
	}
	hosttest.OK(t, os.Remove(nft))
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(notMade(t, report), []string{"firewall"}) {
		t.Errorf("without the program the verdict is %s", got.Verdict)
	}
}

// A file that exists but gives an error when read: a bad block of a disk, or a file system made by
// a tenant. Here the file is a process's memory.
func TestAFileThatCannotBeReadIsInconclusive(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	hosttest.OK(t, os.MkdirAll(os.TempDir(), 0o755))
	for file, rows := range map[string][]string{
		"etc/pam.d/common-auth":        etcRows,
		"etc/passwd":                   {"users"},
		"etc/profile":                  append([]string{"login_files"}, etcRows...),
		"root/.ssh/authorized_keys":    {"authorized_keys"},
		"home/ubuntu/.bashrc":          {"login_files"},
		"boot/grub/grub.cfg":           {"boot"},
		"usr/sbin/sshd":                {"packages"},
		"usr/local/bin/site":           {"programs"},
		"var/spool/cron/crontabs/root": {"jobs"},
		"proc/swaps":                   {"swap"},
		"sys/block/vda/device/serial":  {"inventory"},
		"var/lib/dpkg/status":          {"packages", "programs"},
	} {
		w := newWhole(t)
		if !hosttest.There(w.dir, file) {
			hosttest.Put(t, w.dir, file, "x")
			w.take(t)
		}
		at := filepath.Join(w.dir, file)
		hosttest.OK(t, unix.Mount("/proc/self/mem", at, "", unix.MS_BIND, ""))
		got, report := w.judge(t)
		hosttest.OK(t, unix.Unmount(at, unix.MNT_DETACH))
		want := slices.Sorted(slices.Values(rows))
		if !slices.Equal(notMade(t, report), want) || got.Verdict != taskcatalog.VerdictInconclusive {
			t.Errorf("%s: the verdict is %s with findings %q, not looked at are %q, want %q", file, got.Verdict, told(report), notMade(t, report), want)
		}
	}
}
