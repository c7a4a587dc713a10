package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// fromSteps begins the place of a value that an earlier step gives.
const fromSteps = "steps."

// digestOf stands for a step with the values of its arguments. A secret counts as the step that mints
// it: its value differs in every task.
func (o *Operation) digestOf(s *taskcatalog.PlannedStep) (string, error) {
	with := map[string]any{}
	for name, v := range s.With {
		with[name] = o.value(v)
		if id, ok := o.secretOf(v); ok {
			with[name] = map[string]string{"secret_of": o.digests[id]}
		}
	}
	raw, err := taskcatalog.Encode(struct {
		Kind    string          `json:"kind"`
		With    map[string]any  `json:"with"`
		Command json.RawMessage `json:"command,omitempty"`
	}{s.Kind, with, s.Command})
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

// value returns a literal, a table, or the output of an earlier step.
func (o *Operation) value(v taskcatalog.StepValue) any {
	switch {
	case v.From != "":
		return o.outputs[strings.TrimPrefix(v.From, fromSteps)]
	case v.Table != nil:
		table := map[string]any{}
		for name, cell := range v.Table {
			table[name] = o.value(cell)
		}
		return table
	}
	return v.Literal
}

// secretOf returns the step that mints a value.
func (o *Operation) secretOf(v taskcatalog.StepValue) (id string, ok bool) {
	id, ok = strings.CutPrefix(v.From, fromSteps)
	if !ok {
		return "", false
	}
	i := slices.IndexFunc(o.Plan.Steps, func(s taskcatalog.PlannedStep) bool { return s.ID == id })
	kind, _ := taskcatalog.StepKindOf(o.Plan.Steps[i].Kind)
	return id, kind.Output == taskcatalog.StepSecret
}

// public returns the arguments of a step without its secrets.
func (o *Operation) public(s *taskcatalog.PlannedStep) steps.Args {
	args := steps.Args{}
	for name, v := range s.With {
		if _, secret := o.secretOf(v); !secret {
			args[name] = o.value(v)
		}
	}
	return args
}

// minted reports whether this process has all secrets of a step.
func (o *Operation) minted(s *taskcatalog.PlannedStep) bool {
	for _, v := range s.With {
		if id, secret := o.secretOf(v); secret && o.secrets[id] == nil {
			return false
		}
	}
	return true
}

// bind returns the arguments of a step that is to run. A secret that a former process held is minted
// again.
func (o *Operation) bind(ctx context.Context, s *taskcatalog.PlannedStep) (steps.Args, error) {
	args := steps.Args{}
	for _, name := range slices.Sorted(maps.Keys(s.With)) {
		v := s.With[name]
		id, secret := o.secretOf(v)
		if !secret {
			args[name] = o.value(v)
			continue
		}
		if o.secrets[id] == nil {
			i := slices.IndexFunc(o.Plan.Steps, func(s taskcatalog.PlannedStep) bool { return s.ID == id })
			if err := o.carryOut(ctx, i); err != nil {
				return nil, err
			}
		}
		args[name] = o.secrets[id]
	}
	return args, nil
}
