package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

func TestCompared(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	both := []DeviceKind{DeviceDisk, DeviceGPU}
	disks := func(words string) (out []Device) {
		for _, w := range strings.Fields(words) {
			id, state, _ := strings.Cut(w, ":")
			out = append(out, Device{Kind: DeviceDisk, ID: id, State: DeviceState(state)})
		}
		return out
	}
	for name, row := range map[string]struct {
		known, reported string
		looked          []DeviceKind
		want            string
	}{
		"what is there is found":                     {"a:expected b:found", "a b", both, "a:found b:found"},
		"what is not there is missing":               {"a:expected b:found c:missing", "", both, "a:missing b:missing c:missing"},
		"what comes back is found":                   {"a:missing", "a", both, "a:found"},
		"what nobody expected is unexpected":         {"a:found", "a x", both, "a:found x:unexpected"},
		"and stays so until somebody accepts it":     {"x:unexpected", "x", both, "x:unexpected"},
		"and is forgotten when it is gone":           {"a:found x:unexpected", "a", both, "a:found"},
		"what was removed stays on record":           {"a:removed", "", both, "a:removed"},
		"what was removed and is back is unexpected": {"a:removed b:found", "a b", both, "b:found a:unexpected"},
		"two of one serial are one":                  {"a:found", "a a x x", both, "a:found x:unexpected"},
		"letters of any case are the same":           {"AB12:expected", "ab12", both, "AB12:found"},
		"nobody looked":                              {"a:expected x:unexpected", "", []DeviceKind{DeviceGPU}, "a:expected x:unexpected"},
		"nobody looked, and yet something is told":   {"a:expected", "b", []DeviceKind{DeviceGPU}, "a:expected"},
	} {
		var words []string
		for _, d := range Compared(disks(row.known), disks(row.reported), row.looked, now) {
			words = append(words, fmt.Sprintf("%s:%s", d.ID, d.State))
			if d.State == DeviceUnexpected && d.Since.IsZero() && !strings.Contains(row.known, d.ID+":unexpected") {
				t.Errorf("%s: %s is so since never", name, d.ID)
			}
		}
		if got := strings.Join(words, " "); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// MAAS may know a disk by its worldwide name; the kernel writes the name differently.
func TestADiskIsKnownAgainByItsWorldwideName(t *testing.T) {
	f := taskcatalog.Facts{Disks: []taskcatalog.DiskFacts{{Name: "sda", Serial: "Z1W0", WWID: "naa.5000c500a1b2c3d4"}}}
	for id, want := range map[string]DeviceState{
		"Z1W0": DeviceFound, "5000C500A1B2C3D4": DeviceFound, "0x5000c500a1b2c3d4": DeviceFound, "naa.5000c500a1b2c3d4": DeviceFound,
		"5000c500a1b2c3d5": DeviceMissing, "naa": DeviceMissing, "c3d4": DeviceMissing,
	} {
		got := Compared([]Device{{Kind: DeviceDisk, ID: id, State: DeviceExpected}}, ReportedDevices(f), []DeviceKind{DeviceDisk}, time.Time{})
		if got[0].State != want {
			t.Errorf("%s is %s, want %s", id, got[0].State, want)
		}
	}
}

// Each reported disk is a part, and the same part in each report. A namespace has its drive's
// serial, and a disk may have no name at all. Two paths are one disk.
func TestNoDiskThatIsToldOfIsLeftOut(t *testing.T) {
	disk := func(name, serial, wwid string) taskcatalog.DiskFacts {
		return taskcatalog.DiskFacts{Name: name, Serial: serial, WWID: wwid}
	}
	for name, row := range map[string]struct {
		known  string // on record
		disks  []taskcatalog.DiskFacts
		ids    string
		stands string
	}{
		"a serial of its own":          {"X", []taskcatalog.DiskFacts{disk("nvme0n1", "X", "eui.1")}, "X", "X:found"},
		"two namespaces":               {"", []taskcatalog.DiskFacts{disk("nvme0n1", "X", "eui.1"), disk("nvme0n2", "X", "eui.2")}, "eui.1 eui.2", "eui.1:unexpected eui.2:unexpected"},
		"a second namespace since":     {"X", []taskcatalog.DiskFacts{disk("nvme0n1", "X", "eui.1"), disk("nvme0n2", "x", "eui.2")}, "eui.1 eui.2", "X:found eui.2:unexpected"},
		"a namespace less":             {"eui.1 eui.2", []taskcatalog.DiskFacts{disk("nvme0n2", "X", "eui.2")}, "X", "eui.1:missing eui.2:found"},
		"no names":                     {"disk:vda", []taskcatalog.DiskFacts{disk("vda", "", ""), disk("vdb", "", "")}, "disk:vda disk:vdb", "disk:vda:found disk:vdb:unexpected"},
		"of one serial, without names": {"", []taskcatalog.DiskFacts{disk("sda", "X", ""), disk("sdb", "X", "")}, "disk:sda disk:sdb", "disk:sda:unexpected disk:sdb:unexpected"},
		"of one worldwide name":        {"", []taskcatalog.DiskFacts{disk("sda", "", "naa.1"), disk("sdb", "Y", "naa.1"), disk("sdc", "naa.1", "")}, "naa.1 Y disk:sdc", "naa.1:unexpected Y:unexpected disk:sdc:unexpected"},
		"two paths":                    {"X", []taskcatalog.DiskFacts{disk("sda", "X", "naa.1"), disk("sdb", "X", "naa.1")}, "X", "X:found"},
	} {
		var known []Device
		for _, id := range strings.Fields(row.known) {
			known = append(known, Device{Kind: DeviceDisk, ID: id, State: DeviceFound})
		}
		reported := ReportedDevices(taskcatalog.Facts{Disks: row.disks})
		var ids, stands []string
		for _, d := range reported {
			ids = append(ids, d.ID)
		}
		for _, d := range Compared(known, reported, []DeviceKind{DeviceDisk}, time.Time{}) {
			stands = append(stands, d.ID+":"+string(d.State))
		}
		if got := strings.Join(ids, " "); got != row.ids {
			t.Errorf("%s: they are %s, want %s", name, got, row.ids)
		}
		if got := strings.Join(stands, " "); got != row.stands {
			t.Errorf("%s: %s, want %s", name, got, row.stands)
		}
	}
}

// A match by the exact identity goes first: here the drive's serial is the other part's identity.
func TestPartsArePairedByTheirIdentityFirst(t *testing.T) {
	known := []Device{{Kind: DeviceDisk, ID: "X"}, {Kind: DeviceDisk, ID: "eui.1"}, {Kind: DeviceDisk, ID: "Z"}}
	reported := ReportedDevices(taskcatalog.Facts{Disks: []taskcatalog.DiskFacts{{Name: "nvme0n1", Serial: "X", WWID: "eui.1"}, {Name: "nvme0n2", Serial: "X", WWID: "eui.2"}}})
	if got := Paired(known, reported); !slices.Equal(got, []int{1, 0, -1}) {
		t.Errorf("%v", got)
	}
}

func TestUnlikeSaysWhichGPUIsNotOfTheSKU(t *testing.T) {
	memory := func(n uint64) *uint64 { return &n }
	sku := SKU{ID: "h100.2", GPUVendor: "nvidia", GPUModel: "h100", GPUCount: 2, GPUMemoryBytes: 80 << 30}
	good := taskcatalog.GPUFacts{Vendor: "nvidia", Name: "NVIDIA H100 80GB HBM3", PCIAddress: "0000:1b:00.0", MemoryBytes: memory(85520809984)}
	for want, change := range map[string]func(g *taskcatalog.GPUFacts){
		"":                func(*taskcatalog.GPUFacts) {},
		"is amd":          func(g *taskcatalog.GPUFacts) { g.Vendor = "amd" },
		"is NVIDIA A100":  func(g *taskcatalog.GPUFacts) { g.Name = "NVIDIA A100" },
		"does not report": func(g *taskcatalog.GPUFacts) { g.MemoryBytes = nil },
		"has 40960 MiB":   func(g *taskcatalog.GPUFacts) { g.MemoryBytes = memory(40 << 30) },
		"has 96256 MiB":   func(g *taskcatalog.GPUFacts) { g.MemoryBytes = memory(94 << 30) },
	} {
		g := good
		change(&g)
		if got := sku.GPUDifference([]taskcatalog.GPUFacts{good, g}); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := sku.GPUDifference([]taskcatalog.GPUFacts{good}); !strings.Contains(got, "the machine has 1 GPUs") {
		t.Errorf("one of two: %q", got)
	}
	none := NewSKU()
	if none.GPUDifference(nil) != "" || none.GPUDifference([]taskcatalog.GPUFacts{good}) == "" {
		t.Error("a SKU without GPUs is like a machine with one, or not like one without")
	}
}

func TestASKUsModelIsWholeWordsOfTheVendorsName(t *testing.T) {
	for _, row := range []struct {
		vendor, model, name string
		like                bool
	}{
		{"nvidia", "H200", "NVIDIA H200", true},
		{"nvidia", "H200", "NVIDIA H200 NVL", true},
		{"nvidia", "NVIDIA H200", "NVIDIA H200", true},
		{"nvidia", "H200", "NVIDIA GH200 480GB", false},
		{"nvidia", "H200", "NVIDIA GH200 144G HBM3e", false},
		{"nvidia", "B200", "NVIDIA GB200", false},
		{"nvidia", "A100", "NVIDIA A100-SXM4-80GB", true},
		{"nvidia", "a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB", true},
		{"nvidia", "A100 80GB", "NVIDIA A100-SXM4-80GB", false},
		{"nvidia", "A10", "NVIDIA A100-SXM4-80GB", false},
		{"nvidia", "A10", "NVIDIA A10G", false},
		{"nvidia", "L4", "NVIDIA L40S", false},
		{"nvidia", "L40", "NVIDIA L40S", false},
		{"nvidia", "6000", "NVIDIA RTX A6000", false},
		{"nvidia", "H100", "", false},
		{"nvidia", "-", "NVIDIA H100", false},
		{"nvidia", "", "NVIDIA H100", true},
		{"amd", "MI300X", "AMD Instinct MI300X", true},
		{"amd", "instinct mi300x", "AMD Instinct MI300X OAM", true},
		{"amd", "MI300", "AMD Instinct MI300A", false},
		{"amd", "MI300", "AMD Instinct MI300X", false},
	} {
		sku := SKU{ID: "one", GPUVendor: row.vendor, GPUModel: row.model, GPUCount: 1}
		why := sku.GPUDifference([]taskcatalog.GPUFacts{{Vendor: row.vendor, Name: row.name, PCIAddress: "0000:1b:00.0"}})
		if (why == "") != row.like || why != "" && !strings.Contains(why, "whole words") {
			t.Errorf("%q for %q: %q", row.name, row.model, why)
		}
	}
	if sku := (SKU{ID: "one", GPUVendor: "nvidia", GPUModel: "--", GPUCount: 1, BootDisk: BootDiskRule{Pattern: "x"}}); sku.Check() == nil {
		t.Error("a model without a word is kept, and no GPU is ever of it")
	}
}
