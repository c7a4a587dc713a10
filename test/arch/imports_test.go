package arch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hostler/hostler"

type pkg struct {
	ImportPath string
	Imports    []string
}

// ours returns the import path below the module, or "" for a foreign package.
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
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"/...")
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // as the agent is built
	out, err := list.Output()
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

// allowed lists, per part, the repository's packages that the part may import.
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

// only lists, per dependency, the packages that may import it: a single package, or one on each
// side.
var only = []struct {
	dependency string
	owners     []string
}{
	{"modernc.org/sqlite", []string{"broker/store"}},
	{"github.com/jackc/pgx", []string{"broker/store"}},
	{"github.com/pressly/goose", []string{"broker/store"}},
	{"go.etcd.io/bbolt", []string{"agent/ledger"}},
	{"filippo.io/age", []string{"broker/secrets"}},
	{"github.com/NVIDIA/go-nvml", []string{"agent/gpu"}},
	{"github.com/ebitengine/purego", []string{"agent/gpu"}},
	{"github.com/coreos/go-oidc", []string{"broker/operators/oidc"}},
	{"github.com/go-jose/go-jose", []string{"broker/operators/oidc", "test/oidcprovider"}},
	{"golang.org/x/oauth2", []string{"broker/cmd/hostler/signin"}},
	{"github.com/zitadel/oidc", []string{"test/oidcprovider"}},
	{"github.com/canonical/gomaasclient", []string{"broker/maas"}},
	{"github.com/pkg/sftp", []string{"broker/sshseed"}},
	{"github.com/creack/pty", []string{"agent/terminal"}},
	{"github.com/cilium/ebpf", []string{"agent/machine"}},
	{"github.com/moby/sys/mountinfo", []string{"agent/machine"}},
	{"github.com/godbus/dbus", []string{"agent/systemd"}},
	{"github.com/danielgtaylor/huma", []string{"broker/adminapi"}},
	{"github.com/cloudevents/sdk-go", []string{"broker/outbox"}},
	{"github.com/nats-io/nats.go", []string{"broker/outbox/nats"}},
	{"github.com/google/cel-go", []string{"broker/operation/condition"}},
	{"github.com/stmcginnis/gofish", []string{"broker/redfish"}},
	{"github.com/aws/aws-sdk-go-v2", []string{"broker/artifactsource"}},
	{"github.com/coder/websocket", []string{"broker/adminapi", "broker/api/client"}},
	{"github.com/quic-go/quic-go", []string{"agent/terminal", "broker/relay"}},
	{"github.com/sigstore", []string{"broker/signature"}},
	{"oras.land/oras-go", []string{"agent/registry", "broker/cmd/hostler/artifact"}},
	{"github.com/spf13/cobra", []string{"agent/cmd/hostler-agent", "broker/cmd"}},
	{"github.com/prometheus/client_golang", []string{"broker/server"}},
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

// A terminal is separate from the execution of tasks: the terminal could be its own program.
func TestATerminalKnowsNothingOfTasks(t *testing.T) {
	for _, p := range load(t) {
		from := ours(p.ImportPath)
		if !within(from, "agent/terminal") || strings.HasSuffix(from, "test") {
			continue
		}
		may := []string{"agent/terminal", "agent/machine", "taskcatalog/wire/frame", "taskcatalog/lazyregexp"}
		if from == "agent/terminal/process" { // the data that a session's process shows the relay
			may = append(may, "agent/identity", "pki")
		}
		for _, imp := range p.Imports {
			if to := ours(imp); to != "" && !within(to, may...) && to != "taskcatalog" {
				t.Errorf("%s imports %s", from, to)
			}
		}
	}
}

// features are the packages of work that an operator starts. Each feature consists of lists of
// stages behind a port of its own, so that a simulation of a feature needs no database. The package
// records below the feature joins the port to the store and the task queue.
var features = []string{"broker/maas", "broker/onboarding", "broker/turnover", "broker/agentlifecycle", "broker/rollout", "broker/redfish", "broker/ipmi"}

func TestFeaturesImportNoStore(t *testing.T) {
	for _, p := range load(t) {
		from := ours(p.ImportPath)
		for _, imp := range p.Imports {
			if to := ours(imp); within(from, features...) && path.Base(from) != "records" && within(to, "broker/store", "broker/taskqueue", "broker/server", "broker/adminapi") {
				t.Errorf("%s imports %s", from, to)
			}
		}
	}
}

// The MAAS client knows the domain's words and nothing of runs.
func TestMAASIsSpokenToWithoutRuns(t *testing.T) {
	for _, p := range load(t) {
		if ours(p.ImportPath) != "broker/maas" {
			continue
		}
		for _, imp := range p.Imports {
			if to := ours(imp); within(to, "broker") && to != "broker" {
				t.Errorf("broker/maas imports %s", to)
			}
		}
	}
}

// The store knows the domain's words, the rows of runs and the blocks of recordings. Its SQL kit is
// below it.
func TestTheStoreImportsNoFeature(t *testing.T) {
	for _, p := range load(t) {
		if ours(p.ImportPath) != "broker/store" {
			continue
		}
		for _, imp := range p.Imports {
			if to := ours(imp); within(to, "broker") && to != "broker" && to != "broker/chain" && to != "broker/recording" && to != "broker/store/sqlkit" {
				t.Errorf("broker/store imports %s", to)
			}
		}
	}
}

// Only the store makes statements, and the kit for them knows none of Hostler's nouns.
func TestTheSQLKitIsTheStoresAlone(t *testing.T) {
	seen := false
	for _, p := range load(t) {
		from := ours(p.ImportPath)
		for _, imp := range p.Imports {
			to := ours(imp)
			seen = seen || to == "broker/store/sqlkit"
			if to == "broker/store/sqlkit" && from != "broker/store" {
				t.Errorf("%s imports %s: only broker/store may", from, to)
			}
			if from == "broker/store/sqlkit" && to != "" {
				t.Errorf("%s imports %s: the kit knows nothing of ours", from, to)
			}
		}
	}
	if !seen {
		t.Error("nothing imports broker/store/sqlkit: its rule is out of date")
	}
}

// A third party's program and a page in a browser import the shapes of the API, the domain's words
// (a policy is declared there, once), and no other package of the broker.
func TestTheAPIsShapesImportOnlyTheWordsOfTheBroker(t *testing.T) {
	for _, p := range load(t) {
		if ours(p.ImportPath) != "broker/api" {
			continue
		}
		for _, imp := range p.Imports {
			if to := ours(imp); within(to, "broker", "pki") && to != "broker" {
				t.Errorf("broker/api imports %s", to)
			}
		}
	}
}

// The server serves the operators' API, and every other program calls the API over HTTP: an
// operator's program opens no database.
func TestOnlyTheServerImportsTheAPI(t *testing.T) {
	for _, p := range load(t) {
		from := ours(p.ImportPath)
		for _, imp := range p.Imports {
			to := ours(imp)
			if to == "broker/adminapi" && from != "broker/server" {
				t.Errorf("%s imports %s", from, to)
			}
			if within(from, "broker/cmd/hostler") && within(to, "broker/store") {
				t.Errorf("%s imports %s", from, to)
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

// The engine of chains knows neither nodes nor MAAS: the chains supply both.
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

// A reader who verifies certificates need not read the broker: the whole check is in this package
// and in the packages that both sides share.
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

// go-retry is in go.mod for goose alone. Our own retries use cenkalti/backoff.
func TestRetriesAreOfOneLibrary(t *testing.T) {
	for _, p := range load(t) {
		for _, imp := range p.Imports {
			if within(imp, "github.com/sethvargo/go-retry") {
				t.Errorf("%s imports %s: use github.com/cenkalti/backoff", ours(p.ImportPath), imp)
			}
		}
	}
}

func TestEachDependencyHasOneImporter(t *testing.T) {
	imported := map[string]bool{}
	for _, p := range load(t) {
		from := ours(p.ImportPath)
		for _, imp := range p.Imports {
			for _, rule := range only {
				if !within(imp, rule.dependency) {
					continue
				}
				imported[rule.dependency] = true
				if !within(from, rule.owners...) && !within(from, "test") && !strings.HasSuffix(from, "test") {
					t.Errorf("%s imports %s: only %v and tests may", from, imp, rule.owners)
				}
			}
		}
	}
	for _, rule := range only {
		if !imported[rule.dependency] {
			t.Errorf("nothing imports %s: its rule is out of date", rule.dependency)
		}
	}
}
