package profiles

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

//go:embed amd.yaml generic.yaml nvidia.yaml
var shippedFiles embed.FS

// shipped is profilestest.Shipped, which these tests cannot import.
func shipped() []File {
	var all []File
	for _, name := range []string{"amd.yaml", "generic.yaml", "nvidia.yaml"} {
		text, err := shippedFiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		all = append(all, File{Name: name, Text: text})
	}
	return all
}

func shippedSet(t *testing.T) *Set {
	t.Helper()
	set, problems := Parse(shipped()...)
	for _, p := range problems {
		t.Error(p)
	}
	if set == nil {
		t.FailNow()
	}
	return set
}

// machines are facts as they are gathered, of machines of each kind.
var machines = []struct {
	name string
	keys map[string]string
}{
	{"nvidia with NVSwitch", map[string]string{"gpu.vendor": "nvidia", "gpu.architecture": "hopper", "gpu.driver_series": "550.54", "fabric.type": "nvlink", "gpu.fabric": "nvlink", "container.runtime": "containerd", "compute.runtime": "cuda"}},
	{"nvidia with NVSwitch and InfiniBand", map[string]string{"gpu.vendor": "nvidia", "fabric.type": "infiniband", "gpu.fabric": "nvlink"}},
	{"nvidia with InfiniBand", map[string]string{"gpu.vendor": "nvidia", "fabric.type": "infiniband", "gpu.fabric": "none", "container.runtime": "docker"}},
	{"nvidia with Ethernet", map[string]string{"gpu.vendor": "nvidia", "fabric.type": "ethernet", "container.runtime": "none"}},
	{"nvidia, fabric unknown", map[string]string{"gpu.vendor": "nvidia"}},
	{"amd with RoCE", map[string]string{"gpu.vendor": "amd", "gpu.architecture": "gfx942", "fabric.type": "roce"}},
	{"amd", map[string]string{"gpu.vendor": "amd"}},
	{"intel", map[string]string{"gpu.vendor": "intel", "compute.runtime": "level_zero"}},
	{"bare", map[string]string{"gpu.vendor": "none", "fabric.type": "ethernet"}},
	{"nothing known", nil},
}

func TestWhatShipsResolvesAsWasAgreed(t *testing.T) {
	set := shippedSet(t)
	var b strings.Builder
	for _, m := range machines {
		fmt.Fprintf(&b, "%s\n", m.name)
		for _, step := range Steps() {
			e := set.Explain(m.keys, step)
			fmt.Fprintf(&b, "  %-28s %-16s %-28s %s\n", step, e.Rule, e.Profile+string(e.Code), strings.Join(e.Argv, " "))
		}
	}
	golden(t, "testdata/shipped.golden", []byte(b.String()))
}

// The folder in the repository is the set that operators start from.
func TestTheFolderIsTheSetThatShips(t *testing.T) {
	files, err := Read(".")
	if err != nil {
		t.Fatal(err)
	}
	set, problems := Parse(files...)
	if problems != nil || set.Digest() != shippedSet(t).Digest() {
		t.Errorf("%d files, %v", len(files), []Problem(problems))
	}
}

func TestTheMinimalSetKnowsNoVendorAndAnswersNoStep(t *testing.T) {
	set := Minimal()
	for _, m := range machines {
		for _, step := range Steps() {
			if e := set.Explain(m.keys, step); e.Code != CodeProfileMissing || e.Profile != "" {
				t.Errorf("%s, %s: %+v", m.name, step, e)
			}
		}
	}
	raw, err := set.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, vendor := range []string{"nvidia", "amd", "rocm"} {
		if bytes.Contains(raw, []byte(vendor)) {
			t.Errorf("the compiled-in set names %s: %s", vendor, raw)
		}
	}
}

// A step of a scrub that is skipped on hardware with GPUs would pass for one
// that was done.
func TestNoScrubStepIsSkippedWhereAGPUMayBe(t *testing.T) {
	set := shippedSet(t)
	for _, m := range machines {
		if m.keys["gpu.vendor"] == "none" {
			continue
		}
		for _, step := range Steps() {
			if e := set.Explain(m.keys, step); strings.HasPrefix(step, "gpu.scrub.") && e.Profile == BuiltinPrefix+BuiltinNone {
				t.Errorf("%s: rule %s skips %s", m.name, e.Rule, step)
			}
		}
	}
}

func compiledSchema(t *testing.T) *validator.Schema {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("hostler:profiles", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("hostler:profiles")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheSchemaIsWhatWasAgreedAndTakesWhatShips(t *testing.T) {
	golden(t, "schema.json", schema())
	schema := compiledSchema(t)
	for _, f := range append(shipped(), File{"minimal.yaml", minimal}) {
		var doc any
		if err := yaml.Unmarshal(f.Text, &doc); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func TestASetComesBackFromItsJSONAsItWas(t *testing.T) {
	set := shippedSet(t)
	raw, err := set.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, problems := Decode(raw)
	if problems != nil {
		t.Fatal(problems)
	}
	if again.Digest() != set.Digest() || !strings.HasPrefix(set.Digest(), "sha256:") {
		t.Errorf("%s became %s", set.Digest(), again.Digest())
	}
	if last := again.HardwareProfiles[len(again.HardwareProfiles)-1]; last.Name != "fallback" {
		t.Errorf("the last rule is %s", last.Name)
	}
	for _, p := range again.CommandProfiles {
		if p.At == "" {
			t.Errorf("%s does not say where it stood", p.ID)
		}
	}
}

func TestTheExampleOfThePageIsASet(t *testing.T) {
	page, err := os.ReadFile("../docs/how-to/resolver-profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if _, problems := Parse(File{"example.yaml", []byte(example)}); !ok || problems != nil {
		t.Errorf("%v", []Problem(problems))
	}
	for _, step := range Steps() {
		if !strings.Contains(string(page), strings.TrimPrefix(step, "gpu.scrub.")) {
			t.Errorf("the page lacks %s", step)
		}
	}
}
