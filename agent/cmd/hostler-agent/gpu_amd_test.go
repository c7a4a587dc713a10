package main

import (
	"encoding/json"
	"testing"
)

// On a machine with both vendors, each GPU is queried through its own libraries.
func TestGPUProbeAndScrubOfBothVendors(t *testing.T) {
	m := gpuMachine(t, "vendor.2 amd", "scrub_on_free off")
	plant(t, m, 2)
	status, out, errOut := call(t, "gpu", "probe", "-o", "json")
	said := gpusOf(t, out)
	if status != exitFailed || len(said.GPUs) != 3 {
		t.Fatalf("status %d: %s%s", status, out, errOut)
	}
	amd := said.GPUs[2]
	if amd.Probe == nil || amd.Probe.NonZeroWords != 3000 || said.GPUs[0].Probe.NonZeroWords != 0 {
		t.Fatalf("the probe says %+v", said.GPUs)
	}
	status, out, errOut = call(t, "gpu", "scrub", "--no-reset", "--no-quiesce", "--device", amd.UUID, "-o", "json")
	var scrubbed struct {
		GPUs []map[string]json.RawMessage `json:"gpus"`
	}
	if err := json.Unmarshal([]byte(out), &scrubbed); err != nil || status != exitDone || len(scrubbed.GPUs) != 1 {
		t.Fatalf("status %d, %v: %s%s", status, err, out, errOut)
	}
	if n, err := m.Count(2, residue); n != 0 || err != nil {
		t.Errorf("%d tokens are left (%v)", n, err)
	}
}
