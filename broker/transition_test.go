package broker

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// whole renders every pair of statuses with its owners, with and without an owed turnover.
func whole() string {
	var b strings.Builder
	for _, from := range NodeStatuses {
		for _, to := range NodeStatuses {
			var may, owed []string
			for _, by := range Owners {
				if Transition(Node{ID: "n-1", Status: from}, to, by) == nil {
					may = append(may, string(by))
				}
				if Transition(Node{ID: "n-1", Status: from, TurnoverOwed: true}, to, by) == nil {
					owed = append(owed, string(by))
				}
			}
			if len(may) == 0 {
				fmt.Fprintf(&b, "%-16s -> %-16s refused\n", from, to)
				continue
			}
			fmt.Fprintf(&b, "%-16s -> %-16s %s", from, to, strings.Join(may, " "))
			if len(owed) != len(may) {
				fmt.Fprintf(&b, "; while a turnover is owed: %s", strings.Join(append(owed, "nobody")[:max(1, len(owed))], " "))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// The documentation page shows the same table as the code.
func TestThePageHasTheTransitions(t *testing.T) {
	var want strings.Builder
	want.WriteString("| from | to | by |\n| --- | --- | --- |\n")
	for _, from := range NodeStatuses {
		for _, to := range NodeStatuses {
			if by := transitions[edge{from, to}]; len(by) > 0 {
				fmt.Fprintf(&want, "| `%s` | `%s` | %s |\n", from, to, strings.ReplaceAll(strings.Trim(fmt.Sprint(by), "[]"), " ", ", "))
			}
		}
	}
	onStatesPage(t, "transitions", want.String())
}

// onStatesPage checks that the page of states has a text between the marks of a part.
func onStatesPage(t *testing.T, part, want string) {
	t.Helper()
	const page = "../docs/reference/states.md"
	begin, end := "<!-- "+part+" -->\n", "<!-- /"+part+" -->\n"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	has, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the %s", page, part)
	}
	if has == want {
		return
	}
	if !*update {
		t.Fatalf("the %s in %s are not those of the code (go test ./broker -update, and read the diff)", part, page)
	}
	if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheWholeTransitionTableIsAsAgreed(t *testing.T) {
	const golden = "testdata/transitions.golden"
	got := whole()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
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

// A node on a random walk through every successful action keeps the promises that do not depend
// on its path.
func TestNoWalkBreaksTheNodeStateMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Node{ID: "n-1", Status: BootstrapIssued}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "owe") && n.Status == Draining {
				n.TurnoverOwed = true
			}
			to := rapid.SampledFrom(NodeStatuses).Draw(t, "to")
			by := rapid.SampledFrom(Owners).Draw(t, "by")
			if Transition(n, to, by) != nil {
				continue
			}
			switch {
			case n.Status == Deleted:
				t.Fatalf("a deleted node moved to %s", to)
			case n.Status == to:
				t.Fatalf("staying %s was called a transition", to)
			case to == BootstrapIssued:
				t.Fatalf("%s led back to the beginning", n.Status)
			case to == Active && n.TurnoverOwed && by != OwnerOverride:
				t.Fatalf("%s made a node active that owes a turnover", by)
			case by == OwnerHeartbeat && !(n.Status == Active && to == Offline || n.Status == Offline && to == Active):
				t.Fatalf("a heartbeat moved %s to %s", n.Status, to)
			}
			n.Status = to
		}
	})
}

func TestARefusalNamesNodeStatusesAndTheWayOut(t *testing.T) {
	for _, c := range []struct {
		node Node
		to   NodeStatus
		by   Owner
		code string
		says string
	}{
		{Node{ID: "n-7", Status: Deleted}, Active, OwnerOperator, "transition_refused", "cannot move node n-7 from deleted to active"},
		{Node{ID: "n-7", Status: Active}, Quarantined, OwnerHeartbeat, "transition_refused", "heartbeat does not own"},
		{Node{ID: "n-7", Status: Quarantined, TurnoverOwed: true}, Active, OwnerOperator, "turnover_owed", "hostler node activate n-7 --override"},
		{Node{ID: "n-7", Status: Retired, TurnoverOwed: true}, Active, OwnerTurnover, "turnover_owed", "a turnover is owed"},
	} {
		err := AsError(Transition(c.node, c.to, c.by))
		if err.Kind != Refused || err.Code != c.code || !strings.Contains(err.Message, c.says) {
			t.Errorf("%s to %s by %s: got %d %s %q", c.node.Status, c.to, c.by, err.Kind, err.Code, err.Message)
		}
	}
}
