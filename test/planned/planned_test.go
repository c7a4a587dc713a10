package planned

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	agentplan "github.com/hostler/hostler/agent/plan"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/plan"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/operations"
)

// inputs are of the definitions that ship. A definition without required inputs needs none here.
var inputs = map[string]string{
	"gpu.host.bootstrap@v1":   `{"packages":["nvidia-driver=550.54.15-1","cuda-toolkit-12-4=12.4.1-1"]}`,
	"model.artifact.stage@v1": `{"bucket":"models/public","source":"models/public/w.bin","digest":"sha256:` + strings.Repeat("a", 64) + `","name":"a/w.bin"}`,
	"ray.node.bootstrap@v1": `{"packages":["python3-venv=3.11.2-1"],"bucket":"python-locks","lock":"python-locks/ray.txt","cluster":"train","labels":["zone=a"],` +
		`"lock_digest":"sha256:` + strings.Repeat("a", 64) + `"}`,
	"ray.node.leave@v1":       `{"cluster":"train"}`,
	"slurm.node.bootstrap@v1": `{"packages":["slurmd=24.11.5-4"],"cluster":"lab","labels":["gpu"]}`,
	"slurm.node.leave@v1":     `{"cluster":"lab"}`,
}

// withCode has code for each kind of the table: which kinds an agent has is not the matter here.
func withCode(name string) (steps.Kind, bool) {
	if k, ok := steps.Lookup(name); ok {
		return k, true
	}
	_, ok := taskcatalog.StepKindOf(name)
	return steps.Kind{}, ok
}

func TestANodeTakesThePlansThatABrokerMakes(t *testing.T) {
	names, err := fs.Glob(operations.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	typ, err := taskcatalog.Lookup("operation.run", 1)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, name := range names {
		text, err := operations.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d, problems := definition.Parse(profiles.File{Name: name, Text: text})
		if problems != nil {
			t.Fatal(problems)
		}
		given, known := inputs[d.ID()]
		if !known && len(d.Inputs.Required) > 0 {
			t.Logf("%s needs inputs: they are not in this test", d.ID())
			continue
		}
		made, err := plan.Make(d, plan.Request{OperationID: "op-1", Attempt: 1, Inputs: json.RawMessage(given)})
		if err != nil {
			t.Errorf("%s: %v", d.ID(), err)
			continue
		}
		raw, err := taskcatalog.Encode(made)
		if err != nil {
			t.Fatal(err)
		}
		params, err := typ.DecodeParams(raw) // as it comes to the node
		if err != nil {
			t.Errorf("%s: %v", d.ID(), err)
			continue
		}
		if err := agentplan.Check(params.(*taskcatalog.OperationPlan), withCode); err != nil {
			t.Errorf("%s: %v", d.ID(), err)
		}
		taken++
	}
	if taken < 7 {
		t.Errorf("only %d plans", taken)
	}
}
