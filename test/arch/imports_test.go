package arch

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hostler/hostler"

type pkg struct {
	ImportPath string
	Imports    []string
}

// ours is the import path below the module, or "" for somebody else's.
func ours(path string) string {
	if rest, ok := strings.CutPrefix(path, module+"/"); ok {
		return rest
	}
	return ""
}

func within(path string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}

func load(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list found %d packages only", len(pkgs))
	}
	return pkgs
}

// allowed says which of our packages each part may import.
var allowed = []struct {
	part string
	may  []string
}{
	{"taskcatalog", []string{"taskcatalog"}},
	{"pki", []string{"pki", "taskcatalog"}},
	{"resolver-profiles", []string{"resolver-profiles", "taskcatalog"}},
	{"agent", []string{"agent", "pki", "taskcatalog", "resolver-profiles"}},
	{"broker", []string{"broker", "pki", "taskcatalog", "resolver-profiles"}},
	{"packaging", nil},
}

// only says which single package may import a dependency.
var only = []struct{ dependency, owner string }{
	{"modernc.org/sqlite", "broker/store"},
	{"github.com/jackc/pgx", "broker/store"},
	{"github.com/pressly/goose", "broker/store"},
	{"go.etcd.io/bbolt", "agent/ledger"},
	{"filippo.io/age", "broker/secrets"},
	{"github.com/NVIDIA/go-nvml", "agent/gpu"},
	{"github.com/ebitengine/purego", "agent/gpu"},
	{"github.com/canonical/gomaasclient", "broker/maas"},
	{"github.com/juju/gomaasapi", "broker/maas"},
	{"github.com/pkg/sftp", "broker/sshseed"},
	{"github.com/creack/pty", "agent/terminal"},
}

func TestPartsImportOnlyWhatTheyMay(t *testing.T) {
	for _, p := range load(t) {
		from := ours(p.ImportPath)
		for _, rule := range allowed {
			if !within(from, rule.part) {
				continue
			}
			for _, imp := range p.Imports {
				if to := ours(imp); to != "" && !within(to, rule.may...) {
					t.Errorf("%s imports %s: %s may import only %v", from, to, rule.part, rule.may)
				}
			}
		}
	}
}

// A terminal is separate from the execution of tasks: it could be a program of its own.
func TestATerminalKnowsNothingOfTasks(t *testing.T) {
	for _, p := range load(t) {
		if ours(p.ImportPath) != "agent/terminal" {
			continue
		}
		for _, imp := range p.Imports {
			if to := ours(imp); to != "" && to != "agent/machine" && to != "taskcatalog" && to != "taskcatalog/wire/frame" {
				t.Errorf("agent/terminal imports %s", to)
			}
		}
	}
}

func TestTheDomainImportsNoneOfItsChildren(t *testing.T) {
	for _, p := range load(t) {
		if ours(p.ImportPath) != "broker" {
			continue
		}
		for _, imp := range p.Imports {
			if within(ours(imp), "broker") {
				t.Errorf("broker imports its child %s", imp)
			}
		}
	}
}

// The engine of chains knows neither nodes nor MAAS: what runs on it brings that.
func TestTheChainEngineImportsNothingOfOurs(t *testing.T) {
	for _, p := range load(t) {
		if from := ours(p.ImportPath); !within(from, "broker/chain") {
			continue
		}
		for _, imp := range p.Imports {
			if to := ours(imp); to != "" && !within(to, "broker/chain") {
				t.Errorf("%s imports %s", ours(p.ImportPath), to)
			}
		}
	}
}

// Whoever verifies a certificate need not read the broker: what is checked is in
// this package, and in those that both sides agree on.
func TestCertificatesKnowNothingOfTheBroker(t *testing.T) {
	for _, p := range load(t) {
		if from := ours(p.ImportPath); !within(from, "broker/certificate") {
			continue
		}
		for _, imp := range p.Imports {
			if to := ours(imp); to != "" && !within(to, "pki", "taskcatalog") {
				t.Errorf("%s imports %s", ours(p.ImportPath), to)
			}
		}
	}
}

func TestEachDependencyHasOneImporter(t *testing.T) {
	for _, p := range load(t) {
		from := ours(p.ImportPath)
		for _, imp := range p.Imports {
			for _, rule := range only {
				if within(imp, rule.dependency) && !within(from, rule.owner, "test") {
					t.Errorf("%s imports %s: only %s and test may", from, imp, rule.owner)
				}
			}
		}
	}
}
