package baseline_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker/baseline"
	"github.com/hostler/hostler/taskcatalog"
)

func pointer[T any](v T) *T { return &v }

func TestGPUsOfABaselineAreComparedByWhatNamesThem(t *testing.T) {
	gpu := func(uuid string, change ...func(*taskcatalog.BaselineGPU)) taskcatalog.BaselineGPU {
		g := taskcatalog.BaselineGPU{
			Vendor: "nvidia", UUID: uuid, Serial: "s-" + uuid, PCIAddress: "0000:3b:00.0", Name: "H100", MemoryBytes: pointer[uint64](1 << 30),
			Settings: taskcatalog.GPUSettings{ComputeMode: "default", ECC: pointer(true)},
		}
		for _, c := range change {
			c(&g)
		}
		return g
	}
	for name, c := range map[string]struct {
		was, is []taskcatalog.BaselineGPU
		want    []string
	}{
		"the same": {[]taskcatalog.BaselineGPU{gpu("a"), gpu("b")}, []taskcatalog.BaselineGPU{gpu("b"), gpu("a")}, nil},
		"one more": {[]taskcatalog.BaselineGPU{gpu("a")}, []taskcatalog.BaselineGPU{gpu("a"), gpu("b")}, []string{
			"added b compute_mode: → default", "added b ecc: → true", "added b: → memory_bytes 1073741824, name H100, pci_address 0000:3b:00.0, serial s-b, vendor nvidia",
		}},
		"one gone": {[]taskcatalog.BaselineGPU{gpu("a", func(g *taskcatalog.BaselineGPU) { g.Settings = taskcatalog.GPUSettings{} })}, nil, []string{
			"removed a:memory_bytes 1073741824, name H100, pci_address 0000:3b:00.0, serial s-a, vendor nvidia → ",
		}},
		"set to something else": {[]taskcatalog.BaselineGPU{gpu("a")}, []taskcatalog.BaselineGPU{gpu("a", func(g *taskcatalog.BaselineGPU) {
			g.Settings.ComputeMode, g.Settings.ECC, g.Settings.PowerLimitMW = "prohibited", pointer(false), pointer[uint64](700000)
		})}, []string{"added a power_limit_mw: → 700000", "changed a compute_mode:default → prohibited", "changed a ecc:true → false"}},
		"another GPU under its uuid": {[]taskcatalog.BaselineGPU{gpu("a")}, []taskcatalog.BaselineGPU{gpu("a", func(g *taskcatalog.BaselineGPU) { g.Serial = "other" })}, []string{
			"changed a:memory_bytes 1073741824, name H100, pci_address 0000:3b:00.0, serial s-a, vendor nvidia → memory_bytes 1073741824, name H100, pci_address 0000:3b:00.0, serial other, vendor nvidia",
		}},
		"partitioned": {[]taskcatalog.BaselineGPU{gpu("a")}, []taskcatalog.BaselineGPU{gpu("a", func(g *taskcatalog.BaselineGPU) { g.Instances = []string{"MIG-1"} })}, []string{
			"added a instance MIG-1: → ",
		}},
		"two of one uuid": {[]taskcatalog.BaselineGPU{gpu("a")}, []taskcatalog.BaselineGPU{gpu("a"), gpu("a", func(g *taskcatalog.BaselineGPU) {
			g.PCIAddress, g.Settings = "0000:3c:00.0", taskcatalog.GPUSettings{}
		})}, []string{"added a 0000:3c:00.0: → memory_bytes 1073741824, name H100, pci_address 0000:3c:00.0, serial s-a, vendor nvidia"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, l := range baseline.Diff(&taskcatalog.Baseline{GPUs: c.was}, &taskcatalog.Baseline{GPUs: c.is}) {
				if l.Kind != "gpus" {
					t.Errorf("a line of %s: %+v", l.Kind, l)
				}
				got = append(got, fmt.Sprintf("%s %s:%s → %s", l.Op, l.What, l.Before, l.After))
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

// Each setting is a separate line, because a person accepts a BMC user or a version by name, and
// not a block of JSON.
func TestThePlatformOfABaselineIsComparedSettingBySetting(t *testing.T) {
	row := func(check, absent string, settings ...taskcatalog.PlatformSetting) taskcatalog.PlatformRow {
		return taskcatalog.PlatformRow{Check: check, Absent: absent, Settings: settings}
	}
	set := func(name, value string) taskcatalog.PlatformSetting {
		return taskcatalog.PlatformSetting{Name: name, Value: value}
	}
	was := taskcatalog.Baseline{Platform: []taskcatalog.PlatformRow{
		row("efi", "", set("SecureBoot", "on"), set("BootNext", "0001")), row("bmc_lan", "no BMC"), row("sriov", "none"),
	}}
	is := taskcatalog.Baseline{Platform: []taskcatalog.PlatformRow{
		row("bmc_lan", "", set("channel 1 IP Address", "10.0.0.7")), row("efi", "", set("SecureBoot", "off")), row("sriov", "none"),
	}}
	var got []string
	for _, l := range baseline.Diff(&was, &is) {
		got = append(got, fmt.Sprintf("%s %s %s:%s → %s", l.Kind, l.Op, l.What, l.Before, l.After))
	}
	slices.Sort(got)
	want := []string{
		"platform added bmc_lan channel 1 IP Address: → 10.0.0.7", "platform changed bmc_lan:no BMC → ", "platform changed efi SecureBoot:on → off", "platform removed efi BootNext:0001 → ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
