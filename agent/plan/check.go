package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// cellName is the name of a value in a table.
var cellName = lazyregexp.New(`^[a-z][a-z0-9_]{0,31}$`)

// maxFacts bounds the facts that a plan requires, and maxFactValues the permitted values of each.
const maxFacts, maxFactValues = 16, 64

// Check judges a plan that the task's schema has accepted, before anything runs. Codes: plan_invalid,
// and step_unsupported if this agent has no code for a kind.
func Check(p *taskcatalog.OperationPlan, kinds func(string) (steps.Kind, bool)) error {
	if n := len(p.Requires); n > maxFacts {
		return taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot run the operation: it requires %d facts, at most %d", n, maxFacts)
	}
	for _, fact := range slices.Sorted(maps.Keys(p.Requires)) {
		if n := len(p.Requires[fact]); n == 0 || n > maxFactValues {
			return taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot run the operation: it requires %d values of %s, not 1 to %d",
				n, taskcatalog.Clean(fact, 80), maxFactValues)
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		c := &checker{plan: p, at: i}
		kind, known := taskcatalog.StepKindOf(s.Kind)
		code, has := kinds(s.Kind)
		if !known || !has {
			return taskcatalog.Errorf(taskcatalog.CodeStepUnsupported,
				"cannot run the operation: step %s is a %s, and this agent has no code for that kind (update the agent)",
				taskcatalog.Clean(s.ID, 80), taskcatalog.Clean(s.Kind, 80))
		}
		fault := c.step(kind)
		if fault == "" && code.Check != nil {
			if err := code.Check(s); err != nil {
				fault = err.Error()
			}
		}
		if fault != "" {
			return taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot run the operation: step %s: %s",
				taskcatalog.Clean(s.ID, 80), taskcatalog.Clean(fault, 400))
		}
	}
	return nil
}

// checker judges one step of a plan. Its methods return a fault, or "".
type checker struct {
	plan *taskcatalog.OperationPlan
	at   int
}

func (c *checker) step(kind taskcatalog.StepKind) string {
	s := &c.plan.Steps[c.at]
	if slices.ContainsFunc(c.plan.Steps[:c.at], func(b taskcatalog.PlannedStep) bool { return b.ID == s.ID }) {
		return "an earlier step has the same id"
	}
	for _, a := range kind.Args {
		if _, given := s.With[a.Name]; a.Required && !given {
			return "the argument " + a.Name + " is missing"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.With)) {
		a, known := kind.Arg(name)
		if !known {
			return kind.Name + " has no argument " + taskcatalog.Clean(name, 80)
		}
		if fault := c.argument(a, s.With[name]); fault != "" {
			return "the argument " + name + " " + fault
		}
	}
	if len(s.Command) > 0 && kind.Name != steps.CommandKind {
		return "only a step " + steps.CommandKind + " has a command profile"
	}
	return c.source(kind)
}

func (c *checker) argument(a taskcatalog.StepArg, v taskcatalog.StepValue) string {
	switch {
	case v.From != "" && a.Fixed:
		return "is a literal of the definition, and comes from no step"
	case v.From != "":
		return c.bound(a, v.From)
	case a.Type == taskcatalog.StepTable && v.Table != nil:
		for _, name := range slices.Sorted(maps.Keys(v.Table)) {
			if fault := c.cell(name, v.Table[name]); fault != "" {
				return "has a value " + taskcatalog.Clean(name, 80) + " that " + fault
			}
		}
		return ""
	}
	return taskcatalog.FormFault(a, v)
}

func (c *checker) cell(name string, v taskcatalog.StepValue) string {
	switch {
	case !cellName.MatchString(name):
		return "has no name of a-z, 0-9 and '_'"
	case v.Table != nil:
		return "is a table: a table holds no table"
	case v.From == "":
		return taskcatalog.CellFault(v.Literal)
	}
	from, fault := c.origin(v.From)
	if fault == "" && from.Output == taskcatalog.StepSecret {
		return "is a secret: a secret goes into no table"
	}
	return fault
}

// origin finds the earlier step that a value comes from.
func (c *checker) origin(from string) (kind taskcatalog.StepKind, fault string) {
	s := c.stepOf(from)
	if s == nil {
		return kind, fmt.Sprintf("comes from %q, which is no earlier step (steps.ID)", taskcatalog.Clean(from, 80))
	}
	kind, _ = taskcatalog.StepKindOf(s.Kind)
	if kind.Output == "" {
		return kind, fmt.Sprintf("comes from step %s, which gives nothing", s.ID)
	}
	return kind, ""
}

// stepOf returns the earlier step of a reference; nil: there is none.
func (c *checker) stepOf(from string) *taskcatalog.PlannedStep {
	id, ok := strings.CutPrefix(from, fromSteps)
	i := slices.IndexFunc(c.plan.Steps[:c.at], func(s taskcatalog.PlannedStep) bool { return s.ID == id })
	if !ok || i < 0 {
		return nil
	}
	return &c.plan.Steps[i]
}

// bound judges an argument that an earlier step gives.
func (c *checker) bound(a taskcatalog.StepArg, from string) string {
	kind, fault := c.origin(from)
	if fault != "" {
		return fault
	}
	if kind.Output != a.Type {
		return fmt.Sprintf("is of type %s, and comes from a step that gives a %s", a.Type, kind.Output)
	}
	if a.Type != taskcatalog.StepSecret {
		return ""
	}
	if of, _ := c.stepOf(from).With["type"].Literal.(string); !slices.Contains(a.Values, of) {
		return fmt.Sprintf("takes a credential %s, and comes from a step that mints another", strings.Join(a.Values, " or "))
	}
	return ""
}
