package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of refusals.
const (
	CodeInputs       = "operation_inputs"       // the inputs break the definition's schema
	CodeInputForm    = "operation_input_form"   // an input does not have the form of the argument that takes it
	CodeSource       = "source_not_listed"      // the definition does not list the source
	CodeSourceDenied = "source_denied"          // the policy does not permit the source
	CodeUnsigned     = "signature_unverifiable" // a signature is required, and none of the kind is verified
	CodeBackend      = "backend_unsupported"    // no agent carries the operation out
	CodeTooLarge     = "plan_too_large"
	CodeInvalid      = "plan_invalid" // the plan breaks the schema of the task
)

// maxPlan bounds a plan in bytes of JSON. A node reads its tasks in answers of 1 MiB, and a signed
// task is a third larger than its params.
const maxPlan = 256 << 10

// Request is one wish for an operation.
type Request struct {
	OperationID  string
	Attempt      int
	ProjectID    string // empty: no tenant's operation
	AllocationID string
	GPUs         int             // of the nodes' SKU; 0: not known
	Inputs       json.RawMessage // empty: none
	Limits       Limits
}

// Limits are the bounds that the policy sets. The zero value sets none.
type Limits struct {
	DeadlineSeconds  int
	MaxArtifactBytes int64
	// Sources permits kinds of sources with prefixes, as a definition lists them; nil: all that the
	// definition lists. An empty list permits none.
	Sources []string
	// SignaturesBy names the policy that requires signatures of artifacts; empty: none does.
	SignaturesBy string
}

// Make makes the plan of an operation.
func Make(d *definition.Definition, r Request) (taskcatalog.OperationPlan, error) {
	if d.Backend != definition.BackendNodeAgent {
		return taskcatalog.OperationPlan{}, broker.Errorf(broker.Refused, CodeBackend,
			"cannot plan %s: %s carries it out, and this release only has operations of node agents", d.ID(), d.Backend)
	}
	m := maker{d: d, limits: r.Limits}
	digest, err := m.read(r.Inputs)
	if err != nil {
		return taskcatalog.OperationPlan{}, err
	}
	p := taskcatalog.OperationPlan{
		OperationID: r.OperationID, Attempt: r.Attempt, Operation: d.ID(), ProjectID: r.ProjectID, AllocationID: r.AllocationID,
		DefinitionDigest: d.Digest(), InputsDigest: digest,
		DeadlineSeconds: int(least(int64(d.DeadlineSeconds), int64(r.Limits.DeadlineSeconds))), Requires: d.Requires, GPUs: r.GPUs,
	}
	for _, s := range d.Steps {
		step, err := m.step(s, p.DeadlineSeconds)
		if err != nil {
			return taskcatalog.OperationPlan{}, err
		}
		p.Steps = append(p.Steps, step)
	}
	if len(m.sources) > 0 {
		p.Artifacts = &taskcatalog.PlanArtifacts{
			Sources: slices.Sorted(maps.Keys(m.sources)), MaxBytes: least(d.Artifacts.MaxBytes, r.Limits.MaxArtifactBytes),
			Signed: m.signedBy() != "",
		}
	}
	return p, m.check(p)
}

// WithSignatures adds the verified signatures of a plan's artifacts. Code: plan_too_large.
func WithSignatures(
	d *definition.Definition, p taskcatalog.OperationPlan, all []taskcatalog.ArtifactSignature,
) (taskcatalog.OperationPlan, error) {
	p.Signatures = all
	return p, (&maker{d: d}).check(p)
}

// least is a definition's bound, or the policy's where that is lower; limit 0: the policy sets none.
func least(bound, limit int64) int64 {
	if limit > 0 {
		return min(bound, limit)
	}
	return bound
}

// maker makes one plan.
type maker struct {
	d       *definition.Definition
	limits  Limits
	inputs  map[string]taskcatalog.StepValue
	sources map[string]bool // what the steps use, of both lists
}

// read checks the inputs and returns the digest of their canonical JSON.
func (m *maker) read(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	err := m.d.CheckInputs(raw)
	if err == nil {
		err = taskcatalog.DecodeStrict(raw, &m.inputs)
	}
	if err != nil {
		return "", broker.Errorf(broker.Invalid, CodeInputs, "cannot plan %s: %v", m.d.ID(), err)
	}
	canonical, err := taskcatalog.Encode(m.inputs)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

func (m *maker) step(s definition.Step, deadline int) (taskcatalog.PlannedStep, error) {
	out := taskcatalog.PlannedStep{
		ID: s.ID, Kind: s.Kind, TimeoutSeconds: min(s.TimeoutSeconds, deadline), Attempts: max(s.Attempts, 1), Rerun: s.Rerun,
	}
	kind, _ := taskcatalog.StepKindOf(s.Kind)
	for _, name := range slices.Sorted(maps.Keys(s.With)) {
		a, _ := kind.Arg(name)
		bound, given, err := m.argument(s, a, s.With[name])
		if err != nil {
			return out, err
		}
		if !given {
			continue
		}
		if out.With == nil {
			out.With = map[string]taskcatalog.StepValue{}
		}
		out.With[name] = bound
	}
	if s.Kind == "command.exec_allowlisted" {
		if err := m.command(&out); err != nil {
			return out, err
		}
	}
	return out, m.source(kind, out)
}

// argument binds one argument. Given is false where the value is of an input that was left out.
func (m *maker) argument(
	s definition.Step, a taskcatalog.StepArg, v taskcatalog.StepValue,
) (bound taskcatalog.StepValue, given bool, err error) {
	if v.Table == nil {
		bound, given = m.bind(v)
		if !given || bound.From != "" {
			return bound, given, nil
		}
		if what := taskcatalog.FormFault(a, bound); what != "" {
			return bound, false, m.unfit(s, a.Name, v, what)
		}
		return bound, true, nil
	}
	bound.Table = map[string]taskcatalog.StepValue{}
	for _, name := range slices.Sorted(maps.Keys(v.Table)) {
		cell := v.Table[name]
		c, given := m.bind(cell)
		if !given {
			continue
		}
		if c.From == "" {
			if what := taskcatalog.CellFault(c.Literal); what != "" {
				return bound, false, m.unfit(s, a.Name+"."+name, cell, what)
			}
		}
		bound.Table[name] = c
	}
	return bound, len(bound.Table) > 0, nil
}

// bind replaces an input by its value.
func (m *maker) bind(v taskcatalog.StepValue) (taskcatalog.StepValue, bool) {
	name, input := strings.CutPrefix(v.From, "inputs.")
	if !input {
		return v, true
	}
	value, given := m.inputs[name]
	return value, given
}

func (m *maker) unfit(s definition.Step, argument string, v taskcatalog.StepValue, what string) error {
	return broker.Errorf(broker.Invalid, CodeInputForm, "cannot plan %s: %s fits argument %s of step %s only if it %s",
		m.d.ID(), origin(v), argument, s.ID, what)
}

func origin(v taskcatalog.StepValue) string {
	if name, input := strings.CutPrefix(v.From, "inputs."); input {
		return "input " + name
	}
	return "the definition's value"
}

// command puts the command profile into a step and holds the arguments against it.
func (m *maker) command(s *taskcatalog.PlannedStep) error {
	id, _ := s.With["command"].Literal.(string)
	i := slices.IndexFunc(m.d.Commands, func(p profiles.CommandProfile) bool { return p.ID == id })
	if i < 0 {
		return broker.Errorf(broker.Invalid, CodeInvalid, "cannot plan %s: step %s has no command profile", m.d.ID(), s.ID)
	}
	p := m.d.Commands[i]
	args := s.With["args"].Table
	for j := range p.ArgSchema {
		a := &p.ArgSchema[j]
		v, given := args[a.Name]
		switch {
		case !given && a.Required:
			return broker.Errorf(broker.Invalid, CodeInputForm, "cannot plan %s: step %s lacks argument %s of command profile %s",
				m.d.ID(), s.ID, a.Name, p.ID)
		case given && v.From == "" && a.Fits(v.Literal) != nil: // its error may quote the value
			return broker.Errorf(broker.Invalid, CodeInputForm, "cannot plan %s: step %s: the value of argument %s does not fit command profile %s",
				m.d.ID(), s.ID, a.Name, p.ID)
		}
	}
	raw, err := taskcatalog.Encode(p)
	s.Command = raw
	return err
}

// check holds the whole plan against the schema of the task and the bound of its size.
func (m *maker) check(p taskcatalog.OperationPlan) error {
	raw, err := taskcatalog.Encode(p)
	if err != nil {
		return err
	}
	if len(raw) > maxPlan {
		return broker.Errorf(broker.Invalid, CodeTooLarge, "cannot plan %s: the plan has %d bytes, at most %d (shorten templates or lists)",
			m.d.ID(), len(raw), maxPlan)
	}
	if err := taskcatalog.SchemaFor[taskcatalog.OperationPlan]().Check(raw); err != nil {
		return broker.Errorf(broker.Invalid, CodeInvalid, "cannot plan %s: %v", m.d.ID(), err)
	}
	return nil
}
