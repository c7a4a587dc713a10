package plan

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/taskcatalog"
)

// Whatever the inputs are: a plan has only values of the form of their arguments, each of them whole from
// the definition or from one input, and sources of both lists.
func FuzzMake(f *testing.F) {
	f.Add(inputs, "s3:models/public")
	f.Add(strings.TrimSuffix(inputs, "}")+`,"host":"node","quiet":true,"labels":["a","b"],"ports":8}`, "s3:models")
	f.Add(strings.Replace(inputs, "8080", "9007199254740992", 1), "s3:models/public/w.bin")
	f.Add(strings.Replace(inputs, "llama/w.bin", "a//b", 1), "")
	f.Add(`{"port":{"from":"steps.pull"}}`, "gcs:models")
	d := demo(f)
	f.Fuzz(func(t *testing.T, text, permitted string) {
		p, err := Make(d, Request{OperationID: "op-1", Attempt: 1, Inputs: json.RawMessage(text), Limits: Limits{Sources: []string{permitted}, DeadlineSeconds: 30}})
		if err != nil {
			return
		}
		var given map[string]any
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			t.Fatalf("%s has a plan: %v", text, err)
		}
		raw, err := taskcatalog.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		var onNode taskcatalog.OperationPlan // what a node reads
		if err := taskcatalog.DecodeStrict(raw, &onNode); err != nil {
			t.Fatal(err)
		}
		if len(onNode.Steps) != len(d.Steps) || onNode.DeadlineSeconds != 30 {
			t.Errorf("%s", raw)
		}
		for i, s := range onNode.Steps {
			kind, _ := taskcatalog.StepKindOf(s.Kind)
			for name, v := range s.With {
				a, known := kind.Arg(name)
				if !known {
					t.Errorf("step %s has %s", s.ID, name)
				}
				fits(t, a, d.Steps[i].With[name], v, given)
			}
			scheme, argument := definition.Scheme(s.Kind, s.With)
			if scheme == "" {
				continue
			}
			source, _ := s.With[argument].Literal.(string)
			listed := func(l string) bool { return definition.Listed(l, scheme, source) }
			if !slices.ContainsFunc(d.Artifacts.Sources, listed) || !listed(permitted) || !slices.ContainsFunc(onNode.Artifacts.Sources, listed) {
				t.Errorf("step %s brings %q", s.ID, source)
			}
		}
	})
}

// fits holds a planned value against the form of its argument and against where it came from.
func fits(t *testing.T, a taskcatalog.StepArg, from, v taskcatalog.StepValue, given map[string]any) {
	t.Helper()
	if v.Table != nil {
		for name, cell := range v.Table {
			if what := taskcatalog.CellFault(cell.Literal); cell.From == "" && what != "" {
				t.Errorf("%s.%s %s: %#v", a.Name, name, what, cell)
			}
			whole(t, from.Table[name], cell, given)
		}
		return
	}
	if what := taskcatalog.FormFault(a, v); v.From == "" && what != "" {
		t.Errorf("%s %s: %#v", a.Name, what, v)
	}
	whole(t, from, v, given)
}

func whole(t *testing.T, from, v taskcatalog.StepValue, given map[string]any) {
	t.Helper()
	name, input := strings.CutPrefix(from.From, "inputs.")
	if !input {
		if !reflect.DeepEqual(from, v) {
			t.Errorf("the definition says %#v, the plan %#v", from, v)
		}
		return
	}
	want, err := json.Marshal(given[name])
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(v.Literal)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal(want, &a) != nil || json.Unmarshal(got, &b) != nil || v.From != "" || !reflect.DeepEqual(a, b) {
		t.Errorf("input %s is %s, the plan has %s", name, want, got)
	}
}
