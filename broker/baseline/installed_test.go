package baseline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/baseline"
	"github.com/hostler/hostler/taskcatalog"
)

// digest returns a digest in the form of a baseline, made of one letter.
func digest(letter string) string { return strings.Repeat(letter, 32) }

// system returns the baseline of an installed system with its own keys and names.
func system(own string) *taskcatalog.Baseline {
	return &taskcatalog.Baseline{
		Users: []taskcatalog.BaselineUser{{Name: "root", Login: "locked"}, {Name: "ubuntu", UID: 1000, Login: digest(own)}},
		Files: []taskcatalog.BaselineFile{
			{Path: "/boot/grub/grub.cfg", Digest: digest(own), Mode: 0o600},
			{Path: "/boot/initrd.img-6.1.0-40-amd64", Digest: "big:31457280 " + own, Mode: 0o644},
			{Path: "/etc/fstab", Digest: digest(own), Mode: 0o644},
			{Path: "/etc/hostname", Digest: digest("0"), Mode: 0o644},
			{Path: "/etc/maas/maas-machine-creds.yml", Digest: digest(own), Mode: 0o600},
			{Path: "/etc/machine-id", Digest: digest(own), Mode: 0o444},
			{Path: "/etc/ssh/ssh_host_ed25519_key", Digest: digest(own), Mode: 0o600},
			{Path: "/etc/ssh/ssh_host_ed25519_key.pub", Digest: digest(own), Mode: 0o644},
			{Path: "/etc/ssh/sshd_config", Digest: digest("0"), Mode: 0o644},
			{Path: "/var/lib/cloud/instance", Digest: "link:/var/lib/cloud/instances/" + own},
			{Path: "/var/lib/cloud/instances/" + own + "/user-data.txt", Digest: digest(own), Mode: 0o600},
		},
		Units:   []taskcatalog.BaselineFile{{Path: "/etc/systemd/system/agent.service", Digest: digest("0"), Mode: 0o644}},
		Objects: []string{"cloud-init/off", "kernel/cmdline " + digest(own), "kernel/release 6.1.0-40-amd64"},
	}
}

func TestWhatEachInstallationMakesIsNoDifference(t *testing.T) {
	was, is := system("a"), system("b")
	now, lines := baseline.Installed(was, is)
	if len(lines) != 0 {
		t.Errorf("a system that was installed anew differs in %+v", lines)
	}
	if left := baseline.Diff(is, &now); len(left) != 0 {
		t.Errorf("the baseline is not what the fresh system says: %+v", left)
	}
	if lines := baseline.Diff(was, is); len(lines) < 10 {
		t.Errorf("compared byte by byte they differ in %+v", lines)
	}
	if was.Files[0].Digest != digest("a") || was.Users[1].Login != digest("a") || len(was.Objects) != 3 {
		t.Error("the comparison has changed what it compared")
	}
}

func TestAllElseOfASystemThatWasInstalledAnewIsTold(t *testing.T) {
	file := func(b *taskcatalog.Baseline, name string) *taskcatalog.BaselineFile {
		for i := range b.Files {
			if b.Files[i].Path == name {
				return &b.Files[i]
			}
		}
		t.Fatalf("there is no %s", name)
		return nil
	}
	for name, c := range map[string]struct {
		change func(b *taskcatalog.Baseline)
		want   string
	}{
		"another user": {func(b *taskcatalog.Baseline) {
			b.Users = append(b.Users, taskcatalog.BaselineUser{Name: "eve", UID: 1001})
		}, "eve"},
		"a login without a password": {func(b *taskcatalog.Baseline) { b.Users[1].Login = "none" }, "ubuntu"},
		"root with a password":       {func(b *taskcatalog.Baseline) { b.Users[0].Login = digest("e") }, "root"},
		"another uid":                {func(b *taskcatalog.Baseline) { b.Users[1].UID = 0 }, "ubuntu"},
		"a file more": {func(b *taskcatalog.Baseline) {
			b.Files = append(b.Files, taskcatalog.BaselineFile{Path: "/etc/evil", Digest: digest("e")})
		}, "/etc/evil"},
		"another file's content":       {func(b *taskcatalog.Baseline) { file(b, "/etc/ssh/sshd_config").Digest = digest("e") }, "/etc/ssh/sshd_config"},
		"a host key that all may read": {func(b *taskcatalog.Baseline) { file(b, "/etc/ssh/ssh_host_ed25519_key").Mode = 0o644 }, "/etc/ssh/ssh_host_ed25519_key"},
		"a host key of a user's":       {func(b *taskcatalog.Baseline) { file(b, "/etc/ssh/ssh_host_ed25519_key").UID = 1000 }, "/etc/ssh/ssh_host_ed25519_key"},
		"a host key that is a link":    {func(b *taskcatalog.Baseline) { file(b, "/etc/ssh/ssh_host_ed25519_key").Digest = "link:/home/eve/key" }, "/etc/ssh/ssh_host_ed25519_key"},
		"no machine-id":                {func(b *taskcatalog.Baseline) { file(b, "/etc/machine-id").Digest = "missing" }, "/etc/machine-id"},
		"a host key more": {func(b *taskcatalog.Baseline) {
			b.Files = append(b.Files, taskcatalog.BaselineFile{Path: "/etc/ssh/ssh_host_rsa_key", Digest: digest("e")})
		}, "/etc/ssh/ssh_host_rsa_key"},
		"a unit":                   {func(b *taskcatalog.Baseline) { b.Units[0].Digest = digest("e") }, "/etc/systemd/system/agent.service"},
		"cloud-init that runs":     {func(b *taskcatalog.Baseline) { b.Objects = b.Objects[1:] }, "cloud-init/off"},
		"another kernel":           {func(b *taskcatalog.Baseline) { b.Objects[2] = "kernel/release 6.1.0-41-amd64" }, "kernel/release 6.1.0-41-amd64"},
		"no command line":          {func(b *taskcatalog.Baseline) { b.Objects = append(b.Objects[:1], b.Objects[2]) }, "kernel/cmdline " + digest("a")},
		"a row that was not taken": {func(b *taskcatalog.Baseline) { b.NotTaken = []string{"bpf"} }, "bpf"},
	} {
		t.Run(name, func(t *testing.T) {
			is := system("b")
			c.change(is)
			_, lines := baseline.Installed(system("a"), is)
			for _, l := range lines {
				if l.What == c.want {
					return
				}
			}
			t.Errorf("%q is not told of: %+v", c.want, lines)
		})
	}
}

// An installation does not change the platform below the system: the earlier platform rows stay in
// the baseline.
func TestWhatLiesBelowTheSystemStaysAsItWas(t *testing.T) {
	rows := func(version string) []taskcatalog.PlatformRow {
		return []taskcatalog.PlatformRow{{Check: taskcatalog.CheckFirmware, Settings: []taskcatalog.PlatformSetting{{Name: "BIOS", Value: version}}}}
	}
	was, is := system("a"), system("b")
	was.Platform, is.Platform = rows("1.0"), rows("6.66")
	was.NotTaken, is.NotTaken = []string{"bpf", taskcatalog.CheckBMCUsers}, []string{"bpf", taskcatalog.CheckEFI}
	now, lines := baseline.Installed(was, is)
	if len(lines) != 0 || now.Platform[0].Settings[0].Value != "1.0" || !slices.Equal(now.NotTaken, []string{"bpf", taskcatalog.CheckBMCUsers}) {
		t.Errorf("it is held to %+v, %v; %+v", now.Platform, now.NotTaken, lines)
	}
	was.Platform = nil // taken by an agent without platform checks
	if now, _ := baseline.Installed(was, is); now.Platform[0].Settings[0].Value != "6.66" {
		t.Errorf("it is held to %+v", now.Platform)
	}
}

// Another image changes all software and no hardware, and nothing below the system.
func TestAnotherImageLeavesTheHardware(t *testing.T) {
	was, is := system("a"), system("b")
	was.Inventory.Disks, is.Inventory.Disks = []string{"d-1", "d-2"}, []string{"d-1", "d-2"}
	is.Users = append(is.Users, taskcatalog.BaselineUser{Name: "rocm"})
	row := taskcatalog.PlatformChecks()[0]
	was.Platform, is.Platform = []taskcatalog.PlatformRow{{Check: row, Absent: "before"}}, []taskcatalog.PlatformRow{{Check: row}}
	now, unlike := baseline.OtherImage(was, is)
	if len(unlike) > 0 || len(now.Users) != 3 || now.Platform[0].Absent != "before" {
		t.Errorf("%v, %+v", unlike, now)
	}
	is.Inventory.Disks = []string{"d-1"}
	if _, unlike := baseline.OtherImage(was, is); len(unlike) != 1 || unlike[0].Op != "removed" || unlike[0].What != "d-2" {
		t.Errorf("a disk is missing: %+v", unlike)
	}
}
