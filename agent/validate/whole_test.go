package validate

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// whole is a machine on which every look of a validation can be made, with its baseline.
type whole struct {
	h      *host.Host
	dir    string
	kernel Kernel
	base   *taskcatalog.Baseline
	policy *taskcatalog.CleanPolicy
	// published are the packages of the agent that the broker knows.
	published []taskcatalog.AgentPackage
}

const (
	socketHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	efiGlobal  = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	gpuUUID    = "GPU-5f0e1d2c-0000-4000-8000-00000000cafe"
)

func newWhole(t *testing.T) *whole {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // many small files, not worth a disk's time
	}
	h, dir := hosttest.Used(t)
	h.Settle = time.Nanosecond
	w := &whole{h: h, dir: dir, kernel: Kernel{
		BPF:      func() ([]machine.BPFProgram, error) { return nil, nil },
		Firewall: func(context.Context, *host.Host) ([]string, error) { return nil, nil },
		Cards:    func(string) (string, error) { return "14.32.1010", nil },
	}}
	commands, err := command.New(dir, time.Now)
	hosttest.OK(t, err)
	t.Cleanup(func() { hosttest.OK(t, commands.Close()) })
	h.Commands = commands
	sum := md5.Sum([]byte("sshd"))
	for name, text := range map[string]string{
		"usr/sbin/sshd":                                    "sshd",
		"var/lib/dpkg/status":                              "Package: openssh-server\nStatus: install ok installed\nArchitecture: amd64\n",
		"var/lib/dpkg/info/openssh-server.list":            "/usr/sbin/sshd\n/lib/modules/6.8/nvidia.ko\n",
		"var/lib/dpkg/info/openssh-server.md5sums":         hex.EncodeToString(sum[:]) + "  usr/sbin/sshd\n",
		"etc/pam.d/common-auth":                            "auth required pam_unix.so\n",
		"etc/systemd/system/site.conf":                     "",
		"root/.ssh/authorized_keys":                        "",
		"boot/grub/grub.cfg":                               "menu",
		"run/.keep":                                        "",
		"proc/uptime":                                      "90000.00 1.00\n",
		"proc/1/net/tcp":                                   socketHead,
		"proc/1/net/udp":                                   socketHead,
		"proc/modules":                                     "",
		"proc/cmdline":                                     "root=/dev/vda1\n",
		"proc/sys/kernel/osrelease":                        "6.8\n",
		"lib/modules/6.8/modules.dep":                      "nvidia.ko:\n",
		"sys/module/.keep":                                 "",
		"sys/block/vda/device/serial":                      "DISK-1\n",
		"sys/class/net/eth0/address":                       "52:54:00:00:00:01\n",
		"sys/devices/pci0000:00/0000:00:03.0/vendor":       "0x1af4\n",
		"sys/bus/pci/devices/0000:01:00.0/class":           "0x030200\n",
		"sys/bus/pci/devices/0000:01:00.0/vendor":          "0x10de\n",
		"sys/bus/pci/devices/0000:01:00.0/device":          "0x2330\n",
		"proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H100\nGPU UUID: \t " + gpuUUID + "\nVideo BIOS: \t 96.00.74.00.01\n",
		"sys/firmware/efi/efivars/BootOrder-" + efiGlobal:  "\x07\x00\x00\x00\x01\x00",
		"sys/firmware/efi/efivars/SecureBoot-" + efiGlobal: "\x06\x00\x00\x00\x01",
		"sys/firmware/dmi/tables/DMI":                      "\x00\x04\x00\x00\x00\x00\x7f\x04\x00\x00\x00\x00", // a BIOS and no BMC
		"sys/class/dmi/id/bios_version":                    "2.1a\n",
		"sys/bus/pci/devices/0000:01:00.0/sriov_numvfs":    "0\n",
	} {
		hosttest.Put(t, dir, name, text)
	}
	hosttest.OK(t, os.Symlink("../../../devices/pci0000:00/0000:00:03.0", filepath.Join(dir, "sys/class/net/eth0/device")))
	w.process(t, 1, 0, "systemd", "/usr/lib/systemd/systemd", "/init.scope")
	w.installAgent(t)
	if untouchedWhole == nil {
		untouchedWhole = w.take(t)
	}
	w.base = &taskcatalog.Baseline{}
	hosttest.OK(t, json.Unmarshal(untouchedWhole, w.base))
	return w
}

// untouchedWhole is the baseline that newWhole takes once: all such machines are the same, and a
// look costs time.
var untouchedWhole []byte

// take takes the baseline and passes it through JSON, as on the way to the broker and back.
func (w *whole) take(t *testing.T) (raw []byte) {
	t.Helper()
	res, _, err := runValidation(t.Context(), &host.Run{Params: &taskcatalog.ValidateCleanParams{TakeBaseline: true}, Host: w.h}, w.kernel)
	hosttest.OK(t, err)
	raw, err = json.Marshal(res.(*taskcatalog.ValidateCleanResult).Baseline)
	hosttest.OK(t, err)
	w.base = &taskcatalog.Baseline{}
	hosttest.OK(t, json.Unmarshal(raw, w.base))
	return raw
}

func (w *whole) judge(t *testing.T) (*taskcatalog.ValidateCleanResult, taskcatalog.Report) {
	t.Helper()
	p := &taskcatalog.ValidateCleanParams{Baseline: w.base, Policy: w.policy, ExpectedAgent: w.published}
	res, report, err := runValidation(t.Context(), &host.Run{Params: p, Host: w.h}, w.kernel)
	hosttest.OK(t, err)
	return res.(*taskcatalog.ValidateCleanResult), report
}

func (w *whole) process(t *testing.T, pid int, uid uint32, name, exe, cgroup string) {
	t.Helper()
	dir := "proc/" + strconv.Itoa(pid)
	hosttest.Put(t, w.dir, dir+"/stat", fmt.Sprintf("%d (%s) S 1%s 100\n", pid, name, strings.Repeat(" 0", 17)))
	hosttest.Put(t, w.dir, dir+"/status", fmt.Sprintf("Name:\tx\nUid:\t%d\t%[1]d\t%[1]d\t%[1]d\n", uid))
	hosttest.Put(t, w.dir, dir+"/cgroup", "0::"+cgroup+"\n")
	hosttest.OK(t, os.Symlink(exe, filepath.Join(w.dir, dir, "exe")))
}

// listen makes root listen on ports of a protocol.
func (w *whole) listen(t *testing.T, proto string, ports ...int) {
	t.Helper()
	state := map[string]string{"tcp": "0A", "udp": "07"}[proto]
	text := socketHead
	for i, port := range ports {
		text += fmt.Sprintf("%4d: 00000000:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 %d\n", i, port, state, 4000+i)
	}
	hosttest.Put(t, w.dir, "proc/1/net/"+proto, text)
}

// notMade returns the rows whose look could not be made.
func notMade(t *testing.T, r taskcatalog.Report) []string {
	t.Helper()
	var rows []string
	for _, c := range r.Checks {
		if !c.Made {
			rows = append(rows, c.Name)
			if c.Reason == "" {
				t.Errorf("nobody is told why %s could not be looked at", c.Name)
			}
		}
	}
	slices.Sort(rows)
	return rows
}

// told returns the findings as row and subject.
func told(r taskcatalog.Report) []string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.Check+" "+f.Subject)
	}
	slices.Sort(all)
	return all
}

func TestAnUntouchedMachineIsCleanInEveryRowThatIsLookedAt(t *testing.T) {
	verdict, report := newWhole(t).judge(t)
	if verdict.Verdict != taskcatalog.VerdictClean || verdict.ChecksNotMade > 0 {
		t.Errorf("an untouched machine is %s: %+v", verdict.Verdict, report)
	}
	var got, want []string
	for _, c := range report.Checks {
		got = append(got, c.Name)
	}
	for _, c := range taskcatalog.Checks() {
		if c.Treatment != taskcatalog.NotLookedAt {
			want = append(want, c.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the report has %q, the table %q", got, want)
	}
}
