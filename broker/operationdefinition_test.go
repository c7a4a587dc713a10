package broker

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func bootstrap(status OperationDefinitionStatus) OperationDefinition {
	return OperationDefinition{Operation: "gpu.host.bootstrap", Version: "v1", Status: status}
}

// wholeDefinitions renders every pair of statuses, and what each status permits.
func wholeDefinitions() string {
	var b strings.Builder
	for _, from := range OperationDefinitionStatuses {
		for _, to := range OperationDefinitionStatuses {
			verdict := "allowed"
			if err := TransitionOperationDefinition(bootstrap(from), to); err != nil {
				verdict = err.Error()
			}
			fmt.Fprintf(&b, "%-10s -> %-10s %s\n", from, to, verdict)
		}
	}
	for _, s := range OperationDefinitionStatuses {
		warning, err := bootstrap(s).MayRun()
		fmt.Fprintf(&b, "%-10s runs: %v; %s\n", s, err == nil, warning)
		fmt.Fprintf(&b, "%-10s new content: %v\n", s, bootstrap(s).MayReplace() == nil)
	}
	return b.String()
}

func TestTheWholeTableOfDefinitionsIsAsAgreed(t *testing.T) {
	const golden = "testdata/operationdefinitions.golden"
	got := wholeDefinitions()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the table differs from %s (go test ./broker -update, and read the diff):\n%s", golden, got)
	}
}

func TestThePageHasTheTransitionsOfDefinitions(t *testing.T) {
	var want strings.Builder
	want.WriteString("| from | to | by |\n| --- | --- | --- |\n")
	for _, from := range OperationDefinitionStatuses {
		for _, to := range OperationDefinitionStatuses {
			if command := definitionTransitions[definitionEdge{from, to}]; command != "" {
				fmt.Fprintf(&want, "| `%s` | `%s` | `hostler operation-definition %s` |\n", from, to, command)
			}
		}
	}
	onStatesPage(t, "definition transitions", want.String())
}

// Whatever is asked for, a definition goes one way: its content is open in a draft alone, and once it may
// not run any more, it never may again.
func TestNoWalkBreaksTheStateMachineOfDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, fixed, retired := bootstrap(DefinitionDraft), false, false
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			to := rapid.SampledFrom(OperationDefinitionStatuses).Draw(t, "to")
			if TransitionOperationDefinition(d, to) != nil {
				continue
			}
			if to == d.Status {
				t.Fatalf("staying %s was called a transition", to)
			}
			d.Status = to
			_, err := d.MayRun()
			fixed, retired = fixed || d.MayReplace() != nil, retired || err != nil
			if !fixed || d.MayReplace() == nil {
				t.Fatalf("the content is open in %s", to)
			}
			if retired && err == nil {
				t.Fatalf("%s runs again", to)
			}
		}
	})
}

// A status that this version does not know runs nothing and takes no content.
func TestADefinitionOfAnUnknownStatusRunsNothing(t *testing.T) {
	d := bootstrap("approved")
	if _, err := d.MayRun(); err == nil || d.MayReplace() == nil || TransitionOperationDefinition(d, DefinitionActive) == nil {
		t.Error("it runs, takes content, or becomes active")
	}
}
