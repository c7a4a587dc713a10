package scrub

import (
	"strconv"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// logged judges a kernel log for a GPU of a node with several GPUs.
func logged(vendor, address string, lines ...string) taskcatalog.GPUScrubbed {
	u := &unit{}
	u.device.Vendor, u.facts.PCIAddress, u.out.Verdict = vendor, address, taskcatalog.VerdictClean
	judgeLog(u, lines)
	return u.out
}

const (
	bad  = taskcatalog.VerdictNotClean
	open = taskcatalog.VerdictInconclusive
	fine = taskcatalog.VerdictClean
)

// The lines have the forms of public bug reports; agent/scrub/faults.go names the source of each
// meaning.
func TestEachLineOfTheKernelsLogMeansWhatItsDriverSays(t *testing.T) {
	t.Parallel()
	const nvidia, amd = "0000:01:00.0", "0000:0a:00.0"
	for _, c := range []struct {
		vendor, lines string
		verdict       taskcatalog.Verdict
	}{
		// A healthy driver's lines, from the boot of a node with an H100 and driver 580.159.04.
		{"nvidia", "nvidia: loading out-of-tree module taints kernel.", fine},
		{"nvidia", "nvidia-nvlink: Nvlink Core is being initialized, major device number 240", fine},
		{"nvidia", "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  ", fine},
		{"nvidia", "NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clearing it.", fine},
		{"nvidia", "NVRM: Persistence mode is deprecated and will be removed in a future release. Please use nvidia-persistenced instead.", fine},
		// Xid: the forms of the device.
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.", bad},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No", bad},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00 GPU-CI:05): 94, Contained", bad},
		{"nvidia", "NVRM: Xid (0000:01:00): 48, An uncorrectable double bit error (DBE) has been detected", bad},
		{"nvidia", "NVRM: Xid (PCI:00000000:01:00.0): 48", bad},
		{"nvidia", "NVRM: Xid (PCI:0000:02:00): 48, another GPU's", fine},
		{"nvidia", "NVRM: Xid (PCI:0000:02:00): 79, pid=1, GPU has fallen off the bus.", fine},
		{"nvidia", "NVRM: Xid (somewhere): 48, an address in no known form", open},
		{"nvidia", "NVRM: Xid", open},
		// Xid: the numbers.
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 62, 0096(1c54) 00000000 00000000", bad},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 64, Row Remapper: failure", bad},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 119, Timeout after 45s of waiting for RPC response from GPU0 GSP!", bad},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 31, pid=79749, name=exe, Ch 0000000a, intr 00000000. MMU Fault", fine},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 13, Graphics Exception", fine},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 43, pid=1, Ch 00000010", fine},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 45, pid=1, Ch 00000010", fine},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 61, pid=1", open},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 999, of a driver to come", open},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)", bad},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x04084507 0x00000004 0x00000000 0x00000000 0x00000000 0x00000000)", fine},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 150, MSE Odd XC1 i0 Link 17", open},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", bad},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", fine},
		{"nvidia", "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x6 (Bus Reset)", open},
		{"nvidia", "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ kernel_channel.c:2874", fine},
		{"nvidia", "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", bad},
		{"nvidia", "NVRM: GPU 0000:02:00.0: GPU has fallen off the bus.", fine},
		{"nvidia", "NVRM: GPU at 0000:01:00.0 has fallen off the bus.", bad},
		{"nvidia", "NVRM: a GPU has fallen off the bus.", open},
		{"nvidia", "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x0:2125)", open},
		{"nvidia", "NVRM: _scrubWaitAndSave: Timed out", open},
		// SXid, of a switch that every GPU is behind.
		{"nvidia", "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 32 egress non-posted PRIV error (First)", bad},
		{"nvidia", "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate", fine},
		{"nvidia", "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Severity 0 Engine instance 28 Sub-engine instance 00;nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Data {0x00140004, 0x00000000}", fine},
		{"nvidia", "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 19084, Non-fatal, Link 28 AN1 Heartbeat Timeout Error", open},
		{"nvidia", "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal", open},
		{"amd", "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal", fine},

		{"amd", "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=16060, emitted seq=16062;[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process  pid 0 thread  pid 0;amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!;amdgpu: MES might be in unrecoverable state, issue a GPU reset", bad},
		{"amd", "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1, emitted seq=2;amdgpu 0000:0b:00.0: amdgpu: GPU reset begin!", open},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3;amdgpu 0000:0a:00.0: amdgpu: Ring gfx_0.0.0 reset failed", bad},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: Ring gfx_0.0.0 reset failed", bad},
		{"amd", "amdgpu 0000:0a:00.0: ring gfx_0.0.0 timeout, signaled seq=57638, emitted seq=57641", bad},
		{"amd", "amdgpu 0000:0b:00.0: ring gfx_0.0.0 timeout, signaled seq=57638, emitted seq=57641", fine},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: GPU reset end with ret = -110", bad},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: GPU reset(2) failed", bad},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: ASIC reset failed with error, -62 for drm dev, 0000:0a:00.0", bad},
		{"amd", "amdgpu 0000:0a:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!;amdgpu 0000:0a:00.0: {1}[Hardware Error]: Accelerator Check Architecture events logged", bad},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: {7} Uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", bad},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: {1}1 new uncorrectable hardware errors detected in umc block", bad},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: {1}socket: 0, die: 0, 3 new deferred hardware errors detected in umc block", bad},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: {1}[Hardware Error]: Accelerator Check Architecture events logged;amdgpu 0000:0a:00.0: amdgpu: {1}socket: 0, die: 0, 1 new correctable hardware errors detected in umc block", fine},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: {1}hardware errors of a new kind", open},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: RAS controller interrupt triggered by NBIF error", open},
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: device lost from bus!", bad},
		// A successful reset, such as the scrub's own.
		{"amd", "amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!;amdgpu 0000:0a:00.0: amdgpu: GPU mode1 reset;amdgpu 0000:0a:00.0: amdgpu: GPU reset succeeded, trying to resume;amdgpu 0000:0a:00.0: amdgpu: RAS: optional ras ta ucode is not available;amdgpu 0000:0a:00.0: amdgpu: GPU reset(1) succeeded!;amdgpu 0000:0a:00.0: [drm] device wedged, but recovered through reset", fine},
	} {
		address := map[string]string{"nvidia": nvidia, "amd": amd}[c.vendor]
		got := logged(c.vendor, address, strings.Split(c.lines, ";")...)
		if got.Verdict != c.verdict {
			t.Errorf("%s is %s (%s), want %s", c.lines, got.Verdict, got.Message, c.verdict)
		}
		if c.verdict != fine && got.Code != taskcatalog.CodeGPUHardwareFault {
			t.Errorf("%s has the code %q", c.lines, got.Code)
		}
	}
}

func TestALineThatIsNotUnderstoodIsQuotedCleanAndShort(t *testing.T) {
	t.Parallel()
	got := logged("nvidia", "0000:01:00.0", "NVRM: Xid (PCI:0000:01:00): 999, \x1b[31mred\n"+strings.Repeat("x", 10_000))
	if got.Verdict != open || !strings.Contains(got.Message, "NVRM: Xid (PCI:0000:01:00): 999, ") || strings.ContainsAny(got.Message, "\x1b\n") || len(got.Message) > 2*maxQuote {
		t.Errorf("%s, %d bytes: %q", got.Verdict, len(got.Message), got.Message)
	}
}

// The worst of all lines is reported, whatever came before it.
func TestTheWorstLineIsTheOneThatIsTold(t *testing.T) {
	t.Parallel()
	got := logged("nvidia", "0000:01:00.0", "NVRM: Xid (PCI:0000:01:00): 999, new", "NVRM: Xid (PCI:0000:01:00): 79, gone", "NVRM: Xid (PCI:0000:01:00): 45, gone")
	if got.Verdict != bad || !strings.Contains(got.Message, "Xid 79") {
		t.Errorf("%s: %s", got.Verdict, got.Message)
	}
}

// No Xid is in two rows without text: the first row would hide the second.
func TestEachNumberHasOneMeaning(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"48", "63", "64", "74", "79", "92", "94", "95", "119", "120", "140"} {
		if got, ok := parseFault("NVRM: Xid (PCI:0000:01:00): " + name); !ok || got.severity != broken {
			t.Errorf("Xid %s: %+v", name, got)
		}
	}
	for n := range 1000 {
		rows := 0
		for _, row := range faults {
			if row.family == xid && row.text == nil && row.covers(strconv.Itoa(n)) {
				rows++
			}
		}
		if rows > 1 {
			t.Errorf("Xid %d is in %d rows", n, rows)
		}
	}
}
