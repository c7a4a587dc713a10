package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/fakegpu"
)

// The helper is this very executable, in a test the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && (os.Args[1] == "gpu" && os.Args[2] == "helper" || strings.HasPrefix(os.Args[1], "session")) {
		main()
	}
	os.Exit(m.Run())
}

// gpuMachine makes fake GPUs the GPUs of this machine.
func gpuMachine(t *testing.T, config ...string) *fakegpu.Machine {
	t.Helper()
	m, err := fakegpu.New(t.TempDir(), append([]string{"devices 3", "memory 64M", "reserved 2M"}, config...)...)
	if err != nil {
		t.Fatal(err)
	}
	was := gpuOpeners
	gpuHelperEnv, gpuOpeners = m.Env(), func(*machine.Machine) ([]gpu.Opener, error) { return nil, nil }
	t.Cleanup(func() { gpuHelperEnv, gpuOpeners = nil, was })
	return m
}

const residue = "TOKEN-OF-THE-LAST-TENANT"

func plant(t *testing.T, m *fakegpu.Machine, gpu int) {
	t.Helper()
	if err := m.Plant(gpu, 8<<20, bytes.Repeat([]byte(residue), 1000)); err != nil {
		t.Fatal(err)
	}
}

// tenant starts a tenant's program that stays, on a device.
func tenant(t *testing.T, m *fakegpu.Machine, uuid string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.Libs, "fakegpu-tenant"), "4194304", residue, "stay")
	cmd.Env = append(m.Env(), "CUDA_VISIBLE_DEVICES="+uuid)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
}

type saidOfGPUs struct {
	GPUs []struct {
		UUID    string `json:"uuid"`
		Code    string `json:"code"`
		Verdict string `json:"verdict"`
		Probe   *struct {
			NonZeroWords uint64 `json:"non_zero_words"`
			CoveredBytes uint64 `json:"covered_bytes"`
		} `json:"probe"`
		Holders []json.RawMessage `json:"holders"`
	} `json:"gpus"`
}

func gpusOf(t *testing.T, out string) saidOfGPUs {
	t.Helper()
	var said saidOfGPUs
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return said
}

func TestGPUProbeSeesWhatTheNextTenantWouldAndLeavesItThere(t *testing.T) {
	m := gpuMachine(t, "scrub_on_free off")
	plant(t, m, 1)
	status, out, errOut := call(t, "gpu", "probe")
	if status != exitFailed || !strings.Contains(errOut, "error: not_clean: 1 of 3 GPUs hold somebody's data") ||
		!strings.Contains(out, "3000 words of somebody's data in 30 MiB") {
		t.Fatalf("status %d: %s%s", status, out, errOut)
	}
	if strings.Count(out, "nothing but zeros") != 2 || strings.Contains(out, residue) {
		t.Errorf("%s", out)
	}
	if n, err := m.Count(1, residue); n != 1000 || err != nil {
		t.Errorf("%d tokens are there, want 1000 (%v)", n, err)
	}
}

func TestGPUProbeLeavesAGPUAloneThatSomebodyUses(t *testing.T) {
	m := gpuMachine(t)
	_, out, _ := call(t, "gpu", "probe", "-o", "json")
	tenant(t, m, gpusOf(t, out).GPUs[0].UUID)
	status, out, errOut := call(t, "gpu", "probe", "-o", "json")
	said := gpusOf(t, out)
	if status != exitRefused || !strings.Contains(errOut, "error: gpu_not_looked_at: 1 of 3 GPUs were not looked at") ||
		len(said.GPUs) != 3 || said.GPUs[0].Probe != nil || len(said.GPUs[0].Holders) != 1 || said.GPUs[1].Probe == nil {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
}

// Nothing was seen in a GPU whose memory could not be taken, neither data nor zeros.
// A program that starts meanwhile may leave no memory, or less than the share that is to be read.
func TestAGPUWithTooLittleFreeMemoryWasNotLookedAt(t *testing.T) {
	for limit, says := range map[string]string{
		"1M": "not looked at: it has no free memory",
		"8M": "not looked at as a whole: nothing but zeros in",
	} {
		gpuMachine(t, "fault.1 oom_early "+limit)
		status, out, errOut := call(t, "gpu", "probe")
		if status != exitRefused || !strings.Contains(errOut, "error: gpu_not_looked_at: 1 of 3 GPUs were not looked at") ||
			!strings.Contains(out, says) || strings.Count(out, "  nothing but zeros in 30 MiB\n") != 2 {
			t.Errorf("memory of %s: status %d: %s%s", limit, status, out, errOut)
		}
	}
}

// If a process may hold a GPU, the command takes none of its memory: neither if the process cannot
// be inspected, nor if it has a shared device file open.
func TestGPUsThatAProcessMayHoldAreLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		opener gpu.Opener
		says   string
		held   int // of three
	}{
		"one that cannot be looked at":      {gpu.Opener{Name: "tenant", Unseen: "cannot look at its descriptors"}, "cannot tell whether the GPU is held by 4194000 (tenant: cannot look at its descriptors)", 3},
		"one with the files of all":         {gpu.Opener{Name: "tenant", Nodes: []string{"/dev/nvidia-uvm", "/dev/nvidiactl"}}, "held by 4194000 (tenant, has /dev/nvidia-uvm /dev/nvidiactl open)", 3},
		"one with a file of GPU 1":          {gpu.Opener{Name: "tenant", Nodes: []string{"/dev/nvidia1", "/dev/nvidiactl"}}, "held by 4194000 (tenant, has /dev/nvidia1 /dev/nvidiactl open)", 1},
		"one at GPU 1 that was seen partly": {gpu.Opener{Name: "tenant", Nodes: []string{"/dev/nvidia1"}, Unseen: "it changes"}, "held by 4194000", 1},
		"one at another vendor's":           {gpu.Opener{Name: "tenant", Nodes: []string{"/dev/kfd"}}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := gpuMachine(t)
			c.opener.PID = 4194000
			gpuOpeners = func(*machine.Machine) ([]gpu.Opener, error) { return []gpu.Opener{c.opener}, nil }
			status, out, errOut := call(t, "gpu", "probe")
			if (status == exitDone) != (c.held == 0) || strings.Count(out, "not looked at") != c.held || !strings.Contains(out, c.says) {
				t.Errorf("probe: status %d: %s%s", status, out, errOut)
			}
			plant(t, m, 2)
			status, out, errOut = call(t, "gpu", "scrub", "--no-reset", "--no-quiesce")
			n, err := m.Count(2, residue)
			if refused := c.held > 0; (status == exitRefused) != refused || !strings.Contains(errOut, c.says) || err != nil || (n == 0) == refused {
				t.Errorf("scrub: status %d, %d tokens left: %s%s", status, n, out, errOut)
			}
			status, out, errOut = call(t, "gpu", "scrub", "--no-reset", "--no-quiesce", "--device", "0")
			if (status == exitRefused) != (c.held == 3) {
				t.Errorf("scrub of GPU 0: status %d: %s%s", status, out, errOut)
			}
		})
	}
}

func TestGPUProbeReportEscapesWhatADeviceSays(t *testing.T) {
	m := gpuMachine(t, "name <script>alert(1)</script>")
	plant(t, m, 0)
	file := filepath.Join(t.TempDir(), "report.html")
	if status, out, errOut := call(t, "gpu", "probe", "--device", "0", "--html", file); status != exitFailed {
		t.Fatalf("status %d: %s%s", status, out, errOut)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for want, found := range map[string]bool{"<script": false, "&lt;script&gt;alert(1)": true, "3000 words": true, residue: false} {
		if strings.Contains(string(raw), want) != found {
			t.Errorf("%q is there: %v\n%s", want, !found, raw)
		}
	}
}

func TestGPUScrubIsDoneOnlyIfEveryGPUIsClean(t *testing.T) {
	m := gpuMachine(t)
	plant(t, m, 0)
	scrub := []string{"gpu", "scrub", "--no-reset", "--no-quiesce", "-o", "json"}
	status, out, errOut := call(t, scrub...)
	if status != exitDone {
		t.Fatalf("status %d: %s%s", status, out, errOut)
	}
	for i, g := range gpusOf(t, out).GPUs {
		if n, err := m.Count(i, residue); g.Verdict != "clean" || n != 0 || err != nil {
			t.Errorf("GPU %d is %s, %d tokens are left (%v)", i, g.Verdict, n, err)
		}
	}
	if !strings.Contains(errOut, ": verify of 60 MiB\n") || strings.Contains(errOut, "\r") {
		t.Errorf("progress: %q", errOut)
	}
	if err := m.Configure("devices 3", "memory 64M", "reserved 2M", "fault.1 keeps_chunk 8M", "fault.2 ecc_in_verify"); err != nil {
		t.Fatal(err)
	}
	plant(t, m, 1)
	status, out, errOut = call(t, scrub...)
	if status != exitFailed || !strings.HasSuffix(errOut, "error: not_clean: 2 of 3 GPUs are not clean, for the reasons above\n") {
		t.Errorf("status %d: %s", status, errOut)
	}
	for i, want := range []string{"clean ", "not_clean gpu_residue", "not_clean gpu_hw_fault"} {
		if g := gpusOf(t, out).GPUs[i]; g.Verdict+" "+g.Code != want {
			t.Errorf("GPU %d is %s %s, want %s", i, g.Verdict, g.Code, want)
		}
	}
}

func TestGPUScrubRefusesWhereAProcessHoldsAGPUAndTouchesNone(t *testing.T) {
	m := gpuMachine(t)
	_, out, _ := call(t, "gpu", "probe", "-o", "json")
	plant(t, m, 1)
	tenant(t, m, gpusOf(t, out).GPUs[0].UUID)
	status, out, errOut := call(t, "gpu", "scrub", "--no-reset", "--no-quiesce")
	if status != exitRefused || !strings.HasPrefix(errOut, "error: gpu_holder_present: cannot scrub GPU 0, ") {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
	if n, err := m.Count(1, residue); n != 1000 || err != nil {
		t.Errorf("another GPU was touched: %d tokens (%v)", n, err)
	}
	if status, out, errOut := call(t, "gpu", "scrub", "--no-reset", "--no-quiesce", "--device", "1"); status != exitDone {
		t.Errorf("the other GPU: status %d: %s%s", status, out, errOut)
	}
}

// Memory in no instance of a GPU was not overwritten.
func TestInstancesAreCleanOnlyWhereTheyAreAllOfTheirGPU(t *testing.T) {
	scrub := []string{"gpu", "scrub", "--no-reset", "--no-quiesce", "-o", "json"}
	for outside, want := range map[string]string{"0": "clean ", "60M": "inconclusive gpu_scrub_incomplete"} {
		gpuMachine(t, "devices 2", "memory 128M", "instances.1 2", "fault.1 mig_on", "outside "+outside)
		status, out, errOut := call(t, scrub...)
		said := gpusOf(t, out).GPUs
		if len(said) != 3 || (status == exitDone) != (outside == "0") {
			t.Fatalf("outside %s: status %d: %s%s", outside, status, out, errOut)
		}
		for i, want := range []string{"clean ", want, want} {
			if got := said[i].Verdict + " " + said[i].Code; got != want {
				t.Errorf("outside %s: %s is %s, want %s", outside, said[i].UUID, got, want)
			}
		}
		if strings.Contains(out, " percent of GPU "+said[0].UUID) || strings.Contains(out, " percent of GPU GPU-") != (outside != "0") {
			t.Errorf("outside %s: %s", outside, out)
		}
		if status, out, errOut := call(t, append(scrub, "--device", said[1].UUID)...); status != exitDone || len(gpusOf(t, out).GPUs) != 1 {
			t.Errorf("outside %s, one of them: status %d: %s%s", outside, status, out, errOut)
		}
	}
	unknown := []scrubbedUnit{{gpuUnit: gpuUnit{Parent: "GPU-1"}, Verdict: taskcatalog.VerdictClean}}
	if judgeParents(unknown, []taskcatalog.GPUFacts{{UUID: "GPU-1", Instances: make([]taskcatalog.GPUInstance, 1)}}); unknown[0].Verdict != taskcatalog.VerdictInconclusive {
		t.Errorf("a GPU that does not say how large it is: %+v", unknown)
	}
}

func TestGPUCommandsSayWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		args   []string
		config []string
		status int
		says   string
	}{
		{[]string{"scrub"}, nil, exitUsage, "bad_usage"},
		{[]string{"scrub", "--no-reset"}, nil, exitUsage, "bad_usage"},
		{[]string{"probe", "-o", "xml"}, nil, exitUsage, "bad_usage"},
		{[]string{"probe", "--device", "7"}, nil, exitMissing, "gpu_not_found"},
		{[]string{"probe", "--device", "GPU-x"}, nil, exitMissing, "gpu_not_found"},
		{[]string{"probe"}, []string{"fault driver_missing"}, exitMissing, "libnvidia-ml.so.1 driver_missing"},
		{[]string{"probe"}, []string{"fault library_mismatched"}, exitMissing, "libnvidia-ml.so.1 library_mismatched"},
		{[]string{"probe", "--html", "/nowhere/at/all"}, nil, exitFailed, "cannot write the report"},
	} {
		gpuMachine(t, c.config...)
		if status, out, errOut := call(t, append([]string{"gpu"}, c.args...)...); status != c.status || !strings.Contains(errOut, c.says) {
			t.Errorf("%v: status %d: %s%s", c.args, status, out, errOut)
		}
	}
	gpuHelperEnv = nil
	if status, _, errOut := call(t, "gpu", "probe"); status != exitMissing || !strings.Contains(errOut, "libnvidia-ml.so.1 library_missing") {
		t.Errorf("without any library: status %d: %s", status, errOut)
	}
}
