package scrub

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

func size(mib uint64) *uint64 {
	bytes := mib << 20
	return &bytes
}

// A driver option makes a large GPU look small: hidden memory was not overwritten.
func TestMemoryThatADriverHidesIsNotCovered(t *testing.T) {
	t.Parallel()
	l := newLab(t, "amd")
	l.Params.Expected[1].MemoryBytes = size(64)
	g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, codeGPUChanged)
	if *g.CoveragePercent > 50 || *g.TotalBytes != 64<<20 || !strings.Contains(g.Message, "baseline has 64 MiB") {
		t.Errorf("%.1f percent of %d: %s", *g.CoveragePercent, *g.TotalBytes, g.Message)
	}
	// The library of the survey may report more memory than that of the overwrite.
	u := &unit{size: 64 << 20}
	if m := u.memory(gpu.MemoryInfo{Total: 32 << 20}); m.Total != 64<<20 {
		t.Errorf("%+v", m)
	}
}

// A driver's grown reserve would hide a tenant's data from the coverage: only the baseline's
// reserve is believed.
func TestAReserveThatGrewIsNotLeftOutOfTheCoverage(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.faults("reserved 12M")
	l.plant(1, 8<<20)
	for i, g := range l.good().GPUs {
		if g.Verdict != taskcatalog.VerdictInconclusive || g.Code != taskcatalog.CodeGPUScrubIncomplete || *g.ReservedBytes != 2<<20 || *g.CoveragePercent > 70 {
			t.Errorf("GPU %d is %s %s (%s), %.1f percent of it covered", i, g.Verdict, g.Code, g.Message, *g.CoveragePercent)
		}
	}
	if l.left(1) == 0 {
		t.Error("nothing is left, so the test proves nothing")
	}
	for name, c := range map[string]struct {
		said, was, believed *uint64
		parent              string
	}{
		"as before":                    {size(2), size(2), size(2), ""},
		"more than before":             {size(9), size(2), size(2), ""},
		"less than before":             {size(1), size(2), size(1), ""},
		"a baseline that has none":     {size(2), nil, nil, ""},
		"an instance, with what it is": {size(9), size(2), size(2), "GPU-1"},
		"one that does not say":        {nil, size(2), nil, "GPU-1"},
	} {
		u := &unit{want: &taskcatalog.BaselineGPU{ReservedBytes: c.was}}
		u.out.Parent = c.parent
		if got := u.memory(gpu.MemoryInfo{Total: 64 << 20, Reserved: c.said}).Reserved; deref(got) != deref(c.believed) || (got == nil) != (c.believed == nil) {
			t.Errorf("%s: %d, want %d", name, deref(got), deref(c.believed))
		}
	}
}

func TestAGPUIsComparedWithItsBaseline(t *testing.T) {
	t.Parallel()
	is := taskcatalog.GPUFacts{Serial: "s", PCIAddress: "0000:3b:00.0", MemoryBytes: size(32), Instances: []taskcatalog.GPUInstance{{UUID: "b"}, {UUID: "a"}}}
	was := taskcatalog.BaselineGPU{Serial: "s", PCIAddress: "0000:3b:00.0", MemoryBytes: size(32), Instances: []string{"a", "b"}}
	if got := Changed(was, is); got != nil {
		t.Errorf("the same GPU: %q", got)
	}
	for what, change := range map[string]func(){
		"serial number": func() { was.Serial = "t" }, "PCI address": func() { was.PCIAddress = "0000:3c:00.0" },
		"33 MiB": func() { was.MemoryBytes = size(33) }, "instances": func() { was.Instances = nil },
		"does not report its memory size": func() { is.MemoryBytes = nil },
	} {
		oldWas, oldIs := was, is
		change()
		if got := Changed(was, is); len(got) != 1 || !strings.Contains(got[0], what) {
			t.Errorf("%s: %q", what, got)
		}
		was, is = oldWas, oldIs
	}
	if was.MemoryBytes = size(31); Changed(was, is) != nil {
		t.Error("more memory than before is a finding")
	}
	is.Partition = "mig_disabled"
	for name, c := range map[string]struct {
		was, is *uint64
		mode    string // of the baseline
		found   bool
	}{
		"a little more":                 {size(10), size(74), "mig_disabled", false},
		"more":                          {size(10), size(75), "mig_disabled", true},
		"more, in no known mode":        {size(10), size(75), "", true},
		"more, in another mode":         {size(10), size(75), "mig_enabled", false},
		"less":                          {size(75), size(10), "mig_disabled", false},
		"a baseline that does not know": {nil, size(75), "mig_disabled", false},
		"a driver that does not say":    {size(75), nil, "mig_disabled", false},
	} {
		was.ReservedBytes, is.ReservedBytes, was.Settings.Partition = c.was, c.is, c.mode
		if got := Changed(was, is); (len(got) == 1) != c.found || c.found && !strings.Contains(got[0], "reserves 75 MiB") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAScrubOfNoGPUIsNotClean(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.Params.Expected = nil
	l.faults("devices 0", "fault driver_missing")
	res, report, err := l.run(t.Context())
	if err != nil || res.Verdict != taskcatalog.VerdictInconclusive || len(report.Findings) != 1 || res.Assurance.Overwrite != taskcatalog.OverwriteNone {
		t.Errorf("%v, %s, %+v", err, res.Verdict, report.Findings)
	}
}

func onBus(address string) taskcatalog.PCIDevice {
	return taskcatalog.PCIDevice{Address: address, Vendor: "10de", Device: "2330", Class: "030200", Driver: "vfio-pci"}
}

// A GPU given to another driver is on the bus, but the library does not list it.
func TestAGPUOnTheBusThatNoLibraryListsIsNotClean(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	for _, g := range l.Params.Expected {
		l.Facts.PCI = append(l.Facts.PCI, onBus(g.PCIAddress))
	}
	if res := l.good(); res.Verdict != taskcatalog.VerdictClean || len(res.GPUs) != gpuCount {
		t.Fatalf("all are listed: %s, %d", res.Verdict, len(res.GPUs))
	}
	again := newLab(t, "nvidia")
	again.Facts.PCI = append(l.Facts.PCI, onBus("0000:99:00.0"))
	res, report, err := again.run(t.Context())
	i := slices.IndexFunc(res.GPUs, func(g taskcatalog.GPUScrubbed) bool { return g.PCIAddress == "0000:99:00.0" })
	if err != nil || i < 0 || res.GPUs[i].Verdict != taskcatalog.VerdictNotClean || res.Verdict != taskcatalog.VerdictNotClean || res.Assurance.Overwrite != taskcatalog.OverwriteNone {
		t.Fatalf("%v, %s, %+v", err, res.Verdict, res.GPUs)
	}
	if len(report.Findings) != 1 || report.Findings[0].Subject != "0000:99:00.0" {
		t.Errorf("%+v", report.Findings)
	}
}

func TestALibraryMayBeMissingOnlyWhereItsGPUsAre(t *testing.T) {
	t.Parallel()
	bus := taskcatalog.Facts{PCI: []taskcatalog.PCIDevice{onBus("0000:3b:00.0")}}
	for name, c := range map[string]struct {
		facts   taskcatalog.Facts
		vendor  string
		problem taskcatalog.Code
		gpus    int
		unsure  bool
	}{
		"all is well":                        {bus, "nvidia", "", 1, false},
		"no library, no GPU":                 {taskcatalog.Facts{}, "nvidia", gpu.CodeLibraryMissing, 0, false},
		"no driver, no GPU":                  {taskcatalog.Facts{}, "nvidia", gpu.CodeDriverMissing, 0, false},
		"no library of another vendor":       {bus, "amd", gpu.CodeLibraryMissing, 0, false},
		"no library, and a GPU on the bus":   {bus, "nvidia", gpu.CodeLibraryMissing, 0, true},
		"no driver, and a GPU on the bus":    {bus, "nvidia", gpu.CodeDriverMissing, 0, true},
		"a library that does not fit":        {taskcatalog.Facts{}, "nvidia", gpu.CodeLibraryMismatched, 0, true},
		"one GPU of several does not answer": {taskcatalog.Facts{}, "nvidia", gpu.CodeDeviceLost, 3, true},
		"the second library is missing":      {taskcatalog.Facts{}, "nvidia", gpu.CodeLibraryMissing, 3, true},
		"a helper that crashed":              {taskcatalog.Facts{}, "nvidia", gpu.CodeHelperCrashed, 0, true},
	} {
		seen := gpu.Survey{GPUs: make([]taskcatalog.GPUFacts, c.gpus), Libraries: []taskcatalog.LibraryFacts{{Name: "l", Problem: c.problem}}}
		if err := Unsurveyed(c.facts, c.vendor, seen); (err != nil) != c.unsure {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := newLab(t, "nvidia")
	l.Params.Expected = nil
	l.faults("fault library_mismatched")
	res, report, err := l.run(t.Context())
	if err != nil || res.Verdict != taskcatalog.VerdictInconclusive || !slices.ContainsFunc(report.Findings, func(f taskcatalog.Finding) bool { return f.Subject == "nvidia" }) {
		t.Errorf("%v, %s, %+v", err, res.Verdict, report.Findings)
	}
}

// Whatever the policy allows: a GPU that the agent cannot overwrite was not overwritten.
func TestAGPUOfAnUnknownVendorIsNeverClean(t *testing.T) {
	t.Parallel()
	s := &Scrub{Vendors: []string{"nvidia"}, Params: &taskcatalog.GPUScrubParams{Expected: []taskcatalog.BaselineGPU{{Vendor: "x", UUID: "u"}}}}
	s.policy.AllowUnverified = true
	s.compare([]taskcatalog.GPUFacts{{Vendor: "x", UUID: "u"}})
	if res, _ := s.sum(nil); res.Verdict != taskcatalog.VerdictInconclusive || !s.units[0].done {
		t.Errorf("%+v", res)
	}
}

// Memory in no instance is judged for each GPU separately, in any order.
func TestMemoryInNoInstanceIsToldOfEachGPU(t *testing.T) {
	t.Parallel()
	instances := func(gpu string, whole, each *uint64) []*unit {
		var all []*unit
		for _, uuid := range []string{gpu + "-1", gpu + "-2"} {
			u := &unit{facts: taskcatalog.GPUFacts{UUID: gpu, MemoryBytes: whole}}
			u.device.UUID, u.device.Vendor = uuid, "nvidia"
			u.out = taskcatalog.GPUScrubbed{Parent: gpu, UUID: uuid, Verdict: taskcatalog.VerdictClean, TotalBytes: each}
			all = append(all, u)
		}
		return all
	}
	reserved := func(all []*unit, now, was *uint64) []*unit {
		for _, u := range all {
			u.facts.ReservedBytes, u.want = now, &taskcatalog.BaselineGPU{ReservedBytes: was}
		}
		return all
	}
	for range 20 { // the order of a map
		s := &Scrub{}
		s.units = slices.Concat(instances("whole", size(100), size(50)), instances("half", size(100), size(25)),
			instances("unknown", nil, size(50)), instances("unmeasured", size(100), nil),
			reserved(instances("reserved", size(140), size(50)), size(40), size(40)), reserved(instances("grown", size(140), size(50)), size(40), size(1)),
			reserved(instances("of an old baseline", size(140), size(50)), size(40), nil))
		s.judgeParents()
		for _, u := range s.units {
			if clean := u.out.Verdict == taskcatalog.VerdictClean; clean != (u.out.Parent == "whole" || u.out.Parent == "reserved") {
				t.Fatalf("%s is %s: %s", u.out.UUID, u.out.Verdict, u.out.Message)
			}
		}
	}
}
