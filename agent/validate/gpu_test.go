package validate

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/fakegpu"
)

// gpuChild makes this test's binary the child of a GPU helper.
const gpuChild = "gpu-helper-of-the-test"

// gpuBox is a box with two fake GPUs, behind the agent's GPU helper.
type gpuBox struct {
	*host.Host
	*fakegpu.Machine
	t      *testing.T
	vendor string
	facts  taskcatalog.Facts
	opened []gpu.Opener
	base   *taskcatalog.Baseline
}

func newGPUBox(t *testing.T, vendor string) *gpuBox {
	t.Helper()
	h, _ := hosttest.Box(t)
	b := &gpuBox{Host: h, t: t, vendor: vendor}
	var err error
	b.Machine, err = fakegpu.New(t.TempDir(), "vendor "+vendor, "devices 2", "memory 4M")
	hosttest.OK(t, err)
	exe, err := os.Executable()
	hosttest.OK(t, err)
	h.Openers = func(*machine.Machine) ([]gpu.Opener, error) { return b.opened, nil }
	h.GPU = gpu.NewHelper(exe, gpuChild)
	h.GPU.Env = b.Env()
	h.GPU.Deadline, h.GPU.Silence = time.Minute, time.Minute
	h.Facts = func(context.Context) (taskcatalog.Facts, error) { return b.facts, nil }
	return b
}

// baseline takes a baseline of the GPUs as they are now.
func (b *gpuBox) baseline() *taskcatalog.Baseline {
	b.t.Helper()
	v := newLook(b.Host, nil)
	v.takesBaseline = true
	items, err := lookGPUs(b.t.Context(), v)
	hosttest.OK(b.t, err)
	for _, it := range items {
		if it.differs {
			b.t.Errorf("a baseline has a finding: %+v", it)
		}
		v.now.Objects = append(v.now.Objects, it.key)
	}
	if len(v.now.GPUs) == 0 {
		b.t.Fatal("no GPU was seen")
	}
	return &v.now
}

// found returns the details and next actions of a look's findings.
func (b *gpuBox) found(base *taskcatalog.Baseline) []string {
	b.t.Helper()
	v := newLook(b.Host, base)
	items, err := lookGPUs(b.t.Context(), v)
	hosttest.OK(b.t, err)
	var all []string
	for _, it := range items {
		if it.row != taskcatalog.CheckGPU {
			b.t.Errorf("%+v is no finding of a GPU", it)
		}
		if v.has(it) {
			continue
		}
		all = append(all, it.finding.Subject+": "+it.finding.Detail+" ("+it.finding.NextAction+")")
	}
	slices.Sort(all)
	return all
}

func (b *gpuBox) want(base *taskcatalog.Baseline, want ...string) {
	b.t.Helper()
	if got := b.found(base); !slices.Equal(got, want) {
		b.t.Errorf("found %q, want %q", got, want)
	}
}

func TestGPUsAreComparedWithTheirBaseline(t *testing.T) {
	for _, vendor := range gpu.Vendors {
		t.Run(vendor, func(t *testing.T) {
			b := newGPUBox(t, vendor)
			base := b.baseline()
			if len(base.GPUs) != 2 || base.GPUs[0].Vendor != vendor || base.GPUs[0].Settings == (taskcatalog.GPUSettings{}) || *base.GPUs[0].MemoryBytes != 4<<20 ||
				(base.GPUs[0].ReservedBytes != nil) != (vendor == "nvidia") {
				t.Fatalf("%+v", base.GPUs)
			}
			b.want(base)

			second := base.GPUs[1].PCIAddress + " " + base.GPUs[1].UUID
			one := *base
			one.GPUs = base.GPUs[:1]
			b.want(&one, second+": not in the baseline (accept_baseline)")

			hosttest.OK(t, b.Configure("vendor "+vendor, "devices 1", "memory 4M"))
			b.want(base, second+": the GPU is in the baseline, and its vendor library does not list it; serial number "+base.GPUs[1].Serial+" (reimage)")
		})
	}
}

func TestAGPUThatATenantSetToSomethingElseIsFound(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	base := b.baseline()
	g := base.GPUs[0]
	left, err := b.GPU.Apply(t.Context(), gpu.Device{Vendor: g.Vendor, UUID: g.UUID}, taskcatalog.GPUSettings{ComputeMode: "prohibited"})
	if err != nil || len(left) > 0 {
		t.Fatalf("%+v, %v", left, err)
	}
	b.want(base, fmt.Sprintf("%s %s: compute_mode is prohibited and was %s (node.gpu_scrub)", g.PCIAddress, g.UUID, g.Settings.ComputeMode))
}

func TestAProgramOnAGPUIsFound(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	base := b.baseline()
	g := base.GPUs[1]
	cmd := exec.CommandContext(t.Context(), filepath.Join(b.Libs, "fakegpu-tenant"), "65536", "SECRET", "stay")
	cmd.Env = append(b.Env(), "CUDA_VISIBLE_DEVICES="+g.UUID)
	out, err := cmd.StdoutPipe()
	hosttest.OK(t, err)
	hosttest.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatalf("the tenant did not start: %v", err)
	}
	b.want(base, fmt.Sprintf("%s %s: process %d is on it (compute) (node.gpu_scrub)", g.PCIAddress, g.UUID, cmd.Process.Pid))
	if taken := b.baseline(); len(taken.GPUs) != 2 {
		t.Errorf("%+v", taken.GPUs)
	}
}

func TestADriverThatDoesNotClearIsFound(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	base := b.baseline()
	for name, text := range map[string]string{
		"sys/module/nvidia/parameters/NVreg_RegistryDwords": strings.Repeat("a=0;", 100) + "RMDisableScrubOnFree=1\n",
		"proc/driver/nvidia/params":                         "RegistryDwords: \"\"\n", "proc/driver/nvidia/registry": "",
	} {
		hosttest.Put(t, b.Host.Machine.Dir(), name, text)
	}
	if got := b.found(base); len(got) != 1 || !strings.HasPrefix(got[0], "nvidia: ") || !strings.HasSuffix(got[0], "(reimage)") {
		t.Errorf("found %q", got)
	}
}

func TestAGPUThatIsNotWhatItWasIsFound(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	base := b.baseline()
	g := base.GPUs[0]
	at := g.PCIAddress + " " + g.UUID + ": "
	was := base.GPUs[0]
	for want, change := range map[string]func(*taskcatalog.BaselineGPU){
		at + "the GPU has 4 MiB of memory; the baseline has 1024 MiB (see the options of the GPU's driver) (reimage)": func(g *taskcatalog.BaselineGPU) { more := uint64(1 << 30); g.MemoryBytes = &more },
		at + fmt.Sprintf("its serial number is %q and was \"another\" (reimage)", was.Serial):                         func(g *taskcatalog.BaselineGPU) { g.Serial = "another" },
		at + "its instances are [] and were [\"MIG-1\"] (reimage)":                                                    func(g *taskcatalog.BaselineGPU) { g.Instances = []string{"MIG-1"} },
	} {
		base.GPUs[0] = was
		change(&base.GPUs[0])
		b.want(base, want)
	}
	base.GPUs[0] = was
	base.GPUs[0].PCIAddress = "0000:ff:00.0"
	if got := b.found(base); len(got) != 1 || !strings.Contains(got[0], `and was "0000:ff:00.0"`) {
		t.Errorf("%q", got)
	}
}

func TestAModeThatComesWithTheNextResetIsFound(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	hosttest.OK(t, b.Configure("vendor nvidia", "devices 2", "memory 4M", "fault.0 mig_pending"))
	base := b.baseline()
	g := base.GPUs[0]
	b.want(base, fmt.Sprintf("%s %s: partition is mig_enabled after the next reset and was mig_disabled (node.gpu_scrub)", g.PCIAddress, g.UUID))
}

// Instances come and go with the mode; a scrub restores the mode.
func TestAGPUThatATenantDividedWantsAScrub(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	hosttest.OK(t, b.Configure("vendor nvidia", "devices 2", "memory 4M", "fault.0 mig_on"))
	base := b.baseline()
	g := &base.GPUs[0]
	if len(g.Instances) != 2 {
		t.Fatalf("%+v", g)
	}
	g.Settings.Partition, g.Instances = "mig_disabled", nil
	b.want(base, fmt.Sprintf("%s %s: partition is mig_enabled and was mig_disabled (node.gpu_scrub)", g.PCIAddress, g.UUID))
}

// A GPU whose library was removed, or that was given to another driver, is still on the bus.
func TestAGPUOnTheBusThatNoLibraryListsIsFound(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	base := b.baseline()
	b.facts.PCI = []taskcatalog.PCIDevice{
		{Address: base.GPUs[0].PCIAddress, Vendor: "10de", Device: "2330", Class: "030200"}, {Address: base.GPUs[1].PCIAddress, Vendor: "10de", Device: "2330", Class: "030200"},
	}
	b.want(base)
	b.facts.PCI = append(b.facts.PCI, taskcatalog.PCIDevice{Address: "0000:99:00.0", Vendor: "10de", Device: "2330", Class: "030200", Driver: "vfio-pci"})
	b.want(base, `0000:99:00.0: a GPU of nvidia, PCI id 10de:2330, is on the bus, and no vendor library lists it (driver "vfio-pci") (reimage)`)
	if _, err := lookGPUs(t.Context(), newLook(b.Host, nil)); err == nil {
		t.Error("a baseline was taken without it")
	}
	b.GPU.Env = nil // no library can be found
	v := newLook(b.Host, nil)
	if _, err := lookGPUs(t.Context(), v); err == nil || len(v.now.GPUs) > 0 {
		t.Errorf("a baseline without GPUs: %v", err)
	}
}

// Vendors' daemons hold GPUs all the time: the daemons of the baseline may.
func TestWhoHasAGPUOpenIsFoundUnlessItWasAServiceBefore(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	dir := b.Host.Machine.Dir()
	process := func(pid int, cgroup, program string) {
		hosttest.Put(t, dir, fmt.Sprintf("proc/%d/cgroup", pid), "0::"+cgroup+"\n")
		hosttest.OK(t, os.Symlink(program, filepath.Join(dir, fmt.Sprintf("proc/%d/exe", pid))))
	}
	process(4242, "/system.slice/nvidia-persistenced.service", "/usr/bin/nvidia-persistenced")
	process(4243, "/system.slice/nvidia-persistenced.service", "/usr/bin/nvidia-persistenced")
	process(4244, "/system.slice/nvidia-persistenced.service", "/tmp/miner")
	systemd := b.Systemd.(*hosttest.Systemd)
	is := func(pid int) {
		systemd.Main = map[string]int{"nvidia-persistenced.service": 4242}
		b.opened = []gpu.Opener{{PID: pid, Name: "x", Nodes: []string{"/dev/nvidia0"}}}
	}
	is(4242)
	base := b.baseline()
	b.want(base)
	is(4243) // the process moved itself into the cgroup
	b.want(base, "process 4243 (x): it has /dev/nvidia0 open (node.gpu_scrub)")
	is(4244)
	systemd.Main["nvidia-persistenced.service"] = 4244 // another program in its place
	b.want(base, "process 4244 (x): it has /dev/nvidia0 open (node.gpu_scrub)")
	b.opened = []gpu.Opener{{PID: 7, Unseen: "cannot look at its descriptors"}}
	if _, err := lookGPUs(t.Context(), newLook(b.Host, base)); err == nil {
		t.Error("one that could not be looked at has nothing open")
	}
}

// A failed look counts as not made, never as clean; a baseline taken then records the failure.
func TestALookAtGPUsThatIsNoneIsNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gpuBox)
		why    string
	}{
		"a tenant is on the node": {func(b *gpuBox) {
			hosttest.OK(b.t, b.Accounts.Put(host.Account{AllocationID: "a-1", Username: "u", UID: 20001}))
			b.GPU.Argv = []string{b.GPU.Argv[0], "-test.run=^$"} // a look that asks the GPUs all the same fails with another error
		}, "allocation a-1 is on the node"},
		"a library that crashes": {func(b *gpuBox) {
			hosttest.OK(b.t, b.Configure("vendor nvidia", "devices 2", "memory 4M", "fault crash init"))
		}, "helper_crashed"},
		"a library that answers nonsense": {func(b *gpuBox) {
			hosttest.OK(b.t, b.Configure("vendor nvidia", "devices 2", "memory 4M", "fault garbage init"))
		}, "helper_garbage"},
		"a library of another driver": {func(b *gpuBox) {
			hosttest.OK(b.t, b.Configure("vendor nvidia", "devices 2", "memory 4M", "fault library_mismatched"))
		}, "library_mismatched"},
		"a setting that cannot be read any more": {func(b *gpuBox) {
			b.base.GPUs[0].Settings.Isolation = new(bool)
		}, "isolation"},
		"a loaded driver that does not say whether it clears": {func(b *gpuBox) {
			hosttest.Put(b.t, b.Host.Machine.Dir(), "sys/module/nvidia/version", "550.54.15\n")
		}, "clears what is freed"},
		"no helper": {func(b *gpuBox) { b.GPU = nil }, "without its GPU helper"},
		"facts that cannot be had": {func(b *gpuBox) {
			b.Facts = func(context.Context) (taskcatalog.Facts, error) { return taskcatalog.Facts{}, context.DeadlineExceeded }
		}, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newGPUBox(t, "nvidia")
			b.base = b.baseline()
			c.change(b)
			for _, base := range []*taskcatalog.Baseline{b.base, nil} {
				if base == nil && (name == "a setting that cannot be read any more" || name == "no helper") {
					continue // there is nothing to miss
				}
				if items, err := lookGPUs(t.Context(), newLook(b.Host, base)); err == nil || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%+v, %v; want it not made: %s", items, err, c.why)
				}
			}
		})
	}
}

// A machine without GPUs, or without libraries or a driver for them, has no GPUs to look at.
func TestAMachineWithoutGPUsHasNoneToLookAt(t *testing.T) {
	b := newGPUBox(t, "nvidia")
	base := b.baseline()
	b.GPU.Env = nil // no library can be found
	b.want(&taskcatalog.Baseline{})
	if got := b.found(base); len(got) != 2 {
		t.Errorf("GPUs of the baseline whose library is gone: %q", got)
	}
	hosttest.OK(t, b.Configure("vendor nvidia", "devices 2", "memory 4M", "fault driver_missing"))
	b.GPU.Env = b.Env()
	b.want(&taskcatalog.Baseline{})
	b.GPU = nil
	b.want(&taskcatalog.Baseline{})
}
