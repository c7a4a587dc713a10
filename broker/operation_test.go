package broker

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wholeOperations renders every pair of statuses with its owners.
func wholeOperations() string {
	var b strings.Builder
	for _, from := range OperationStatuses {
		for _, to := range OperationStatuses {
			may := "refused"
			for _, by := range OperationOwners {
				if TransitionOperation(Operation{ID: "op-1", Status: from, Attempt: 1, Code: "step_failed"}, to, by) == nil {
					may = string(by)
				}
			}
			fmt.Fprintf(&b, "%-9s -> %-9s %s\n", from, to, may)
		}
	}
	return b.String()
}

func TestTheWholeTableOfOperationsIsAsAgreed(t *testing.T) {
	const golden = "testdata/operationtransitions.golden"
	got := wholeOperations()
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

func TestThePageHasTheTransitionsOfOperations(t *testing.T) {
	var want strings.Builder
	want.WriteString("| from | to | by |\n| --- | --- | --- |\n")
	for _, from := range OperationStatuses {
		for _, to := range OperationStatuses {
			if by := operationTransitions[operationEdge{from, to}]; by != "" {
				fmt.Fprintf(&want, "| `%s` | `%s` | %s |\n", from, to, by)
			}
		}
	}
	onStatesPage(t, "operation transitions", want.String())
}

func TestARefusedTransitionOfAnOperationSaysWhy(t *testing.T) {
	for _, c := range []struct {
		o          Operation
		to         OperationStatus
		by         OperationOwner
		code, says string
	}{
		{Operation{Status: OperationSucceeded}, OperationQueued, OperationRequester, "transition_refused", "there is no such transition"},
		{Operation{Status: OperationFailed}, OperationQueued, OperationWorker, "transition_refused", "worker does not own that transition"},
		{Operation{Status: OperationRunning}, OperationFailed, OperationWorker, "failure_code_missing", "the code of the failure is missing"},
		{Operation{Status: OperationFailed, Attempt: MostOperationAttempts}, OperationQueued, OperationRequester, "operation_attempts", "it was tried 100 times"},
	} {
		err := TransitionOperation(c.o, c.to, c.by)
		if e := AsError(err); err == nil || e.Kind != Refused || e.Code != c.code || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s to %s by %s: %v, want %s %q", c.o.Status, c.to, c.by, err, c.code, c.says)
		}
	}
}

// Whatever the owners ask for, an operation that succeeded stays as it is, and only its requester begins it again.
func TestNoWalkBreaksTheStateMachineOfOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Operation{ID: "op-1", Status: OperationQueued, Attempt: 1, Code: "step_failed"}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			to, by := rapid.SampledFrom(OperationStatuses).Draw(t, "to"), rapid.SampledFrom(OperationOwners).Draw(t, "by")
			if TransitionOperation(o, to, by) != nil {
				continue
			}
			if o.Status == OperationSucceeded || o.Status.Ended() != (by == OperationRequester) || to == o.Status {
				t.Fatalf("%s moved %s to %s", by, o.Status, to)
			}
			o.Status = to
		}
	})
}

func TestAFailureIsToldToTheTenantWithoutNodes(t *testing.T) {
	o := Operation{ID: "op-1", Message: "node n-17 is silent", Status: OperationFailed}
	for code, says := range map[string]string{OperationTargetGone: "begin a new operation", "agent_silent": "not known", "step_failed": "retry it"} {
		o.Code = code
		if told := o.Failure(); !strings.Contains(told, says) || strings.Contains(told, "n-17") {
			t.Errorf("%s: %q", code, told)
		}
	}
	o.Status, o.Code = OperationCanceled, OperationTargetGone
	if told := o.Failure(); !strings.Contains(told, "was released") || strings.Contains(told, "n-17") {
		t.Errorf("ended by a release: %q", told)
	}
	if o.Code = "canceled"; o.Failure() != "" {
		t.Error("a person's cancel is a failure")
	}
	if o.Status = OperationSucceeded; o.Failure() != "" {
		t.Error("a success has a failure")
	}
}
