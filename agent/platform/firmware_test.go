package platform

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func TestVersionsAreReadOfEachPart(t *testing.T) {
	l := newLab(t)
	l.want(taskcatalog.CheckFirmware,
		"bios_date = 03/01/2024", "bios_vendor = American Megatrends Inc.", "bios_version = 2.1a",
		"gpu 0000:5e:00.0 = 96.00.74.00.01", "gpu 0000:8e:00.0 = 113-M3000100-102",
		"nic 0000:3b:00.0 port 0 = 22.39.2048 (MT_0000000838)", "nvme S6ABNE0T = GDC5602Q")
	l.card["eth0"] = "" // its driver reports nothing
	if got := l.whole(taskcatalog.CheckFirmware); !slices.Contains(got, "nic 0000:3b:00.0 port 0 = ") {
		t.Errorf("read %q", got)
	}
}

// Virtual functions have their card's firmware, and come and go.
func TestAVirtualFunctionHasNoVersionOfItsOwn(t *testing.T) {
	l := newLab(t)
	before := l.whole(taskcatalog.CheckFirmware)
	l.put("sys/class/net/eth0v0/device/physfn", "")
	if got := l.whole(taskcatalog.CheckFirmware); !slices.Equal(got, before) {
		t.Errorf("read %q", got)
	}
}

func TestAVersionThatCannotBeReadIsAnErrorAndHidesNoOther(t *testing.T) {
	const gpu = "proc/driver/nvidia/gpus/0000:5e:00.0/information"
	for name, c := range map[string]struct {
		spoil func(l *lab)
		lost  string
	}{
		"a BIOS that does not say":     {func(l *lab) { l.lose("sys/class/dmi/id/bios_version") }, "bios_version"},
		"a GPU nobody opened yet":      {func(l *lab) { l.put(gpu, "Video BIOS: \t ??.??.??.??.??\n") }, "gpu 0000:5e:00.0"},
		"a GPU without its driver":     {func(l *lab) { l.lose(gpu) }, "gpu 0000:5e:00.0"},
		"another without its driver":   {func(l *lab) { l.lose("sys/bus/pci/devices/0000:8e:00.0/vbios_version") }, "gpu 0000:8e:00.0"},
		"a card whose driver fails":    {func(l *lab) { delete(l.card, "eth0") }, "nic 0000:3b:00.0 port 0"},
		"a drive that does not say":    {func(l *lab) { l.lose("sys/class/nvme/nvme0/firmware_rev") }, "nvme S6ABNE0T"},
		"a drive that cannot be asked": {func(l *lab) { l.lose("sys/class/nvme/nvme0/serial"); l.put("sys/class/nvme/nvme0/serial/x", "") }, "nvme S6ABNE0T"},
	} {
		l := newLab(t)
		before := l.whole(taskcatalog.CheckFirmware)
		c.spoil(l)
		got, absent, err := l.read(taskcatalog.CheckFirmware)
		if err == nil || absent != "" {
			t.Errorf("%s: %q, %v", name, absent, err)
		}
		for _, line := range before {
			if is, want := slices.Contains(got, line), !strings.HasPrefix(line, c.lost+" = "); want && !is && c.lost != "bios_version" || !want && is {
				t.Errorf("%s: read %q", name, got)
			}
		}
	}
}

func TestTwoPartsOfOneNameAreNotOne(t *testing.T) {
	l := newLab(t)
	for name, text := range map[string]string{"transport": "pcie", "serial": "S6ABNE0T", "firmware_rev": "EVIL"} {
		l.put("sys/class/nvme/nvme7/"+name, text)
	}
	if got, _, err := l.read(taskcatalog.CheckFirmware); err == nil || len(got) > 0 || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%q, %v", got, err)
	}
}

// A dual-port drive is two controllers with the same serial number, and the interfaces of a
// function have its port: reported once, as long as they agree.
func TestAPartThatShowsItselfTwiceIsToldOnce(t *testing.T) {
	l := newLab(t)
	before := l.whole(taskcatalog.CheckFirmware)
	for name, text := range map[string]string{"transport": "pcie", "serial": "S6ABNE0T", "firmware_rev": "GDC5602Q"} {
		l.put("sys/class/nvme/nvme7/"+name, text)
	}
	l.put("sys/class/net/ib0/dev_port", "0\n")
	l.ok(os.Symlink("../../../devices/pci0000:3a/0000:3b:00.0", filepath.Join(l.root, "sys/class/net/ib0/device")))
	l.card["ib0"] = l.card["eth0"]
	if got := l.whole(taskcatalog.CheckFirmware); !slices.Equal(got, before) {
		t.Errorf("read %q", got)
	}
	l.card["ib0"] = "EVIL"
	if got, _, err := l.read(taskcatalog.CheckFirmware); err == nil || len(got) > 0 || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMoreThanIsComparedIsAnError(t *testing.T) {
	l := newLab(t)
	for i := range taskcatalog.MaxPlatformSettings + 1 {
		l.put("sys/firmware/efi/efivars/Mok"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+strings.Repeat("y", i/50)+"-"+shim, "\x07\x00\x00\x00")
	}
	if got, _, err := l.read(taskcatalog.CheckEFI); err == nil || len(got) > 0 {
		t.Errorf("%d settings, %v", len(got), err)
	}
}

func TestVirtualFunctionsAreCounted(t *testing.T) {
	l := newLab(t)
	l.want(taskcatalog.CheckSRIOV)
	const count = "sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs"
	l.put(count, "8\n")
	l.want(taskcatalog.CheckSRIOV, "virtual functions of 0000:3b:00.0 = 8")
	for _, text := range []string{"many\n", "-1\n", "8 9\n"} {
		l.put(count, text)
		if got, absent, err := l.read(taskcatalog.CheckSRIOV); err == nil || absent != "" {
			t.Errorf("%q: %q, %q, %v", text, got, absent, err)
		}
	}
	l.ok(os.Remove(filepath.Join(l.root, count)))
	if got, absent, err := l.read(taskcatalog.CheckSRIOV); len(got) > 0 || absent == "" || err != nil {
		t.Errorf("without such a function: %q, %q, %v", got, absent, err)
	}
}
