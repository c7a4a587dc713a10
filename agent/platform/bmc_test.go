package platform

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

var bmcRows = []string{taskcatalog.CheckBMCUsers, taskcatalog.CheckBMCLAN, taskcatalog.CheckBMCFirmware}

func TestWhoMayLogInToABMCIsRead(t *testing.T) {
	l := newLab(t).withBMC()
	l.want(taskcatalog.CheckBMCUsers,
		"channel 1 = Channel Medium Type 802.3 LAN, Channel Protocol Type IPMB-1.0, Session Support multi-session, Protocol Vendor ID 7154",
		"channel 1 after a reset = Alerting disabled, Per-message Auth enabled, User Level Auth enabled, Access Mode pre-boot only",
		"channel 1 now = Alerting disabled, Per-message Auth enabled, User Level Auth enabled, Access Mode always available",
		`channel 1 user 1 = "", NO ACCESS, disabled; fixed name Yes, access call-in / callback, link authentication disabled, IPMI messaging disabled`,
		`channel 1 user 2 = "ADMIN", ADMINISTRATOR, enabled; fixed name No, access call-in / callback, link authentication enabled, IPMI messaging enabled`,
		`channel 1 user 3 = "", NO ACCESS, unknown; fixed name No, access callback, link authentication disabled, IPMI messaging disabled`,
		"channel 1 users = at most 3, enabled 1",
		"channel 2 = Channel Medium Type IPMB (I2C), Channel Protocol Type IPMB-1.0, Session Support session-less, Protocol Vendor ID 7154")
	l.want(taskcatalog.CheckBMCFirmware,
		"bmc Aux Firmware Rev Info = 0x01 0x02 0x03 0x04", "bmc Device ID = 32", "bmc Device Revision = 1", "bmc Firmware Revision = 1.74",
		"bmc IPMI Version = 2.0", "bmc Manufacturer ID = 10876", "bmc Product ID = 6929 (0x1b11)")
}

func TestABMCsNetworkIsReadWithoutWhatChangesByItself(t *testing.T) {
	l := newLab(t).withBMC()
	static := l.whole(taskcatalog.CheckBMCLAN)
	for _, want := range []string{
		"channel 1 IP Address = 10.20.0.7", "channel 1 IP Address Source = Static Address", "channel 1 Auth Type Enable Admin = MD5 PASSWORD",
		"channel 1 Auth Type Enable OEM = ", "channel 1 Cipher Suite Priv Max = XaaaXXaaaXXaaXX", "channel 1 802.1q VLAN ID = Disabled",
	} {
		if !slices.Contains(static, want) {
			t.Errorf("%s is not in\n%s", want, strings.Join(static, "\n"))
		}
	}
	if text := strings.Join(static, "\n"); strings.Contains(text, "public") || strings.Contains(text, "Set in Progress") {
		t.Errorf("the community string or what changes is in\n%s", text)
	}
	lan := written(t, "lan")
	l.says("lan print 1", strings.Replace(lan, "public", "secret", 1))
	if slices.Equal(l.whole(taskcatalog.CheckBMCLAN), static) {
		t.Error("another community string makes no difference")
	}
	byServer := strings.Replace(lan, "Static Address", "DHCP Address", 1)
	l.says("lan print 1", byServer)
	one := l.whole(taskcatalog.CheckBMCLAN)
	l.says("lan print 1", strings.NewReplacer("10.20.0.7", "10.20.0.9", "10.20.0.1\n", "10.20.0.254\n", "Default Gateway MAC      : 00", "Default Gateway MAC      : 02").Replace(byServer))
	if two := l.whole(taskcatalog.CheckBMCLAN); !slices.Equal(one, two) {
		t.Errorf("a lease makes a difference:\n%s\n%s", strings.Join(one, "\n"), strings.Join(two, "\n"))
	}
}

// With other arguments, a program of this name could change users.
func TestABMCIsOnlyAskedAndOncePerLook(t *testing.T) {
	l := newLab(t).withBMC()
	for _, check := range bmcRows {
		if _, err := l.p.Read(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
	asked := l.asked()
	if want := 1 + lastChannel + 2; len(asked) != want {
		t.Errorf("asked %d times, want %d: %q", len(asked), want, asked)
	}
	for _, line := range asked {
		question := strings.TrimRight(strings.TrimPrefix(line, "-I_open_"), "0123456789")
		if !slices.Contains([]string{"mc_info", "channel_info_", "channel_getaccess_", "lan_print_"}, question) {
			t.Errorf("asked %q", line)
		}
	}
	if n := len(slices.DeleteFunc(asked, func(line string) bool { return line != "-I_open_mc_info" })); n != 1 {
		t.Errorf("asked %d times who it is", n)
	}
}

func TestAMachineWithoutABMCIsOneThatShowsIt(t *testing.T) {
	l := newLab(t)
	for _, check := range bmcRows {
		if got, absent, err := l.read(check); len(got) > 0 || absent == "" || err != nil {
			t.Errorf("%s: %q, %q, %v", check, got, absent, err)
		}
	}
	for name, sign := range map[string]func(l *lab){
		"a driver's node":       func(l *lab) { l.put("dev/ipmi0", "") },
		"a driver":              func(l *lab) { l.put("sys/class/ipmi/ipmi0/dev", "") },
		"ACPI":                  func(l *lab) { l.put("sys/bus/acpi/devices/IPI0001:00/path", "") },
		"the PCI bus":           func(l *lab) { l.put("sys/bus/pci/devices/0000:00:1f.7/class", "0x0c0701\n") },
		"SMBIOS":                func(l *lab) { l.put("sys/firmware/dmi/tables/DMI", smbios(0, 38)) },
		"SMBIOS, by the host's": func(l *lab) { l.put("sys/firmware/dmi/tables/DMI", smbios(42)) },
		"no SMBIOS table":       func(l *lab) { l.lose("sys/firmware/dmi/tables/DMI") },
		"a table cut short":     func(l *lab) { l.put("sys/firmware/dmi/tables/DMI", smbios(0)[:5]) },
		"an empty table":        func(l *lab) { l.put("sys/firmware/dmi/tables/DMI", "") },
		"a table that is none":  func(l *lab) { l.put("sys/firmware/dmi/tables/DMI", "\x00\x00\x00\x00\x00\x00") },
	} {
		l := newLab(t)
		sign(l)
		for _, check := range bmcRows {
			if got, absent, err := l.read(check); len(got) > 0 || absent != "" || err == nil {
				t.Errorf("%s: %s is %q, %q, %v: it may have a BMC, and there is no ipmitool", name, check, got, absent, err)
			}
		}
	}
}

func TestABMCThatCannotBeAskedIsAnError(t *testing.T) {
	users, lan := written(t, "users"), written(t, "lan")
	all := bmcRows
	for name, c := range map[string]struct {
		rows     []string
		question string
		says     string
		error    string
	}{
		"no device":              {all, "mc info", "!Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: No such file or directory", "/dev/ipmi0"},
		"a busy channel":         {all, "channel info 1", "!IPMI command failed: Node busy", "channel 1"},
		"a channel of no access": {all, "channel info 8", strings.Split(strings.ReplaceAll(written(t, "channel_lan"), "0x1", "0x8"), "  Volatile")[0] + "!IPMI command failed: Invalid data field in request\nUnable to Get Channel Access (volatile)", "channel 8"},
		"a channel in silence":   {all, "channel info 7", "!IPMI response is NULL.", "channel 7"},
		"users not told":         {all[:1], "channel getaccess 1", "!Unable to Get User Access (channel 1 id 1)", "Unable to Get"},
		"no network told":        {all[1:2], "lan print 1", "!Channel 1 is not a LAN channel", "not a LAN"},
		"too many lines":         {all, "mc info", strings.Repeat("a : b\n", maxLines+1), "more than the limit"},
		"too much text":          {all, "mc info", strings.Repeat("a", 1<<20), "more than the limit"},
		"nothing":                {all, "mc info", "", "an invalid line"},
		"a BMC without version":  {all, "mc info", strings.Replace(written(t, "mc_info"), "Firmware Revision", "Firmware", 1), "each of"},
		"a version twice":        {all, "mc info", written(t, "mc_info") + "Firmware Revision         : 1.75\n", "each of"},
		"another channel":        {all, "channel info 1", written(t, "channel_bus"), "an invalid line"},
		"half a channel":         {all, "channel info 1", strings.Split(written(t, "channel_lan"), "  Non-Vol")[0], "is incomplete"},
		"a terminal's escape":    {all, "channel info 1", "\x1b[2J\n", `\x1b[2J`},
		"no users":               {all[:1], "channel getaccess 1", strings.Replace(users, ": 3\n", ": 0\n", 1), "0 users"},
		"users without end":      {all[:1], "channel getaccess 1", strings.Replace(users, ": 3\n", ": 64\n", 1), "64 users"},
		"a user left out":        {all[:1], "channel getaccess 1", strings.Replace(users, ": 3\n", ": 4\n", 1), "lacks user 4"},
		"a user too many":        {all[:1], "channel getaccess 1", strings.Replace(users, ": 3\n", ": 2\n", 1), "an invalid line"},
		"users in disorder":      {all[:1], "channel getaccess 1", strings.Replace(users, "User ID              : 2", "User ID              : 3", 1), "in the place of user 2"},
		"a name of two lines":    {all[:1], "channel getaccess 1", strings.Replace(users, "ADMIN\n", "AD\nUser ID : 9\n", 1), "an invalid line"},
		"users cut short":        {all[:1], "channel getaccess 1", users[:len(users)-60], "an invalid line"},
		"users cut at a line":    {all[:1], "channel getaccess 1", users[:strings.LastIndex(users, "Privilege")], "ends before"},
		"a community of 2 lines": {all[1:2], "lan print 1", strings.Replace(lan, "public", "a\nIP Address : 1", 1), "an invalid line"},
		"a network of nothing":   {all[1:2], "lan print 1", "", "an invalid line"},
		"no source of address":   {all[1:2], "lan print 1", strings.Replace(lan, "IP Address Source ", "IP Address Sourge ", 1), "how the address is assigned"},
		"a line of no key":       {all[1:2], "lan print 1", "                        : x\n" + lan, "an invalid line"},
		"a level of none":        {all[1:2], "lan print 1", strings.Replace(lan, "Callback : ", "Callback ", 1), "an invalid line"},
		"a field twice":          {all[1:2], "lan print 1", lan + "IP Address              : 10.0.0.1\n", "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t).withBMC()
			l.says(c.question, c.says)
			for _, check := range bmcRows {
				_, absent, err := l.read(check)
				if failed := err != nil; failed != slices.Contains(c.rows, check) || absent != "" {
					t.Errorf("%s: %q, %v", check, absent, err)
				} else if failed && (!strings.Contains(err.Error(), c.error) || strings.ContainsRune(err.Error(), '\x1b')) {
					t.Errorf("%s: %v, want %q in it", check, err, c.error)
				}
			}
		})
	}
}

func TestWithoutIpmitoolTheErrorSaysSo(t *testing.T) {
	l := newLab(t).withBMC()
	l.lose("usr/bin/ipmitool")
	for _, check := range bmcRows {
		if _, absent, err := l.read(check); absent != "" || err == nil || !strings.Contains(err.Error(), "ipmitool is not installed") {
			t.Errorf("%s: %q, %v", check, absent, err)
		}
	}
	// A tenant's program of this name is reported, and not run.
	l = newLab(t).withBMC()
	l.lose("usr/bin/ipmitool")
	l.put("usr/bin/ipmitool", "a tenant's")
	l.ok(os.Chmod(filepath.Join(l.root, "usr/bin/ipmitool"), 0o777))
	if got, absent, err := l.read(taskcatalog.CheckBMCUsers); len(got) > 0 || absent != "" || err == nil || len(l.asked()) > 0 {
		t.Errorf("a program that anybody may write: %q, %q, %v", got, absent, err)
	}
}
