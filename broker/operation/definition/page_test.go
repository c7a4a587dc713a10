package definition

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/manual"
)

var update = flag.Bool("update", false, "write the page of kinds anew")

// The page of the kinds of steps is the table, and the example on it is a definition that ships.
func TestThePageHasTheKinds(t *testing.T) {
	text, err := os.ReadFile("testdata/operations.head.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../../taskcatalog/operations/model.artifact.stage@v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString(strings.Replace(string(text), "EXAMPLE\n", string(example), 1))
	for _, k := range taskcatalog.StepKinds() {
		fmt.Fprintf(&want, "\n### `%s`\n\n%s.%s%s\n", k.Name, strings.ToUpper(k.Summary[:1])+k.Summary[1:], resolved(k), output(k))
		if len(k.Args) > 0 {
			want.WriteString("\n| argument | type | | what it is |\n| --- | --- | --- | --- |\n")
		}
		for _, a := range k.Args {
			fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", a.Name, a.Type, how(a), what(a))
		}
	}
	manual.Hold(t, "../../../docs/reference/operations.md", want.String(), *update, "go test ./broker/operation/definition -run TestThePageHasTheKinds -update")
}

// The definition that the manual walks through is one that a broker takes.
func TestTheManualWalksThroughAGoodDefinition(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/operation-definitions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(after, "```\n")
	if !found {
		t.Fatal("the page has no definition")
	}
	if _, problems := Parse(profiles.File{Name: "node.time.configure@v1.yaml", Text: []byte(text)}); problems != nil {
		t.Error(problems)
	}
}

func resolved(k taskcatalog.StepKind) string {
	if k.Resolved {
		return " The resolver profiles of the node say which program looks."
	}
	return ""
}

func output(k taskcatalog.StepKind) string {
	if k.Output != "" {
		return fmt.Sprintf(" Later steps can bind its %s.", k.Output)
	}
	return ""
}

func how(a taskcatalog.StepArg) string {
	var all []string
	if a.Required {
		all = append(all, "required")
	}
	if a.Fixed {
		all = append(all, "fixed")
	}
	return strings.Join(all, ", ")
}

func what(a taskcatalog.StepArg) string {
	if len(a.Values) > 0 {
		return a.Summary + ": `" + strings.Join(a.Values, "`, `") + "`"
	}
	return a.Summary
}
