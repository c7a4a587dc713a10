package definition

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/operations"
)

// shipped returns the definitions that ship.
func shipped(t testing.TB) map[string]*Definition {
	t.Helper()
	names, err := fs.Glob(operations.Files, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	all := map[string]*Definition{}
	for _, name := range names {
		text, err := operations.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d, problems := Parse(profiles.File{Name: name, Text: text})
		if problems != nil {
			for _, p := range problems {
				t.Error(p)
			}
			continue
		}
		all[strings.TrimSuffix(name, ".yaml")] = d
	}
	return all
}

func TestWhatShipsIsValid(t *testing.T) {
	for name, d := range shipped(t) {
		if d.ID() != name {
			t.Errorf("%s.yaml holds %s", name, d.ID())
		}
	}
}

// The canonical JSON is the definition: it reads back to the same, so its digest stands for the file.
func TestTheCanonicalJSONReadsBack(t *testing.T) {
	d := parsed(t, whole)
	raw, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var again Definition
	if err := taskcatalog.DecodeStrict(raw, &again); err != nil {
		t.Fatal(err)
	}
	if again.Digest() != d.Digest() {
		t.Errorf("read back: %s", raw)
	}
	reordered := parsed(t, strings.Replace(whole, "safety: idle\ntargets: [node]\n", "targets: [node]\nsafety: idle\n", 1))
	if reordered.Digest() != d.Digest() {
		t.Error("the order of keys changes the digest")
	}
	moved, problems := Parse(profiles.File{Name: "moved\xff.yaml", Text: []byte("# a comment\n" + whole)})
	if problems != nil || moved.Digest() != d.Digest() {
		t.Error("the name of the file, or a comment, changes the digest", problems)
	}
	if other := parsed(t, strings.Replace(whole, "attempts: 3", "attempts: 4", 1)); other.Digest() == d.Digest() {
		t.Error("another number of attempts has the same digest")
	}
}

func parsed(t testing.TB, text string) *Definition {
	t.Helper()
	d, problems := Parse(profiles.File{Name: "op.yaml", Text: []byte(text)})
	if problems != nil {
		t.Fatal(problems)
	}
	return d
}

func TestInputsAreHeldAgainstTheSchema(t *testing.T) {
	d := parsed(t, whole)
	good := `{"digest":"sha256:` + strings.Repeat("a", 64) + `","name":"w.bin","port":8080,"bucket":"models"}`
	if err := d.CheckInputs(json.RawMessage(good)); err != nil {
		t.Errorf("%s: %v", good, err)
	}
	for _, bad := range []string{
		`{}`, `[]`, `null`,
		strings.Replace(good, `"port":8080`, `"port":"8080"`, 1),
		strings.Replace(good, `"port":8080`, `"port":8080.0`, 1),
		strings.Replace(good, `"port":8080`, `"port":1e-999999`, 1),
		strings.Replace(good, `"models"`, `"a\nb"`, 1), strings.Replace(good, `"models"`, `"--all"`, 1), strings.Replace(good, `"models"`, `""`, 1),
		strings.Replace(good, `"port":8080`, `"port":70000`, 1),
		strings.Replace(good, `"port":8080`, `"port":8080,"extra":1`, 1),
		strings.Replace(good, `"name":"w.bin"`, `"name":"../w"`, 1),
		strings.Replace(good, `sha256:a`, `sha256:A`, 1),
		strings.Replace(good, `"bucket":"models"`, `"bucket":"`+strings.Repeat("m", 101)+`"`, 1),
	} {
		if err := d.CheckInputs(json.RawMessage(bad)); err == nil {
			t.Errorf("taken: %s", bad)
		} else if strings.Contains(err.Error(), "8080") || strings.Contains(err.Error(), "../w") {
			t.Errorf("the error quotes a value: %v", err)
		}
	}
}
