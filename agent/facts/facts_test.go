package facts_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// lay writes files below a directory and opens it as a machine. A value that begins with -> is a
// link.
func lay(t testing.TB, files map[string]string) *machine.Machine {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "->"); ok {
			err = os.Symlink(target, full)
		} else {
			err = os.WriteFile(full, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m, err := machine.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func function(slot, vendor, device, class string) map[string]string {
	dir := "sys/bus/pci/devices/" + slot + "/"
	return map[string]string{dir + "vendor": "0x" + vendor + "\n", dir + "device": "0x" + device + "\n", dir + "class": "0x" + class + "\n"}
}

func with(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}

func gather(t *testing.T, files map[string]string, survey facts.Survey) taskcatalog.Facts {
	t.Helper()
	f, err := facts.Gather(t.Context(), lay(t, files), survey)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAMachineWithNothingIsAnOrdinaryFact(t *testing.T) {
	f := gather(t, nil, nil)
	want := map[string]string{"gpu.vendor": "none", "gpu.count": "0", "fabric.type": "none", "gpu.fabric": "none", "container.runtime": "none", "compute.runtime": "none"}
	if !maps.Equal(f.Keys, want) || len(f.PCI)+len(f.Drivers)+len(f.GPUs) != 0 {
		t.Errorf("%+v", f)
	}
}

func TestTheVendorIsThatOfTheGPUsAndOfNoOtherDisplay(t *testing.T) {
	aspeed, inside := function("0000:03:00.0", "1a03", "2000", "030000"), function("0000:00:02.0", "8086", "4680", "030000")
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a management controller's display": {aspeed, "none"},
		"graphics inside the processor":     {with(aspeed, inside), "none"},
		"an H100":                           {with(aspeed, function("0000:3b:00.0", "10de", "2330", "030200")), "nvidia"},
		"an MI300X":                         {with(inside, function("0000:05:00.0", "1002", "74a1", "120000")), "amd"},
		"Intel's GPU Max":                   {function("0000:05:00.0", "8086", "0bd5", "038000"), "intel"},
		"somebody else's accelerator":       {function("0000:05:00.0", "1e52", "b140", "120000"), "other"},
		"NVIDIA's sound beside no display":  {function("0000:3b:00.1", "10de", "1aef", "040300"), "none"},
	} {
		if got := gather(t, c.files, nil).Keys["gpu.vendor"]; got != c.want {
			t.Errorf("%s: gpu.vendor is %s, want %s", name, got, c.want)
		}
	}
}

// Facts are bounded, and a tenant can create hundreds of functions of an adapter.
func TestNoNumberOfOtherFunctionsHidesAGPU(t *testing.T) {
	files := function("00ff:00:00.0", "10de", "2330", "030200")
	for i := range 600 {
		maps.Copy(files, function(fmt.Sprintf("0000:01:%02x.%d", i/8, i%8), "15b3", "101e", "020000"))
	}
	if f := gather(t, files, nil); f.Keys["gpu.vendor"] != "nvidia" || len(facts.Unlisted(f, nil)) != 1 {
		t.Errorf("of %d functions: %+v", len(f.PCI), f.Keys)
	}
}

func TestAGPUOnTheBusThatNoLibraryListsIsNamed(t *testing.T) {
	f := gather(t, with(function("0000:3b:00.0", "10de", "2330", "030200"), function("0000:5d:00.0", "1002", "74a1", "120000"),
		function("0000:03:00.0", "1a03", "2000", "030000"), function("0000:04:00.0", "1e52", "b140", "120000")), nil)
	left := facts.Unlisted(f, []taskcatalog.GPUFacts{{Vendor: "nvidia", PCIAddress: "0000:3B:00.0"}})
	if len(left) != 1 || left[0].Address != "0000:5d:00.0" {
		t.Errorf("%+v", left)
	}
}

func TestEachVendorsGPUsHaveKeysOfTheirOwn(t *testing.T) {
	f := taskcatalog.Facts{
		PCI:     []taskcatalog.PCIDevice{{Vendor: "10de", Class: "030200"}, {Vendor: "1002", Class: "120000"}},
		GPUs:    []taskcatalog.GPUFacts{{Vendor: "nvidia", Architecture: "hopper"}, {Vendor: "amd", Architecture: "gfx942"}},
		Drivers: []taskcatalog.DriverFacts{{Name: "nvidia", Version: "550.54.15"}, {Name: "amdgpu", Version: "6.10.5"}},
	}
	want := map[string]string{
		"gpu.vendor": "amd", "gpu.count": "1", "gpu.architecture": "gfx942", "gpu.driver": "amdgpu", "gpu.driver_series": "6.10",
	}
	if got := facts.GPUKeys(f, "amd"); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// A GPU is there if it is on the bus, and if the library that lists others lists it too.
func TestGPUsAreCountedThatAreOnTheBusAndAnswer(t *testing.T) {
	const other = "0000:05:00.0"
	for _, c := range []struct {
		bus, listed int
		want        string
	}{
		{8, 0, "8"}, {8, 8, "8"}, {8, 7, "7"}, {1, 1, "1"}, {2, 16, "2"}, // a library may list the parts of a GPU
		{0, 0, "0"}, {0, 8, "8"}, // of a class that is not known
	} {
		f := taskcatalog.Facts{PCI: []taskcatalog.PCIDevice{{Address: other, Vendor: "1e52", Class: "120000"}, {Vendor: "1a03", Class: "030000"}}}
		for range c.bus {
			f.PCI = append(f.PCI, taskcatalog.PCIDevice{Vendor: "10de", Class: "030200"})
		}
		for range c.listed {
			f.GPUs = append(f.GPUs, taskcatalog.GPUFacts{Vendor: "nvidia"})
		}
		if got := facts.GPUKeys(f, "nvidia")[taskcatalog.GPUCount]; got != c.want {
			t.Errorf("%d on the bus, %d listed: %s, want %s", c.bus, c.listed, got, c.want)
		}
	}
}

func TestABoundFunctionIsDescribedWhole(t *testing.T) {
	dir := "sys/bus/pci/devices/0000:3b:00.0/"
	f := gather(t, with(function("0000:3b:00.0", "10de", "2330", "030200"), map[string]string{
		dir + "driver": "->../../../bus/pci/drivers/nvidia", dir + "iommu_group": "->../../../kernel/iommu_groups/17", dir + "numa_node": "1\n",
		"sys/module/nvidia/version": "550.54.15\n", "sys/module/nvidia/parameters/NVreg_OpenRmEnableUnsupportedGpus": "1\n",
		"proc/driver/nvidia/params": "RegistryDwords: \"RMDisableScrubOnFree=1\"\nInitializeSystemMemoryAllocations: 1\n",
	}), nil)
	if len(f.PCI) != 1 {
		t.Fatalf("%+v", f.PCI)
	}
	d := f.PCI[0]
	if d.Driver != "nvidia" || d.IOMMUGroup != "17" || d.NUMANode == nil || *d.NUMANode != 1 || d.Class != "030200" {
		t.Errorf("%+v", d)
	}
	p := f.Drivers[0].Parameters
	if f.Drivers[0].Version != "550.54.15" || p["RegistryDwords"] != "RMDisableScrubOnFree=1" || p["NVreg_OpenRmEnableUnsupportedGpus"] != "1" {
		t.Errorf("%+v", f.Drivers)
	}
	if f.Keys["gpu.driver"] != "nvidia" || f.Keys["gpu.driver_series"] != "550.54" {
		t.Errorf("%+v", f.Keys)
	}
}

func TestWhatHasNoNUMANodeSaysNothingOfIt(t *testing.T) {
	f := gather(t, with(function("0000:3b:00.0", "10de", "2330", "030200"), map[string]string{"sys/bus/pci/devices/0000:3b:00.0/numa_node": "-1\n"}), nil)
	if f.PCI[0].NUMANode != nil || f.PCI[0].Driver != "" {
		t.Errorf("%+v", f.PCI[0])
	}
	if _, ok := f.Keys["gpu.driver"]; ok {
		t.Errorf("a GPU without a driver has the driver %q", f.Keys["gpu.driver"])
	}
}

func TestTheLibraryTellsTheGPUsAndTheirArchitecture(t *testing.T) {
	f := gather(t, nil, func(context.Context) ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error) {
		return []taskcatalog.GPUFacts{{Vendor: "amd", UUID: "u", Architecture: "gfx942", Name: "MI\x1b[31m300X"}},
			[]taskcatalog.LibraryFacts{{Name: "libnvidia-ml.so.1", Problem: "library_missing"}}, nil
	})
	if f.Keys["gpu.vendor"] != "amd" || f.Keys["gpu.architecture"] != "gfx942" {
		t.Errorf("%+v", f.Keys)
	}
	if strings.ContainsRune(f.GPUs[0].Name, 0x1b) {
		t.Errorf("the name is not clean: %q", f.GPUs[0].Name)
	}
	if len(f.Libraries) != 1 || f.Libraries[0].Problem != "library_missing" {
		t.Errorf("%+v", f.Libraries)
	}
}

func TestASurveyThatFailsIsAFactAndNoError(t *testing.T) {
	f := gather(t, function("0000:3b:00.0", "10de", "2330", "030200"), func(context.Context) ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error) {
		return nil, nil, errors.Join(taskcatalog.Errorf("helper_hung", "cannot ask the libraries: no answer within 10s"))
	})
	if f.Keys["gpu.vendor"] != "nvidia" || len(f.Libraries) != 1 || f.Libraries[0].Problem != "helper_hung" {
		t.Errorf("%+v", f)
	}
}

func TestTheFabricIsTheFastestOne(t *testing.T) {
	port := func(adapter, layer string) map[string]string {
		return map[string]string{"sys/class/infiniband/" + adapter + "/ports/1/link_layer": layer + "\n"}
	}
	nic, nvswitch := function("0000:01:00.0", "15b3", "1021", "020000"), function("0000:c0:00.0", "10de", "22a3", "068000")
	for want, files := range map[string]map[string]string{
		"ethernet":   nic,
		"nvlink":     with(nic, nvswitch),
		"roce":       with(nic, nvswitch, port("mlx5_0", "Ethernet")),
		"infiniband": with(nic, port("mlx5_0", "Ethernet"), port("mlx5_1", "InfiniBand")),
	} {
		if got := gather(t, files, nil).Keys["fabric.type"]; got != want {
			t.Errorf("fabric.type is %s, want %s", got, want)
		}
	}
}

// A machine with both reports both: its GPUs need their fabric manager.
func TestNVSwitchesAreToldBesideWhatJoinsTheNodes(t *testing.T) {
	switches := with(function("0000:c0:00.0", "10de", "22a3", "068000"), map[string]string{"sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n"})
	for name, c := range map[string]struct {
		files         map[string]string
		fabric, nodes string
	}{
		"with InfiniBand":           {switches, "nvlink", "infiniband"},
		"another vendor's bridge":   {function("0000:c0:00.0", "1000", "c010", "068000"), "none", "none"},
		"an accelerator of its own": {function("0000:3b:00.0", "10de", "2330", "030200"), "none", "none"},
	} {
		if k := gather(t, c.files, nil).Keys; k["gpu.fabric"] != c.fabric || k["fabric.type"] != c.nodes {
			t.Errorf("%s: %v", name, k)
		}
	}
}

// NVSwitches of NVLink 5 are on no bus: the board shows ConnectX-7 functions for their management,
// which lead to no other node.
func TestABoardOfNVLink5IsToldByItsBridgesAndNotByTheirInfiniBand(t *testing.T) {
	adapter := func(name, slot, layer string) map[string]string {
		return map[string]string{"sys/class/infiniband/" + name + "/device": "->../../../devices/pci0000:00/" + slot, "sys/class/infiniband/" + name + "/ports/1/link_layer": layer + "\n"}
	}
	vpd := func(slot, text string) map[string]string {
		return map[string]string{"sys/bus/pci/devices/" + slot + "/vpd": "\x82\x19\x00NVIDIA ConnectX-7\x90\x10\x00V3" + text + "\x78"}
	}
	bridge := func(name, slot string) map[string]string {
		return with(function(slot, "15b3", "1021", "020700"), vpd(slot, "SMDL=SW_MNG"), adapter(name, slot, "InfiniBand"))
	}
	board := function("0000:16:00.0", "15b3", "101d", "020000")
	for i := range 8 {
		maps.Copy(board, function(fmt.Sprintf("0000:%x7:00.0", i+1), "10de", "2901", "030200"))
	}
	hgx := with(board, bridge("mlx5_8", "0000:05:00.0"), bridge("mlx5_9", "0000:05:00.1"), bridge("mlx5_10", "0000:06:00.0"), bridge("mlx5_11", "0000:06:00.1"))
	toNodes := with(function("0000:a1:00.0", "15b3", "1021", "020700"), vpd("0000:a1:00.0", "SMDL=0"), adapter("mlx5_0", "0000:a1:00.0", "InfiniBand"))
	unread := with(toNodes, map[string]string{"sys/bus/pci/devices/0000:a1:00.0/vpd": strings.Repeat("x", 33<<10)})
	for name, c := range map[string]struct {
		files         map[string]string
		fabric, nodes string
	}{
		"HGX B200":                    {hgx, "nvlink", "ethernet"},
		"with InfiniBand to others":   {with(hgx, toNodes), "nvlink", "infiniband"},
		"with RoCE to others":         {with(hgx, adapter("mlx5_1", "0000:16:00.0", "Ethernet")), "nvlink", "roce"},
		"the card's other function":   {with(hgx, function("0000:05:00.2", "15b3", "1021", "020700"), adapter("mlx5_12", "0000:05:00.2", "InfiniBand")), "nvlink", "ethernet"},
		"without a driver for them":   {with(board, function("0000:05:00.0", "15b3", "1021", "020700"), vpd("0000:05:00.0", "SMDL=SW_MNG")), "nvlink", "ethernet"},
		"no such board":               {with(board, toNodes), "none", "infiniband"},
		"a card that cannot be read":  {with(board, unread), "", ""},
		"and one that can, is marked": {with(hgx, unread), "nvlink", "infiniband"},
		"and NVSwitches on the bus":   {with(board, unread, function("0000:c0:00.0", "10de", "22a3", "068000")), "nvlink", "infiniband"},
		"and no GPU of NVIDIA's":      {unread, "none", "infiniband"},
	} {
		if k := gather(t, c.files, nil).Keys; k["gpu.fabric"] != c.fabric || k["fabric.type"] != c.nodes {
			t.Errorf("%s: %v", name, k)
		}
	}
}

func TestTheRuntimesAreThoseInstalled(t *testing.T) {
	f := gather(t, map[string]string{
		"usr/bin/containerd": "", "usr/lib/x86_64-linux-gnu/libcuda.so.1": "->libcuda.so.550.54.15",
		"etc/os-release": "->../usr/lib/os-release", "usr/lib/os-release": "ID=debian\nVERSION_ID=\"12\"\n",
	}, nil)
	for key, want := range map[string]string{"container.runtime": "containerd", "compute.runtime": "cuda", "os.id": "debian", "os.version_id": "12"} {
		if f.Keys[key] != want {
			t.Errorf("%s is %q, want %s", key, f.Keys[key], want)
		}
	}
}

func BenchmarkGather(b *testing.B) {
	m, err := machine.Open("/")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	for b.Loop() {
		if _, err := facts.Gather(b.Context(), m, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// Facts contain text that a device may choose.
func FuzzFacts(f *testing.F) {
	f.Add("0x10de\n", "0x030200", "550.54.15", "RegistryDwords: \"a=b\"\n: x\nno colon", "ID=debian\nVERSION_ID='12")
	f.Add("", "\x00\xff", strings.Repeat(".", 300), "\x1b[2J: y", "=\n==")
	f.Fuzz(func(t *testing.T, vendor, class, version, params, release string) {
		got, err := facts.Gather(t.Context(), lay(t, map[string]string{
			"sys/bus/pci/devices/0000:3b:00.0/vendor": vendor, "sys/bus/pci/devices/0000:3b:00.0/class": class,
			"sys/module/nvidia/version": version, "proc/driver/nvidia/params": params, "etc/os-release": release,
		}), nil)
		if err != nil {
			t.Skip()
		}
		raw, err := taskcatalog.Encode(got)
		if err != nil {
			t.Fatalf("facts that cannot be encoded: %v", err)
		}
		for k, v := range got.Keys {
			if taskcatalog.Clean(v, 200) != v || len(v) > 200 {
				t.Errorf("%s is not clean: %q", k, v)
			}
		}
		if len(raw) > 256<<10 {
			t.Errorf("facts of %d bytes", len(raw))
		}
	})
}

func TestDisksAreThoseOfTheMachinesOwnByTheirSerials(t *testing.T) {
	disk := func(name string, files map[string]string) map[string]string {
		out := map[string]string{"sys/block/" + name: "->../devices/" + name, "sys/devices/" + name + "/device": "->../controller-" + name, "sys/devices/" + name + "/size": "2048\n"}
		for file, text := range files {
			if rest, of := strings.CutPrefix(file, "device/"); of {
				out["sys/devices/controller-"+name+"/"+rest] = text
			} else {
				out["sys/devices/"+name+"/"+file] = text
			}
		}
		if len(files) == 0 {
			out["sys/devices/controller-"+name+"/state"] = "live\n"
		}
		return out
	}
	virtual := map[string]string{"sys/block/loop0": "->../devices/virtual/loop0", "sys/devices/virtual/loop0/size": "2048\n"}
	// The root is on a mapping over a partition of sda; /boot/efi is on nvme0n1; data is on vda.
	system := map[string]string{
		"proc/1/mountinfo":    "22 1 253:0 / / rw - ext4 /dev/mapper/root rw\n23 22 259:1 / /boot/efi rw - vfat /dev/nvme0n1p1 rw\n24 22 254:0 / /data rw - ext4 /dev/vda rw\n25 22 0:5 / /proc rw - proc proc rw\n",
		"sys/dev/block/253:0": "->../../devices/virtual/block/dm-0", "sys/class/block/dm-0/slaves/sda2": "x",
		"sys/class/block/sda2": "->../../devices/ata1/sda/sda2", "sys/devices/ata1/sda/sda2/partition": "2\n",
		"sys/dev/block/259:1": "->../../devices/pci/nvme0n1/nvme0n1p1", "sys/class/block/nvme0n1p1": "->../../devices/pci/nvme0n1/nvme0n1p1", "sys/devices/pci/nvme0n1/nvme0n1p1/partition": "1\n",
		"sys/dev/block/254:0": "->../../devices/virtio/vda",
	}
	f := gather(t, with(virtual, system,
		disk("nvme0n1", map[string]string{"device/serial": "S5XANE0R      \n", "device/model": "SAMSUNG MZQL23T8\n", "wwid": "eui.3634463052904269\n"}),
		disk("nvme0c0n1", map[string]string{"device/serial": "S5XANE0R\n", "hidden": "1\n"}),
		disk("sda", map[string]string{"device/vpd_pg80": "\x00\x80\x00\x09  WD-1234", "device/model": "DELLBOSS VD\n", "device/wwid": "naa.5000c500\n"}),
		disk("sdb", map[string]string{"device/vpd_pg80": "\x00\x83\x00\x04ABCD", "removable": "1\n"}),
		disk("sdc", map[string]string{"device/vpd_pg80": "\x00\x83\xff\xffABCD"}),
		disk("sdd", map[string]string{"device/vpd_pg80": "\x00\x80\xff\xffABCD"}),
		disk("sr0", map[string]string{"size": "0\n"}),
		disk("vda", map[string]string{"serial": "BX00001-boss0\n"}),
		disk("vdb", nil),
		disk("vdc", map[string]string{"ro": "1\n"}),
		disk("vdd", map[string]string{"ro": "1\n", "serial": "LOCKED\n"}),
	), nil)
	got := fmt.Sprintf("%+v", f.Disks)
	want := fmt.Sprintf("%+v", []taskcatalog.DiskFacts{
		{Name: "nvme0n1", Model: "SAMSUNG MZQL23T8", Serial: "S5XANE0R", WWID: "eui.3634463052904269", SizeBytes: 1 << 20, System: true},
		{Name: "sda", Model: "DELLBOSS VD", Serial: "WD-1234", WWID: "naa.5000c500", SizeBytes: 1 << 20, Transport: "unknown", System: true},
		{Name: "sdc", SizeBytes: 1 << 20, Transport: "unknown"},
		{Name: "sdd", Serial: "ABCD", SizeBytes: 1 << 20, Transport: "unknown"},
		{Name: "vda", Serial: "BX00001-boss0", SizeBytes: 1 << 20, Transport: "unknown"},
		{Name: "vdb", SizeBytes: 1 << 20, Transport: "unknown"},
		{Name: "vdd", Serial: "LOCKED", SizeBytes: 1 << 20, Transport: "unknown"},
	})
	if got != want || !f.DisksListed {
		t.Errorf("disks are\n%s, want\n%s", got, want)
	}
}

// The kernel shows an eMMC's firmware areas, and a flash chip of the board, like disks; the areas
// even have the eMMC's serial.
func TestAnEMMCIsOneDiskAndItsAreasForFirmwareAreNone(t *testing.T) {
	const host = "devices/pci0000:00/0000:00:1a.0/mmc_host/mmc0/mmc0:0001"
	files := map[string]string{
		"proc/1/mountinfo": "22 1 0:5 / / rw - overlay none rw\n", "sys/" + host + "/serial": "0x5d4ce6b9\n", "sys/" + host + "/name": "DG4064\n",
		"sys/devices/platform/spi/mtd0/type": "nor\n", "sys/class/net/.keep": "",
	}
	block := func(name, dir, device, sectors, ro string) {
		maps.Copy(files, map[string]string{
			"sys/block/" + name: "->../" + dir, "sys/" + dir + "/device": "->" + device, "sys/" + dir + "/size": sectors + "\n", "sys/" + dir + "/ro": ro + "\n",
		})
	}
	block("mmcblk0", host+"/block/mmcblk0", "../../../mmc0:0001", "122142720", "0")
	block("mmcblk0boot0", host+"/block/mmcblk0/mmcblk0boot0", "../../../../mmc0:0001", "8192", "1")
	block("mmcblk0boot1", host+"/block/mmcblk0/mmcblk0boot1", "../../../../mmc0:0001", "8192", "0") // force_ro switched off
	block("mmcblk0rpmb", host+"/block/mmcblk0/mmcblk0rpmb", "../../../../mmc0:0001", "8192", "0")
	block("mtdblock0", "devices/platform/spi/mtd0/mtdblock0", "../../mtd0", "65536", "0")
	m := lay(t, files)
	f, err := facts.Gather(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []taskcatalog.DiskFacts{{Name: "mmcblk0", Model: "DG4064", Serial: "0x5d4ce6b9", SizeBytes: 122142720 * 512, Transport: "mmc"}}
	if !slices.Equal(f.Disks, want) {
		t.Errorf("disks are %+v", f.Disks)
	}
	if inventory, err := m.Inventory(); err != nil || !slices.Equal(inventory.Disks, []string{"0x5d4ce6b9"}) {
		t.Errorf("the inventory has the disks %q, %v", inventory.Disks, err)
	}
}

// A drive of a storage array has sectors of 520 bytes, and a namespace may have metadata: the
// kernel shows both without a size.
func TestADiskWithoutASizeIsToldByItsNames(t *testing.T) {
	files := map[string]string{"proc/1/mountinfo": "22 1 0:5 / / rw - overlay none rw\n"}
	block := func(name, dir, device string, more map[string]string) {
		maps.Copy(files, map[string]string{"sys/block/" + name: "->../" + dir, "sys/" + dir + "/device": "->" + device, "sys/" + dir + "/size": "0\n"})
		maps.Copy(files, more)
	}
	const nvme, sas = "devices/pci0000:00/0000:00:05.0/nvme/nvme2", "devices/pci0000:00/0000:00:06.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0"
	block("nvme2n1", nvme+"/nvme2n1", "../../nvme2", map[string]string{
		"sys/" + nvme + "/nvme2n1/wwid": "eui.0025385b21404321\n", "sys/" + nvme + "/serial": "S64HNE0R\n", "sys/" + nvme + "/model": "SAMSUNG MZQL23T8\n",
		"sys/class/nvme/nvme2": "->../../" + nvme, "sys/" + nvme + "/transport": "pcie\n",
	})
	block("sda", sas+"/block/sda", "../../../0:0:0:0", map[string]string{"sys/" + sas + "/vpd_pg80": "\x00\x80\x00\x08ZC1A2B3C", "sys/" + sas + "/model": "ST4000NM0095\n"})
	block("sdb", "devices/pci0000:00/usb1/host1/1:0:0:0/block/sdb", "../../../1:0:0:0", map[string]string{"sys/devices/pci0000:00/usb1/host1/1:0:0:0/model": "Card Reader\n"})
	want := []taskcatalog.DiskFacts{
		{Name: "nvme2n1", Model: "SAMSUNG MZQL23T8", Serial: "S64HNE0R", WWID: "eui.0025385b21404321", Transport: "pcie", Problem: taskcatalog.DiskNoSize},
		{Name: "sda", Model: "ST4000NM0095", Serial: "ZC1A2B3C", Transport: "sas", Problem: taskcatalog.DiskNoSize},
	}
	if f := gather(t, files, nil); !slices.Equal(f.Disks, want) {
		t.Errorf("disks are %+v", f.Disks)
	}
}

// The transport of a disk is reported as an erase would judge it.
func TestDisksSayHowTheyAreReached(t *testing.T) {
	files := map[string]string{"proc/1/mountinfo": "22 1 0:5 / / rw - overlay none rw\n"}
	for name, where := range map[string]string{
		"sda": "pci0000:00/ata1/host0/sda", "sdb": "platform/host3/session1/target3/sdb", "vda": "pci0000:00/virtio1/block/vda",
		"nvme0n1": "pci0000:00/nvme/nvme0/nvme0n1", "nvme1n1": "virtual/nvme-fabrics/ctl/nvme1/nvme1n1",
	} {
		files["sys/block/"+name] = "->../devices/" + where
		files["sys/devices/"+where+"/size"] = "2048\n"
		files["sys/devices/"+where+"/device"] = "->.."
		files["sys/devices/"+where+"/serial"] = name + "\n"
	}
	for where, how := range map[string]string{"pci0000:00/nvme/nvme0": "pcie", "virtual/nvme-fabrics/ctl/nvme1": "tcp"} {
		files["sys/class/nvme/"+path.Base(where)] = "->../../devices/" + where
		files["sys/devices/"+where+"/transport"] = how + "\n"
	}
	f := gather(t, files, nil)
	var got []string
	for _, d := range f.Disks {
		got = append(got, d.Name+" "+d.Transport)
	}
	if want := "nvme0n1 pcie; nvme1n1 tcp; sda sata; sdb iscsi; vda virtio"; strings.Join(got, "; ") != want {
		t.Errorf("disks are reached by %q, want %q", strings.Join(got, "; "), want)
	}
}

// The machine's serial is text from its firmware; a placeholder counts as none.
func TestTheChassisSerialIsThatOfTheFirmware(t *testing.T) {
	for wrote, want := range map[string]string{
		"7C3K2X3 \n": "7C3K2X3", "To Be Filled By O.E.M.\n": "", "Not Specified\n": "", "0000000000\n": "", "\n": "", "..........\n": "",
		"S\x1b[31m1\n": taskcatalog.Clean("S\x1b[31m1", 200), strings.Repeat("9", 300) + "\n": taskcatalog.Clean(strings.Repeat("9", 300), 200),
	} {
		files := map[string]string{"sys/class/dmi/id": "->../../devices/virtual/dmi/id", "sys/devices/virtual/dmi/id/product_serial": wrote}
		if got := gather(t, files, nil).ChassisSerial; got != want {
			t.Errorf("%q is told as %q, want %q", wrote, got, want)
		}
	}
	if got := gather(t, nil, nil).ChassisSerial; got != "" {
		t.Errorf("a machine without DMI has the serial %q", got)
	}
}
