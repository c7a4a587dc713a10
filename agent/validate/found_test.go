package validate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// A tenant with root may leave these changes in the system. Each is found in the row that the table
// promises, and only a reimage repairs it.
func TestWhatATenantWithRootPlantsIsFoundUnderItsRow(t *testing.T) {
	for _, c := range []struct{ row, file, text string }{
		{"pam", "etc/pam.d/common-auth", "auth sufficient pam_permit.so\n"},
		{"pam", "etc/pam.d/implant", "x"},
		{"pam", "etc/nsswitch.conf", "passwd: implant"},
		{"udev", "etc/udev/rules.d/99-implant.rules", "x"},
		{"sudoers", "etc/sudoers.d/implant", "x"},
		{"sudoers", "etc/polkit-1/rules.d/00-implant.rules", "x"},
		{"preload", "etc/ld.so.preload", "/tmp/implant.so\n"},
		{"cron", "etc/cron.d/implant", "x"},
		{"cron", "etc/cron.hourly/implant", "x"},
		{"cron", "etc/crontab", "x"},
		{"units", "etc/systemd/system/implant.service", "x"},
		{"units", "etc/systemd/system/ssh.service.d/override.conf", "x"},
		{"units", "run/systemd/system/implant.service", "x"},
		{"units", "usr/local/lib/systemd/system/implant.service", "x"},
		{"units", "etc/systemd/system/site.conf", "changed"},
		{"modprobe", "etc/modprobe.d/implant.conf", "install nvidia /tmp/x\n"},
		{"modprobe", "etc/modules-load.d/implant.conf", "x"},
		{"authorized_keys", "root/.ssh/authorized_keys", hosttest.AliceKey},
		{"authorized_keys", "root/.ssh/rc", "x"},
		{"authorized_keys", "home/ubuntu/.ssh/authorized_keys2", hosttest.AliceKey},
		{"ssh_server", "etc/ssh/sshd_config.d/implant.conf", "x"},
		{"login_files", "etc/profile.d/implant.sh", "x"},
		{"login_files", "root/.bashrc", "x"},
		{"login_files", "home/ubuntu/.config/systemd/user/implant.service", "x"},
		{"jobs", "var/spool/cron/crontabs/root", "x"},
		{"boot", "boot/grub/grub.cfg", "menu init=/tmp/x"},
		{"boot", "boot/initrd.img", "x"},
		{"programs", "usr/local/bin/implant", "x"},
		{"packages", "usr/sbin/sshd", "implant"},
		{"config", "etc/hosts", "x"},
	} {
		t.Run(c.row+" "+c.file, func(t *testing.T) {
			w := newWhole(t)
			hosttest.Put(t, w.dir, c.file, c.text)
			got, report := w.judge(t)
			if got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{c.row + " /" + c.file}) {
				t.Fatalf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
			if next := report.Findings[0].NextAction; next != taskcatalog.ActionReimage {
				t.Errorf("it is mended by %q", next)
			}
		})
	}
}

// cloud-init writes the time of creation at the head of its sudoers file. The time differs after a
// new installation; the rest of the file is compared.
func TestWhenSudoersWereMadeIsNoDifferenceAndWhatTheySayIs(t *testing.T) {
	const rule = "\n# User rules for ubuntu\nubuntu ALL=(ALL) NOPASSWD:ALL\n"
	made := func(on string) string { return "# Created by cloud-init v. 22.4.2 on " + on + " +0000\n" }
	const file, other = "etc/sudoers.d/90-cloud-init-users", "etc/sudoers.d/91-others"
	for name, c := range map[string]struct {
		file, text string
		found      bool
	}{
		"another day":                {file, made("Mon, 23 Nov 2026 09:07:46") + rule, false},
		"another rule":               {file, made("Mon, 23 Nov 2026 09:07:46") + rule + "eve ALL=(ALL) NOPASSWD:ALL\n", true},
		"a line before it":           {file, "#includedir /tmp\n" + made("Mon, 23 Nov 2026 09:07:46") + rule, true},
		"a line that only looks so":  {file, "# Created by cloud-init v. 22.4.2 on #includedir /tmp\n" + rule, true},
		"a line that goes on":        {file, "# Created by cloud-init v. 22.4.2 on Mon, 23 Nov 2026 09:07:46 +0000\\\n" + rule, true},
		"no line":                    {file, rule[1:], true},
		"the line twice":             {file, made("Mon, 23 Nov 2026 09:07:46") + made("Mon, 23 Nov 2026 09:07:46") + rule, true},
		"the head of another's file": {other, made("Mon, 23 Nov 2026 09:07:46") + rule, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t)
			for _, f := range []string{file, other} {
				hosttest.Put(t, w.dir, f, made("Sun, 22 Nov 2026 10:08:30")+rule)
			}
			w.take(t)
			hosttest.Put(t, w.dir, c.file, c.text)
			_, report := w.judge(t)
			if found := slices.Equal(told(report), []string{"sudoers /" + c.file}); found != c.found || !found && len(report.Findings) > 0 {
				t.Errorf("the findings are %q", told(report))
			}
		})
	}
}

func TestWhatATenantWithRootTakesAwayIsFound(t *testing.T) {
	for file, row := range map[string]string{"etc/pam.d/common-auth": "pam", "boot/grub/grub.cfg": "boot", "root/.ssh/authorized_keys": "authorized_keys", "usr/sbin/sshd": "packages"} {
		t.Run(file, func(t *testing.T) {
			w := newWhole(t)
			lose(file)(t, w)
			if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{row + " /" + file}) {
				t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
		})
	}
}

// The content stays, but its permitted writers change.
func TestAModeOrAnOwnerThatChangedIsFound(t *testing.T) {
	for name, change := range map[string]func(string) error{
		"mode":  func(name string) error { return os.Chmod(name, 0o666) },
		"owner": func(name string) error { return os.Lchown(name, 1000, 0) },
		"link": func(name string) error {
			if err := os.Rename(name, filepath.Join(filepath.Dir(filepath.Dir(name)), "hosts")); err != nil {
				return err
			}
			return os.Symlink("../hosts", name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t)
			hosttest.OK(t, change(filepath.Join(w.dir, "etc/pam.d/common-auth")))
			if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictNotClean || !slices.Contains(told(report), "pam /etc/pam.d/common-auth") {
				t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
		})
	}
}

func TestADeviceThatTheMachineDoesNotShowIsFound(t *testing.T) {
	for _, c := range []struct {
		name, subject string
		do            func(t *testing.T, w *whole)
	}{
		{"GPU uuid", "gpu uuid:" + gpuUUID, lose("proc/driver/nvidia/gpus/0000:01:00.0")},
		{"GPU swapped for another of its kind", "gpu uuid:" + gpuUUID, spoil("proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: GPU-other\n")},
		{"GPU off the bus", "gpu pci:0000:01:00.0 10de:2330", lose("sys/bus/pci/devices/0000:01:00.0")},
		{"GPU of another model", "gpu pci:0000:01:00.0 10de:2330", spoil("sys/bus/pci/devices/0000:01:00.0/device", "0x20b0\n")},
		{"disk", "disk DISK-1", lose("sys/block/vda")},
		{"disk swapped", "disk DISK-1", spoil("sys/block/vda/device/serial", "DISK-2\n")},
		{"one of two disks without serials", "disk no serial, 2048 sectors", lose("sys/block/vdc")},
		{"NIC", "nic 52:54:00:00:00:01", lose("sys/class/net/eth0")},
		{"NIC swapped", "nic 52:54:00:00:00:01", spoil("sys/class/net/eth0/address", "52:54:00:00:00:02\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWhole(t)
			for _, disk := range []string{"vdb", "vdc"} {
				hosttest.Put(t, w.dir, "sys/block/"+disk+"/device/vendor", "x")
				hosttest.Put(t, w.dir, "sys/block/"+disk+"/size", "2048\n")
			}
			w.take(t)
			c.do(t, w)
			got, report := w.judge(t)
			if got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(told(report), []string{"inventory " + c.subject}) {
				t.Fatalf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
			if next := report.Findings[0].NextAction; next != taskcatalog.ActionReimage {
				t.Errorf("it is mended by %q", next)
			}
		})
	}
}

// A new device is an operator's work, not a tenant's residue: the table promises only missing
// devices. A change of that promise would show here.
func TestADeviceThatIsNewIsNoFindingAsTheTableSays(t *testing.T) {
	w := newWhole(t)
	hosttest.Put(t, w.dir, "sys/block/vdb/device/serial", "DISK-2\n")
	hosttest.Put(t, w.dir, "sys/devices/pci0000:00/0000:00:04.0/vendor", "x")
	hosttest.Put(t, w.dir, "sys/class/net/eth1/address", "52:54:00:00:00:02\n")
	hosttest.OK(t, os.Symlink("../../../devices/pci0000:00/0000:00:04.0", filepath.Join(w.dir, "sys/class/net/eth1/device")))
	hosttest.Put(t, w.dir, "proc/driver/nvidia/gpus/0000:02:00.0/information", "GPU UUID: GPU-new\n")
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
	}
	rows := taskcatalog.Checks()
	i := slices.IndexFunc(rows, func(c taskcatalog.CheckRow) bool { return c.Name == "inventory" })
	if !strings.Contains(rows[i].Covers, "that the baseline has and the machine does not show") {
		t.Errorf("the table says %q", rows[i].Covers)
	}
}

// The USB card by which a host reaches its BMC has an address created by the kernel or by systemd,
// and the address of an InfiniBand card begins with a queue number. A change of either does not
// mean another card.
func TestAnAddressThatIsNotTheCardsOwnIsNoDeviceThatIsMissing(t *testing.T) {
	const infiniband = "80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:79:3e:1a"
	card := func(t *testing.T, w *whole, address, assigned string) {
		hosttest.Put(t, w.dir, "sys/class/net/card/address", address+"\n")
		hosttest.Put(t, w.dir, "sys/class/net/card/addr_assign_type", assigned+"\n")
		if assigned == "" {
			hosttest.OK(t, os.Remove(filepath.Join(w.dir, "sys/class/net/card/addr_assign_type")))
		}
	}
	for _, c := range []struct {
		name, was, is, assigned string
		missing                 bool
	}{
		{"drawn by the kernel", "be:65:46:cb:58:b7", "3a:11:90:5f:02:6c", "1", false},
		{"another device's", "0c:42:a1:00:00:02", "0c:42:a1:00:00:03", "2", false},
		{"made of the machine's id", "be:65:46:cb:58:b7", "3a:11:90:5f:02:6c", "3", false},
		{"of a maker, set by somebody", "0c:42:a1:00:00:02", "0c:42:a1:00:00:03", "3", true},
		{"the card's own", "0c:42:a1:00:00:02", "0c:42:a1:00:00:03", "0", true},
		{"a virtual machine's own", "52:54:00:00:00:02", "52:54:00:00:00:03", "0", true},
		{"of a way that is not known", "be:65:46:cb:58:b7", "3a:11:90:5f:02:6c", "4", true},
		{"without a word how it came to be", "be:65:46:cb:58:b7", "3a:11:90:5f:02:6c", "", true},
		{"another queue and subnet of InfiniBand", infiniband, "00:00:10:49:fe:80:00:00:00:00:00:01" + infiniband[35:], "0", false},
		{"another port of InfiniBand", infiniband, infiniband[:57] + "1b", "0", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWhole(t)
			hosttest.Put(t, w.dir, "sys/devices/pci0000:00/0000:00:04.0/vendor", "x")
			card(t, w, c.was, c.assigned)
			hosttest.OK(t, os.Symlink("../../../devices/pci0000:00/0000:00:04.0", filepath.Join(w.dir, "sys/class/net/card/device")))
			w.take(t)
			card(t, w, c.is, c.assigned)
			got, report := w.judge(t)
			if (got.Verdict == taskcatalog.VerdictNotClean) != c.missing {
				t.Errorf("the verdict is %s with findings %q", got.Verdict, told(report))
			}
		})
	}
}

// A baseline of an older agent contains such addresses.
func TestAnOlderBaselinesMadeUpAddressIsNoDeviceThatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		baseline []string
		unnamed  bool
		missing  string
	}{
		"of the card that has none now":       {[]string{"52:54:00:00:00:01", "be:65:46:cb:58:b7"}, true, ""},
		"two, and one card that has none now": {[]string{"52:54:00:00:00:01", "be:65:46:cb:58:b7", "be:65:46:cb:58:b8"}, true, "inventory nic be:65:46:cb:58:b8"},
		"and there is no such card":           {[]string{"52:54:00:00:00:01", "be:65:46:cb:58:b7"}, false, "inventory nic be:65:46:cb:58:b7"},
		"of a maker":                          {[]string{"52:54:00:00:00:01", "0c:42:a1:00:00:02"}, true, "inventory nic 0c:42:a1:00:00:02"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t)
			hosttest.Put(t, w.dir, "sys/devices/pci0000:00/0000:00:04.0/vendor", "x")
			if c.unnamed {
				hosttest.Put(t, w.dir, "sys/class/net/usb0/address", "3a:11:90:5f:02:6c\n")
				hosttest.Put(t, w.dir, "sys/class/net/usb0/addr_assign_type", "1\n")
				hosttest.OK(t, os.Symlink("../../../devices/pci0000:00/0000:00:04.0", filepath.Join(w.dir, "sys/class/net/usb0/device")))
			}
			w.take(t)
			w.base.Inventory.NICs = c.baseline
			if _, report := w.judge(t); strings.Join(told(report), " ") != c.missing {
				t.Errorf("findings %q", told(report))
			}
		})
	}
}
