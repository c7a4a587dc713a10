package steps

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// notes is a checkpoint in memory.
type notes struct{ state []byte }

func (n *notes) Load() ([]byte, error) { return n.state, nil }

func (n *notes) Save(state []byte) error { n.state = state; return nil }

// aStep is a step with bound arguments, as package plan gives it to a kind.
func aStep(t *testing.T, h *host.Host, kind string, args Args) *Step {
	t.Helper()
	return &Step{
		PlannedStep: taskcatalog.PlannedStep{ID: "one", Kind: kind, TimeoutSeconds: 60, Attempts: 1}, Host: h, Args: args, Checkpoint: &notes{},
		Plan:     &taskcatalog.OperationPlan{OperationID: "op-1", Attempt: 1},
		Progress: func(int, string) {},
	}
}

// do calls the code of a kind.
func do(t *testing.T, s *Step) (Proof, error) {
	t.Helper()
	k, ok := Lookup(s.Kind)
	if !ok {
		t.Fatalf("there is no code for %s", s.Kind)
	}
	return k.Do(t.Context(), s)
}

// look asks the code of a kind whether the step is done.
func look(t *testing.T, s *Step) bool {
	t.Helper()
	k, _ := Lookup(s.Kind)
	_, done, err := k.Look(context.WithoutCancel(t.Context()), s)
	if err != nil {
		t.Logf("%s: %v", s.Kind, err)
	}
	return done && err == nil
}

// planned reads a step of a plan from JSON.
func planned(t *testing.T, raw string) *taskcatalog.PlannedStep {
	t.Helper()
	s := &taskcatalog.PlannedStep{}
	if err := json.Unmarshal([]byte(raw), s); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

// Each kind is a row of the table of kinds, and what a row says of the output is so.
func TestEachKindIsInTheTable(t *testing.T) {
	for name, k := range kinds {
		if _, ok := taskcatalog.StepKindOf(name); !ok || k.Do == nil {
			t.Errorf("%s is no kind", name)
		}
	}
}
