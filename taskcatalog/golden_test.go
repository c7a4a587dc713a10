package taskcatalog

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the goldens anew: read their diff")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test ./taskcatalog -update, and read the diff):\n%s", file, got)
	}
}

func TestTheCatalogIsWhatWasAgreed(t *testing.T) {
	var b strings.Builder
	for _, c := range All() {
		fmt.Fprintf(&b, "%-28s %-11s %-10s %-6s needs=%v broker fills=%v by broker=%q example=%s\n", c.ID(), c.Class, c.Lane, c.Deadline, c.Capabilities, c.BrokerFills, c.ByBroker, c.Example)
	}
	golden(t, "catalog.golden", []byte(b.String()))
}

func TestTheTableOfChecksIsWhatWasAgreed(t *testing.T) {
	var b strings.Builder
	seen := map[string]bool{}
	for _, c := range Checks() {
		fmt.Fprintf(&b, "%-18s %-14s %-24s %s\n", c.Name, c.Treatment, c.CleanedBy, c.Covers)
		if seen[c.Name] {
			t.Errorf("two rows are called %s", c.Name)
		}
		seen[c.Name] = true
		if (c.Treatment == Cleaned) != (c.CleanedBy != "") {
			t.Errorf("%s is %s by %q", c.Name, c.Treatment, c.CleanedBy)
		}
		if c.CleanedBy != "" {
			if _, err := Latest(c.CleanedBy); err != nil {
				t.Errorf("%s is cleaned by no type: %v", c.Name, err)
			}
		}
	}
	golden(t, "checks.golden", []byte(b.String()))
}

func TestSchemasAreWhatWasAgreed(t *testing.T) {
	for _, c := range All() {
		for kind, schema := range map[string]*Schema{"params": c.ParamsSchema(), "result": c.ResultSchema()} {
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, schema.Text(), "", "  "); err != nil {
				t.Fatal(err)
			}
			pretty.WriteByte('\n')
			golden(t, filepath.Join("schemas", c.ID()+"."+kind+".json"), pretty.Bytes())
		}
	}
}

func TestEveryExampleIsTaken(t *testing.T) {
	for _, c := range All() {
		if _, err := c.DecodeParams(json.RawMessage(c.Example)); err != nil {
			t.Errorf("%s: %v", c.ID(), err)
		}
	}
}

func TestWhatTheBrokerFillsIsAFieldOfTheParams(t *testing.T) {
	for _, c := range All() {
		for _, name := range c.BrokerFills {
			found := false
			for i := range c.params.NumField() {
				tag, _, _ := strings.Cut(c.params.Field(i).Tag.Get("json"), ",")
				found = found || tag == name
			}
			if !found {
				t.Errorf("%s has no param %s", c.ID(), name)
			}
		}
	}
}

// What one side encodes the other side's schema takes, also where every list
// is empty.
func TestAnEmptyResultFitsItsSchema(t *testing.T) {
	for _, c := range All() {
		raw, err := Encode(reflect.New(c.result).Interface())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.DecodeResult(raw); err != nil {
			t.Errorf("%s: %s: %v", c.ID(), raw, err)
		}
	}
}

func TestATypeThatIsNotThereIsNamedApartFromAVersion(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int
		want    Code
	}{
		{"node.drain", 1, ""},
		{"node.drain", 2, CodeUnknownVersion},
		{"node.drain", 0, CodeUnknownVersion},
		{"node.reboot", 1, CodeUnknownType},
		{"node.drain@1", 1, CodeUnknownType},
		{"\x1b[2J", 1, CodeUnknownType},
	} {
		_, err := Lookup(c.name, c.version)
		if got := CodeOf(err, ""); got != c.want {
			t.Errorf("%q %d: %q, want %q", c.name, c.version, got, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q stands in the message as it is", c.name)
		}
	}
}

func TestParamsThatBreakTheSchemaAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ id, params string }{
		"no scope":               {"node.storage_cleanup", `{}`},
		"a scope of its own":     {"node.storage_cleanup", `{"scope":"everything"}`},
		"an allocation's path":   {"node.storage_cleanup", `{"scope":"local","allocation_id":"../x"}`},
		"a user called root:0":   {"allocation.provision_user", `{"allocation_id":"a-1","username":"root:0","ssh_keys":["k"]}`},
		"a user with a newline":  {"allocation.provision_user", `{"allocation_id":"a-1","username":"a\nb","ssh_keys":["k"]}`},
		"no key":                 {"allocation.provision_user", `{"allocation_id":"a-1","username":"a","ssh_keys":[]}`},
		"a name one too long":    {"allocation.provision_user", `{"allocation_id":"a-1","username":"` + strings.Repeat("a", 32) + `","ssh_keys":["k"]}`},
		"a grace of a day":       {"node.drain", `{"grace_seconds":86400}`},
		"a grace below nothing":  {"node.drain", `{"grace_seconds":-1}`},
		"a grace that is a text": {"node.drain", `{"grace_seconds":"1"}`},
		"an unknown param":       {"node.drain", `{"force":true}`},
		"a param in wrong case":  {"node.drain", `{"Resume":true}`},
		"a param twice":          {"node.drain", `{"resume":true,"resume":false}`},
		"null":                   {"node.drain", `null`},
		"a list":                 {"node.drain", `[]`},
		"two values":             {"node.drain", `{}{}`},
		"nothing":                {"node.drain", ``},
	} {
		typ, err := Lookup(c.id, 1)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := typ.DecodeParams(json.RawMessage(c.params)); CodeOf(err, "") != CodeBadParams {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}
