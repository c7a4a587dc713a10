package reconcile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/reconcile"
)

// The page for operators shows the table of the code.
func TestThePageHasTheRules(t *testing.T) {
	const page, begin, end = "../../docs/how-to/reconcile.md", "<!-- rules -->\n", "<!-- /rules -->\n"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	has, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the rules", page)
	}
	var want strings.Builder
	want.WriteString("| rule | MAAS says | the node is | severity | in mode act | alert | |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range reconcile.Rules {
		nodes := []string{}
		for _, s := range r.Nodes {
			nodes = append(nodes, string(s))
		}
		mode := ""
		if r.Default == reconcile.Off {
			mode = " (off on a new site)"
		}
		fmt.Fprintf(&want, "| `%s`%s | %s | %s | %s | %s | %s | %s |\n", r.ID, mode, r.MAAS, orDash(strings.Join(nodes, ", ")), orDash(string(r.Severity)), r.Action, r.Alert, r.Text)
	}
	if has == want.String() {
		return
	}
	if !*update {
		t.Errorf("the rules in %s are not those of the code (go test ./broker/reconcile -update, and read the diff)", page)
		return
	}
	if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
