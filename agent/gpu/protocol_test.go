package gpu_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

func TestALineThatMakesNoSenseIsGarbage(t *testing.T) {
	for _, line := range []string{
		``,
		`{}`,
		`null`,
		`[]`,
		`{"progress":{"phase":"fill","done_bytes":1,"total_bytes":2},"result":{}}`,
		`{"progress":{"phase":"fill","done_bytes":3,"total_bytes":2}}`,
		`{"progress":{"phase":"take","done_bytes":0,"total_bytes":0}}`,
		`{"progress":{"phase":"take","done_bytes":0,"total_bytes":1125899906842625}}`,
		`{"progress":{"phase":"dance","done_bytes":1,"total_bytes":2}}`,
		`{"progress":{"phase":"fill","done_bytes":-1,"total_bytes":2}}`,
		`{"progress":{"phase":"fill","done_bytes":1,"total_bytes":2,"more":1}}`,
		`{"progress":{"phase":"fill","done_bytes":1,"total_bytes":2}} {}`,
		`{"error":{"code":"","message":"x"}}`,
		`{"error":{"message":"x"}}`,
		`{"error":"x"}`,
		`{"result":{},"result":{}}`,
		"{\"error\":{\"code\":\"x\",\"message\":\"\xff\"}}",
		"NVRM: assertion failed",
		strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		if err := gpu.DecodeLine([]byte(line)); taskcatalog.CodeOf(err, "") != gpu.CodeHelperGarbage {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// Figures are checked against each other: a helper whose memory a library overwrote may still write
// JSON.
func TestAResultIsHeldToItsOwnFigures(t *testing.T) {
	good := gpu.ScrubResult{
		Memory: gpu.MemoryInfo{Total: 64 * mib, Free: 60 * mib}, Chunks: 2, CoveredBytes: 60 * mib,
		Excluded: []gpu.Exclusion{{Reason: gpu.NotFree, Bytes: 4 * mib}}, ReadBackBytes: 4096,
	}
	if err := gpu.CheckScrub(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*gpu.ScrubResult){
		"covers more than there is":    func(r *gpu.ScrubResult) { r.CoveredBytes = 65 * mib },
		"no memory":                    func(r *gpu.ScrubResult) { r.Memory = gpu.MemoryInfo{} },
		"more free than there is":      func(r *gpu.ScrubResult) { r.Memory.Free = 65 * mib },
		"more memory than any GPU has": func(r *gpu.ScrubResult) { r.Memory.Total = 1 << 60 },
		"more chunks than fit":         func(r *gpu.ScrubResult) { r.Chunks = 1000 },
		"more wrong words than words":  func(r *gpu.ScrubResult) { r.MismatchedWords = 60*mib/8 + 1 },
		"more residue than words":      func(r *gpu.ScrubResult) { r.ResidueWords = 1 << 63 },
		"more left than words":         func(r *gpu.ScrubResult) { r.RemainingWords = 1 << 40 },
		"read wrong what it did not":   func(r *gpu.ScrubResult) { r.ReadBackMismatches = 513 },
		"leaves out more than all":     func(r *gpu.ScrubResult) { r.Excluded[0].Bytes = 65 * mib },
	} {
		r := good
		r.Excluded = []gpu.Exclusion{good.Excluded[0]}
		change(&r)
		if err := gpu.CheckScrub(r); taskcatalog.CodeOf(err, "") != gpu.CodeHelperGarbage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHelperListsOnlyGPUsOfTheVendorItWasAskedAbout(t *testing.T) {
	const gpus = `{"gpus":[{"vendor":"nvidia","index":0,"uuid":"GPU-1","pci_address":"0000:03:00.0"},{"vendor":"%","index":1,"uuid":"GPU-2","pci_address":"0000:04:00.0"}],"libraries":[]}`
	for vendor, code := range map[string]taskcatalog.Code{"nvidia": "", "amd": gpu.CodeHelperGarbage, "": gpu.CodeHelperGarbage} {
		if err := gpu.DecodeSurvey("nvidia", strings.Replace(gpus, "%", vendor, 1)); codeOf(err) != code {
			t.Errorf("beside one of %q: %v", vendor, err)
		}
	}
}

// Whatever a child writes, the parent neither crashes nor passes on text that could harm a reader.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		`{"progress":{"phase":"fill","done_bytes":1,"total_bytes":2}}`,
		`{"error":{"code":"device_lost","message":"cuMemAlloc: the GPU is lost"}}`,
		`{"result":{"gpus":[{"vendor":"nvidia","index":0,"uuid":"GPU-1","pci_address":"0000:03:00.0"}],"libraries":[]}}`,
		`{"result":[{"pid":1,"kind":"compute"}]}`,
		`{"result":{"settings":{},"pending":{},"health":{},"counters":{"energy_mj":1},"nodes":["/dev/nvidia0"]}}`,
		`{"result":{"memory":{"total_bytes":16,"free_bytes":8},"chunks":0,"covered_bytes":0,"excluded":[],"residue_words":0,"mismatched_words":0,"remaining_words":0,"read_back_bytes":0,"read_back_mismatches":0,"compared_on_gpu":true}}`,
		`{"result":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		err := gpu.DecodeLine(line)
		if err == nil {
			return
		}
		if code := taskcatalog.CodeOf(err, ""); code == "" {
			t.Errorf("an error without a code: %v", err)
		}
		if text := err.Error(); taskcatalog.Clean(text, len(text)+4) != text {
			t.Errorf("text that is not clean: %q", text)
		}
	})
}
