package broker

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The handling of a failure is a contract with operators and their runbooks.
func TestFailureClassesLeadWhereTheTableSays(t *testing.T) {
	var b strings.Builder
	seen := map[FailureClass]bool{}
	for _, h := range FailureHandlings {
		if seen[h.Class] || h.Mend == "" {
			t.Errorf("%s stands twice, or without a next action", h.Class)
		}
		seen[h.Class] = true
		way := []string{}
		for _, w := range []struct {
			is   bool
			word string
		}{{h.Retry, "retry"}, {h.Rescue, "rescue"}, {h.Person, "failed_manual_intervention"}, {!h.Person, "failed_retryable"}} {
			if w.is {
				way = append(way, w.word)
			}
		}
		fmt.Fprintf(&b, "%-32s %s\n\t%s\n", h.Class, strings.Join(way, ", "), h.NextAction())
	}
	if len(seen) != 11+9+6 {
		t.Errorf("%d classes, want the eleven of onboarding, the nine of a turnover, and six that the architecture lacks", len(seen))
	}
	const golden = "testdata/failures.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("the table differs from %s (go test ./broker -update, and read the diff): %v\n%s", golden, err, b.String())
	}
}
