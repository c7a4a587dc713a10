package health

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	nvidia = "0000:01:00.0"
	amd    = "0000:0a:00.0"
)

var begin = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// well is a look at a healthy GPU.
func well(address string) gpu.Look {
	return gpu.Look{
		UUID: "GPU-" + address, PCIAddress: address,
		Numbers: map[string]int64{
			"answers": 1, "ecc_uncorrected": 0, "ecc_corrected": 3, "ecc_total": 2, "remapped_rows": 1, "remap_pending": 0, "remap_failed": 0,
			"retired_pages": 0, "pcie_width": 16, "pcie_width_max": 16, "pcie_generation": 5, "pcie_generation_max": 5, "pcie_replays": 7,
			"nvlink_active": 18, "nvlink_replays": 0, "nvlink_recoveries": 0, "temperature": 40, "temperature_limit": 90,
			"throttle_hw_slowdown": 0, "throttle_hw_thermal": 0, "throttle_hw_power": 0, "throttle_sw_thermal": 0, "throttle_sw_power": 0,
		},
		Texts: map[string]string{"recovery": "none", "fabric": "completed", "partition": "mig_disabled"},
	}
}

// node is the GPUs of a test: a minute passes between two looks.
type node struct {
	t     *testing.T
	state *state
	at    time.Time
	boot  string
	next  uint64
	gpus  map[string]gpu.Look // by PCI address
	fails map[string]error    // by vendor
	noLog error
	lost  uint64
}

func newNode(t *testing.T) *node {
	return &node{t: t, state: newState(), at: begin, boot: "boot-1", gpus: map[string]gpu.Look{nvidia: well(nvidia), amd: well(amd)}}
}

func (n *node) look(lines ...string) taskcatalog.HealthReport {
	n.t.Helper()
	n.at, n.next = n.at.Add(time.Minute), n.next+uint64(len(lines))
	looks := map[string]gpu.Looks{"nvidia": {Driver: "580.1"}, "amd": {Driver: "6.10"}}
	for _, address := range slices.Sorted(maps.Keys(n.gpus)) {
		vendor := "nvidia"
		if address == amd {
			vendor = "amd"
		}
		of := looks[vendor]
		of.GPUs = append(of.GPUs, n.gpus[address])
		looks[vendor] = of
	}
	r := judge(n.state, seen{
		bootID: n.boot, now: n.at, bus: map[string][]string{"nvidia": {nvidia}, "amd": {amd}}, looks: looks, failed: n.fails,
		lines: lines, next: n.next, lost: n.lost, noLog: n.noLog, rules: profiles.Minimal().HealthRules(),
	})
	n.lost = 0
	return r
}

// set changes figures of a GPU.
func (n *node) set(address string, numbers map[string]int64, texts ...string) {
	l := n.gpus[address]
	l.Numbers, l.Texts = maps.Clone(l.Numbers), maps.Clone(l.Texts)
	for name, v := range numbers {
		if v < -1 {
			delete(l.Numbers, name)
		} else {
			l.Numbers[name] = v
		}
	}
	for i := 0; i < len(texts); i += 2 {
		l.Texts[texts[i]] = texts[i+1]
	}
	n.gpus[address] = l
}

const absent = -2

func of(r taskcatalog.HealthReport, address string) taskcatalog.GPUHealthOf {
	i := slices.IndexFunc(r.GPUs, func(g taskcatalog.GPUHealthOf) bool { return g.PCIAddress == address })
	return r.GPUs[i]
}

// Lines have the forms of public bug reports. The node has one GPU of each vendor.
func TestTheKernelsLinesOfGPUs(t *testing.T) {
	const failed, degraded, unknown, healthy = taskcatalog.HealthFailed, taskcatalog.HealthDegraded, taskcatalog.HealthUnknown, taskcatalog.HealthHealthy
	xid := func(rest string) string { return "NVRM: Xid (PCI:0000:01:00): " + rest }
	for _, c := range []struct {
		lines string // joined by ;
		want  taskcatalog.HealthVerdict
	}{
		{"NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No", degraded},
		{xid("94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No"), degraded},
		{xid("95, Uncontained: LTC TAG"), failed},
		{"NVRM: Xid (0000:01:00): 48, An uncorrectable double bit error (DBE) has been detected", failed},
		{xid("63, Row Remapper: New row marked for remapping, reset gpu to activate."), degraded},
		{xid("64, Row Remapper: failure"), failed},
		{xid("79, pid=1, GPU has fallen off the bus."), failed},
		{xid("119, Timeout after 45s of waiting for RPC response from GPU0 GSP!"), failed},
		{xid("149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6)"), failed},
		{xid("145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x04084507)"), healthy},
		{xid("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"), failed},
		{xid("154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"), healthy},
		{xid("999, of a driver to come"), unknown},
		{"NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ kernel_channel.c:2874", healthy},
		// What a tenant's program can do is no fault of the GPU.
		{xid("13, Graphics Exception: ESR 0x404490=0x80000002"), healthy},
		{xid("31, pid=79749, name=exe, Ch 0000000a, intr 00000000. MMU Fault"), healthy},
		{xid("43, pid=1, Ch 00000010") + ";" + xid("45, pid=1, Ch 00000010"), healthy},
		// Another node's GPU, or one that is no more.
		{"NVRM: Xid (PCI:0000:02:00): 79, pid=1, GPU has fallen off the bus.", healthy},

		{"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=16060, emitted seq=16062;[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process  pid 0 thread  pid 0;amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!;amdgpu: MES might be in unrecoverable state, issue a GPU reset", failed},
		{"amdgpu 0000:0a:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3;amdgpu 0000:0a:00.0: amdgpu: Ring gfx_0.0.0 reset failed", failed},
		{"amdgpu 0000:0a:00.0: ring gfx_0.0.0 timeout, signaled seq=57638, emitted seq=57641", failed},
		{"amdgpu 0000:0a:00.0: amdgpu: GPU reset end with ret = -110", failed},
		{"amdgpu 0000:0a:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!;amdgpu 0000:0a:00.0: {1}[Hardware Error]: Accelerator Check Architecture events logged", failed},
		{"amdgpu 0000:0a:00.0: amdgpu: {1}1 new uncorrectable hardware errors detected in umc block", failed},
		{"amdgpu 0000:0a:00.0: amdgpu: {1}1 new correctable hardware errors detected in umc block", healthy},
		// A reset by us.
		{"amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!;amdgpu 0000:0a:00.0: amdgpu: GPU reset(1) succeeded!", healthy},
	} {
		n := newNode(t)
		if r := n.look(); r.Verdict != healthy {
			t.Fatalf("before anything: %+v", r)
		}
		r := n.look(strings.Split(c.lines, ";")...)
		for range 3 { // a line without a device waits for those that follow; no later look takes a fault back
			r = n.look()
		}
		if r.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.lines, r.Verdict, c.want, r.GPUs)
		}
		for _, g := range r.GPUs {
			if (g.Verdict == healthy) != (len(g.Reasons) == 0) {
				t.Errorf("%s: %s is %s for %v", c.lines, g.PCIAddress, g.Verdict, g.Reasons)
			}
		}
	}
}

func TestFiguresOfGPUs(t *testing.T) {
	const failed, degraded, unknown, healthy = taskcatalog.HealthFailed, taskcatalog.HealthDegraded, taskcatalog.HealthUnknown, taskcatalog.HealthHealthy
	type figures = map[string]int64
	for name, c := range map[string]struct {
		numbers figures
		texts   []string
		looks   int // in a row
		want    taskcatalog.HealthVerdict
		field   string
	}{
		"an uncorrectable error":              {figures{"ecc_uncorrected": 1}, nil, 1, degraded, "ecc_uncorrected"},
		"an error that a reload took away":    {figures{"ecc_total": 3}, nil, 1, degraded, "ecc_total"},
		"corrected errors":                    {figures{"ecc_corrected": 9999}, nil, 9, healthy, ""},
		"a row that waits":                    {figures{"remap_pending": 1}, nil, 1, degraded, "remap_pending"},
		"a row that could not be replaced":    {figures{"remap_failed": 1}, nil, 1, failed, "remap_failed"},
		"sixty retired pages":                 {figures{"retired_pages": 60}, nil, 1, failed, "retired_pages"},
		"a narrow link, once":                 {figures{"pcie_width": 8}, nil, 2, healthy, ""},
		"a narrow link":                       {figures{"pcie_width": 8}, nil, 3, degraded, "pcie_width"},
		"a slow link of an idle GPU":          {figures{"pcie_generation": 1}, nil, 9, healthy, ""},
		"an NVLink that is down":              {figures{"nvlink_active": 17}, nil, 3, failed, "nvlink_active"},
		"an NVLink that was trained again":    {figures{"nvlink_recoveries": 1}, nil, 1, degraded, "nvlink_recoveries"},
		"a fabric that failed":                {nil, []string{"fabric", "failed"}, 1, failed, "fabric"},
		"a fabric that is not well":           {nil, []string{"fabric", "unhealthy: degraded_bandwidth_1"}, 1, failed, "fabric"},
		"a fabric of a later driver":          {nil, []string{"fabric", "unknown_9"}, 1, unknown, "fabric"},
		"a condition of a later driver":       {nil, []string{"fabric", "unhealthy: unknown_0x1000"}, 1, failed, "fabric"},
		"advice":                              {nil, []string{"recovery", "gpu_reset"}, 1, degraded, "recovery"},
		"advice of a later driver":            {nil, []string{"recovery", "unknown_9"}, 1, unknown, "recovery"},
		"advice that cannot be read":          {nil, []string{"recovery", "unreadable"}, 1, unknown, "recovery"},
		"throttling under load":               {figures{"throttle_sw_power": 1, "throttle_sw_thermal": 1, "throttle_hw_slowdown": 1, "temperature": 85}, nil, 60, healthy, ""},
		"heat for a while":                    {figures{"throttle_hw_thermal": 1}, nil, 9, healthy, ""},
		"heat":                                {figures{"throttle_hw_thermal": 1}, nil, 10, degraded, "throttle_hw_thermal"},
		"hotter than its limit":               {figures{"temperature": 91}, nil, 3, degraded, "temperature"},
		"replays":                             {figures{"pcie_replays": 1000}, nil, 9, healthy, ""}, // once, and no more
		"a value that is gone, for two looks": {figures{"ecc_total": absent}, nil, 2, healthy, ""},
		"a value that is gone":                {figures{"ecc_total": absent}, nil, 3, unknown, "missing"},
		"MIG":                                 {figures{"nvlink_active": absent, "nvlink_replays": absent, "nvlink_recoveries": absent}, []string{"partition", "mig_enabled"}, 9, healthy, ""},
	} {
		n := newNode(t)
		n.look()
		n.set(nvidia, c.numbers, c.texts...)
		var r taskcatalog.HealthReport
		for range c.looks {
			r = n.look()
		}
		got := of(r, nvidia)
		if got.Verdict != c.want || r.Verdict != c.want || of(r, amd).Verdict != healthy {
			t.Errorf("%s: %+v, want %s", name, r, c.want)
		}
		if c.field != "" && (len(got.Reasons) == 0 || !slices.ContainsFunc(got.Reasons, func(x taskcatalog.HealthReason) bool {
			return x.Field == c.field && x.Verdict == c.want && x.Value != "" && x.Message != "" && x.Since.After(begin)
		})) {
			t.Errorf("%s: no word of %s: %+v", name, c.field, got.Reasons)
		}
	}
}

func TestOneLostLookIsNone(t *testing.T) {
	n := newNode(t)
	n.look()
	n.set(nvidia, map[string]int64{"remap_pending": 1})
	told := Key(n.look())
	n.fails = map[string]error{"nvidia": taskcatalog.Errorf(gpu.CodeHelperHung, "no answer")}
	for range 2 {
		if r := n.look(); Key(r) != told || r.Verdict != taskcatalog.HealthDegraded {
			t.Errorf("a lost look changed what is told: %+v", r)
		}
	}
	r := n.look()
	if r.Verdict != taskcatalog.HealthUnknown || r.Reasons[0].Field != "look" || r.Reasons[0].Value != "helper_hung" || of(r, amd).Verdict != taskcatalog.HealthHealthy {
		t.Errorf("three lost looks: %+v", r)
	}
	n.fails = nil
	if r := n.look(); Key(r) != told {
		t.Errorf("looks work again: %+v", r)
	}
}

func TestAGPUThatIsOnTheBusAlone(t *testing.T) {
	n := newNode(t)
	n.look()
	gone := n.gpus[nvidia]
	delete(n.gpus, nvidia)
	if r := n.look(); r.Verdict != taskcatalog.HealthHealthy {
		t.Errorf("a driver that is loaded anew: %+v", r)
	}
	r := n.look()
	if got := of(r, nvidia); got.Verdict != taskcatalog.HealthFailed || got.Reasons[0].Field != "answers" || got.UUID != gone.UUID {
		t.Errorf("%+v", got)
	}
}

func TestAReboot(t *testing.T) {
	n := newNode(t)
	n.look()
	if r := n.look("NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus."); r.Verdict != taskcatalog.HealthFailed {
		t.Fatal(r)
	}
	n.boot, n.next = "boot-2", 0
	if r := n.look(); r.Verdict != taskcatalog.HealthHealthy || n.state.Place != 0 {
		t.Errorf("after a reboot: %+v", r)
	}
	// What was counted after the last look and before the reboot is seen.
	n.set(nvidia, map[string]int64{"ecc_total": 5})
	n.boot = "boot-3"
	if r := n.look(); of(r, nvidia).Verdict != taskcatalog.HealthDegraded {
		t.Errorf("errors across a reboot: %+v", r)
	}
	n.boot = "boot-4"
	if r := n.look(); r.Verdict != taskcatalog.HealthHealthy {
		t.Errorf("errors before the last boot: %+v", r)
	}
}

func TestALogThatCannotBeReadOrLostLines(t *testing.T) {
	n := newNode(t)
	n.look()
	n.noLog = errors.New("no permission")
	n.look()
	if r := n.look(); r.Verdict != taskcatalog.HealthHealthy {
		t.Errorf("two looks without the log: %+v", r)
	}
	if r := n.look(); r.Verdict != taskcatalog.HealthUnknown || r.Reasons[0].Field != "kernel_log" {
		t.Errorf("three looks without the log: %+v", r)
	}
	n.noLog = nil
	if r := n.look(); r.Verdict != taskcatalog.HealthHealthy {
		t.Errorf("the log again: %+v", r)
	}
	n.lost = 5
	n.look()
	if r := n.look(); r.Verdict != taskcatalog.HealthUnknown || r.Reasons[0].Value != "lost" {
		t.Errorf("lost lines: %+v", r)
	}
}

// A ring that hung names no device, and the driver names it in the look that follows.
func TestALineIsDecidedByTheLinesOfTheNextLook(t *testing.T) {
	n := newNode(t)
	n.look()
	if r := n.look("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1, emitted seq=2"); r.Verdict != taskcatalog.HealthHealthy {
		t.Errorf("decided too early: %+v", r)
	}
	if r := n.look("amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!"); of(r, amd).Verdict != taskcatalog.HealthFailed {
		t.Errorf("%+v", r)
	}
	n = newNode(t)
	n.look("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1, emitted seq=2")
	if r := n.look(); of(r, amd).Verdict != taskcatalog.HealthUnknown {
		t.Errorf("no device named at all: %+v", r)
	}
}

func TestManyFaultsAreBounded(t *testing.T) {
	n := newNode(t)
	for i := range 200 {
		n.look(fmt.Sprintf("NVRM: Xid (PCI:0000:01:00): %d, of a driver to come", 1000+i))
	}
	r := n.look("NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.")
	m := n.state.GPUs["nvidia "+nvidia]
	if len(m.Lines) > maxLines || len(of(r, nvidia).Reasons) > taskcatalog.MaxHealthReasons || r.Verdict != taskcatalog.HealthFailed {
		t.Errorf("%d lines kept, %d reasons, %s", len(m.Lines), len(of(r, nvidia).Reasons), r.Verdict)
	}
	if len(n.state.Since) > 100 {
		t.Errorf("%d dates are kept", len(n.state.Since))
	}
}

func TestAKeyHasNoFigures(t *testing.T) {
	n := newNode(t)
	quiet := Key(n.look())
	n.set(nvidia, map[string]int64{"temperature": 70, "power_mw": 500000, "ecc_corrected": 9})
	if Key(n.look()) != quiet {
		t.Error("figures of a healthy GPU are news")
	}
	n.set(nvidia, map[string]int64{"ecc_uncorrected": 1})
	one := Key(n.look())
	n.set(nvidia, map[string]int64{"ecc_uncorrected": 2})
	if two := Key(n.look()); two != one || one == quiet {
		t.Error("the second error is news, or the first is none")
	}
}
