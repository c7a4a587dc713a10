package validate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

const efivars = "sys/firmware/efi/efivars/"

// A tenant with root may leave these changes below the operating system. Each is found in its row,
// and no reimage repairs a change that survives a boot.
func TestWhatChangedBelowTheSystemIsFoundUnderItsRow(t *testing.T) {
	const slot = "sys/bus/pci/devices/0000:01:00.0/"
	for _, c := range []struct {
		row, subject, detail, next string
		change                     func(t *testing.T, w *whole)
	}{
		{"efi", "BootOrder", "is 0002 0001, was 0001", taskcatalog.ActionByHand, spoil(efivars+"BootOrder-"+efiGlobal, "\x07\x00\x00\x00\x02\x00\x01\x00")},
		{"efi", "SecureBoot", "is off, was on", taskcatalog.ActionByHand, spoil(efivars+"SecureBoot-"+efiGlobal, "\x06\x00\x00\x00\x00")},
		{"efi", "BootNext", "not in the baseline: 0003", taskcatalog.ActionByHand, spoil(efivars+"BootNext-"+efiGlobal, "\x07\x00\x00\x00\x03\x00")},
		{"efi", "BootOrder", "is gone, was 0001", taskcatalog.ActionByHand, lose(efivars + "BootOrder-" + efiGlobal)},
		{"efi", "efi", "the machine was not booted by EFI; the baseline has 2 settings of it", taskcatalog.ActionByHand, lose("sys/firmware/efi")},
		{"firmware_versions", "bios_version", "is 9.9, was 2.1a", taskcatalog.ActionByHand, spoil("sys/class/dmi/id/bios_version", "9.9\n")},
		{
			"firmware_versions", "gpu 0000:01:00.0", "is 66.6, was 96.00.74.00.01", taskcatalog.ActionByHand,
			spoil("proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: \t "+gpuUUID+"\nVideo BIOS: \t 66.6\n"),
		},
		{"firmware_versions", "nic 0000:00:03.0 port", "is empty, was 14.32.1010", taskcatalog.ActionByHand, func(_ *testing.T, w *whole) {
			w.kernel.Cards = func(string) (string, error) { return "", nil }
		}},
		{"sriov", "virtual functions of 0000:01:00.0", "not in the baseline: 8", taskcatalog.ActionReimage, spoil(slot+"sriov_numvfs", "8\n")},
	} {
		t.Run(c.row+" "+c.subject, func(t *testing.T) {
			w := newWhole(t)
			c.change(t, w)
			got, report := w.judge(t)
			want := taskcatalog.Finding{Check: c.row, Subject: c.subject, Detail: c.detail, NextAction: c.next}
			if got.Verdict != taskcatalog.VerdictNotClean || len(report.Findings) != 1 || report.Findings[0] != want || len(notMade(t, report)) > 0 {
				t.Errorf("the verdict is %s with %+v, want %+v; not made are %q", got.Verdict, report.Findings, want, notMade(t, report))
			}
		})
	}
}

// An unreadable part does not suppress the report of another, changed part.
func TestADifferenceIsToldBesideWhatCannotBeRead(t *testing.T) {
	w := newWhole(t)
	hosttest.Put(t, w.dir, "sys/class/dmi/id/bios_version", "9.9\n")
	w.kernel.Cards = func(string) (string, error) { return "", errors.New("no such device") }
	got, report := w.judge(t)
	if got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{"firmware_versions bios_version"}) || !slices.Equal(notMade(t, report), []string{"firmware_versions"}) {
		t.Errorf("the verdict is %s with %q, not made are %q", got.Verdict, told(report), notMade(t, report))
	}
}

// A baseline from before these rows has nothing to compare with, so the verdict is not clean.
func TestABaselineOfAnOlderAgentIsInconclusiveBelowTheSystem(t *testing.T) {
	w := newWhole(t)
	w.base.Platform = nil
	got, report := w.judge(t)
	rows := taskcatalog.PlatformChecks()
	slices.Sort(rows)
	if got.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(notMade(t, report), rows) || len(report.Findings) > 0 {
		t.Errorf("the verdict is %s with %q, not made are %q", got.Verdict, told(report), notMade(t, report))
	}
	for _, c := range report.Checks {
		if !c.Made && !strings.Contains(c.Reason, "hostler node baseline retake") {
			t.Errorf("%s is not made because: %s", c.Name, c.Reason)
		}
	}
}

func applied(r taskcatalog.Report) (not []string) {
	for _, c := range r.Checks {
		if c.NotApplicable {
			not = append(not, c.Name)
		}
	}
	return not
}

func ofBMC(r taskcatalog.Report) (n int) {
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Check, "bmc_") {
			n++
		}
	}
	return n
}

// A row counts as not applicable only if it did not apply to the baseline either.
func TestARowDoesNotApplyOnlyWhereItNeverDid(t *testing.T) {
	bmc := []string{"bmc_users", "bmc_lan", "bmc_firmware"}
	w := newWhole(t)
	got, report := w.judge(t)
	if got.Verdict != taskcatalog.VerdictClean || !slices.Equal(applied(report), bmc) {
		t.Errorf("without a BMC the verdict is %s, not applicable are %q", got.Verdict, applied(report))
	}
	for _, c := range report.Checks {
		if c.NotApplicable && (!c.Made || !strings.Contains(c.Reason, "no BMC")) {
			t.Errorf("%+v", c)
		}
	}
	withBMC(t, w)
	if got, report = w.judge(t); got.Verdict != taskcatalog.VerdictNotClean || ofBMC(report) != 3 || len(applied(report)) > 0 {
		t.Errorf("with a BMC that the baseline does not have: %s, %+v", got.Verdict, report.Findings)
	}
	w.take(t)
	if got, report = w.judge(t); got.Verdict != taskcatalog.VerdictClean || len(applied(report)) > 0 {
		t.Errorf("with the BMC of the baseline: %s, %+v, %q", got.Verdict, report.Findings, notMade(t, report))
	}
	hosttest.Put(t, w.dir, "sys/firmware/dmi/tables/DMI", "\x7f\x04\x00\x00\x00\x00")
	if got, report = w.judge(t); got.Verdict != taskcatalog.VerdictNotClean || ofBMC(report) != 3 || len(applied(report)) > 0 {
		t.Errorf("without the BMC of the baseline: %s, %+v", got.Verdict, report.Findings)
	}
}

func TestAUserThatATenantLeftInTheBMCIsFound(t *testing.T) {
	w := newWhole(t)
	withBMC(t, w)
	w.take(t)
	name := filepath.Join(w.dir, "ipmi/channel getaccess 1")
	users, err := os.ReadFile(name)
	hosttest.OK(t, err)
	hosttest.Put(t, w.dir, "ipmi/channel getaccess 1", strings.NewReplacer("User Name            : \n", "User Name            : backdoor\n", "NO ACCESS", "ADMINISTRATOR", ": disabled\n", ": enabled\n").Replace(string(users)))
	got, report := w.judge(t)
	if got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{"bmc_users channel 1 user 1"}) || !strings.Contains(report.Findings[0].Detail, `"backdoor", ADMINISTRATOR, enabled`) {
		t.Errorf("the verdict is %s with %+v", got.Verdict, report.Findings)
	}
}

// withBMC gives the machine a BMC, and an ipmitool that prints hand-written text in ipmitool's
// form.
func withBMC(t *testing.T, w *whole) {
	t.Helper()
	hosttest.Put(t, w.dir, "sys/firmware/dmi/tables/DMI", "\x26\x04\x00\x00\x00\x00\x7f\x04\x00\x00\x00\x00")
	self, err := os.Executable()
	hosttest.OK(t, err)
	raw, err := os.ReadFile(self)
	hosttest.OK(t, err)
	hosttest.Put(t, w.dir, ipmitool, string(raw))
	hosttest.OK(t, os.Chmod(filepath.Join(w.dir, ipmitool), 0o755))
	access := "    Alerting            : disabled\n    Per-message Auth    : enabled\n    User Level Auth     : enabled\n    Access Mode         : always available\n"
	for question, text := range map[string]string{
		"mc info":             "Device ID : 32\nDevice Revision : 1\nFirmware Revision : 1.74\nIPMI Version : 2.0\nManufacturer ID : 10876\nProduct ID : 1 (0x0001)\n",
		"channel info 1":      "Channel 0x1 info:\n  Channel Medium Type   : 802.3 LAN\n  Channel Protocol Type : IPMB-1.0\n  Session Support       : multi-session\n  Protocol Vendor ID    : 7154\n  Volatile(active) Settings\n" + access + "  Non-Volatile Settings\n" + access,
		"channel getaccess 1": "Maximum User IDs     : 1\nEnabled User IDs     : 0\n\nUser ID              : 1\nUser Name            : \nFixed Name           : No\nAccess Available     : callback\nLink Authentication  : disabled\nIPMI Messaging       : disabled\nPrivilege Level      : NO ACCESS\nEnable Status        : disabled\n",
		"lan print 1":         "IP Address Source       : Static Address\nIP Address              : 10.20.0.7\n",
	} {
		hosttest.Put(t, w.dir, "ipmi/"+question, text)
	}
	w.h.Commands.Account = func(string) (*syscall.Credential, error) {
		return &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), NoSetGroups: true}, nil
	}
}

// ipmitool is the path at which a test puts this binary in place of the program.
const ipmitool = "/usr/bin/ipmitool"

// sayAsBMC prints the file of the question, or ipmitool's answer for a missing channel.
func sayAsBMC(question []string) int {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSuffix(exe, ipmitool), "ipmi", strings.Join(question, " ")))
	if err != nil {
		fmt.Fprintln(os.Stderr, "IPMI command failed: Invalid data field in request")
		return 1
	}
	fmt.Print(string(text))
	return 0
}

// A new baseline could not have an unreadable row either: the advice names the cause of the read
// error instead.
func TestARowThatCannotBeReadAdvisesNoNewBaseline(t *testing.T) {
	w := newWhole(t)
	w.base.Platform = slices.DeleteFunc(w.base.Platform, func(r taskcatalog.PlatformRow) bool { return r.Check == taskcatalog.CheckFirmware })
	w.base.NotTaken = append(w.base.NotTaken, taskcatalog.CheckFirmware)
	w.kernel.Cards = func(string) (string, error) { return "", errors.New("no such device") }
	_, report := w.judge(t)
	for _, c := range report.Checks {
		if c.Name == taskcatalog.CheckFirmware && (c.Made || !strings.Contains(c.Reason, "no such device") || strings.Contains(c.Reason, "retake")) {
			t.Errorf("made is %v, because: %s", c.Made, c.Reason)
		}
	}
	if !slices.Contains(notMade(t, report), taskcatalog.CheckFirmware) {
		t.Errorf("not made are %q", notMade(t, report))
	}
}
