package definition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// patterns are those by which an input has a type.
var patterns = map[taskcatalog.StepType]string{
	taskcatalog.StepDigest: taskcatalog.StepDigestPattern, taskcatalog.StepPackages: taskcatalog.StepPackagePattern,
}

func at(list string, i int) string { return fmt.Sprintf("%s/%d", list, i) }

func (c *checker) step(i int) {
	s, part := c.d.Steps[i], at("/steps", i)
	if slices.ContainsFunc(c.d.Steps[:i], func(b Step) bool { return b.ID == s.ID }) {
		c.Refuse(part+"/id", profiles.CodeDuplicate, "there are two steps %s", profiles.Quote(s.ID))
	}
	kind, known := taskcatalog.StepKindOf(s.Kind)
	if !known {
		var names []string
		for _, k := range taskcatalog.StepKinds() {
			names = append(names, k.Name)
		}
		c.Refuse(part+"/kind", CodeUnknownKind, "%s is no kind of a step (%s)", profiles.Quote(s.Kind), strings.Join(names, ", "))
		return
	}
	for _, a := range kind.Args {
		if _, given := s.With[a.Name]; a.Required && !given {
			c.Refuse(part, CodeMissingArgument, "step %s lacks %s: %s", profiles.Quote(s.ID), a.Name, a.Summary)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.With)) {
		v, part := s.With[name], part+"/with/"+name
		a, known := kind.Arg(name)
		if !known {
			c.Refuse(part, CodeUnknownArgument, "%s has no argument %s", s.Kind, profiles.Quote(name))
			continue
		}
		c.argument(part, i, a, v)
	}
	if kind.Artifact {
		c.source(part, s)
	}
	if s.Kind == "credential.mint" {
		c.scope(part, s)
	}
	if s.Kind == "command.exec_allowlisted" {
		c.command(part, i, s)
	}
	if s.Kind == "file.render" {
		c.template(part, s)
	}
	if s.Kind == "health.check" {
		c.health(part, s)
	}
	if s.Kind == "cluster.join" {
		c.join(part, s)
	}
	if s.With["cluster"].Literal != "k8s" {
		c.noKubernetes(part, s)
	}
}

// join checks that a step that joins a cluster of Ray says where Ray is, and no other.
func (c *checker) join(part string, s Step) {
	_, given := s.With["environment"]
	switch ray := s.With["cluster"].Literal == "ray"; {
	case ray && !given:
		c.Refuse(part, CodeMissingArgument, "step %s lacks environment: the Python environment that has Ray", profiles.Quote(s.ID))
	case !ray && given:
		c.Refuse(part+"/with/environment", CodeUnknownArgument, "cluster.join takes environment for clusters of Ray alone")
	}
}

// ofKubernetes are the arguments that only steps of Kubernetes clusters take, by their kinds.
var ofKubernetes = map[string][]string{
	"cluster.join": {"taints", "kubelet"}, "cluster.verify": {"labels", "taints", "version", "gpus"},
}

// noKubernetes refuses what a step of another cluster would pass over.
func (c *checker) noKubernetes(part string, s Step) {
	for _, name := range ofKubernetes[s.Kind] {
		if _, given := s.With[name]; given {
			c.Refuse(part+"/with/"+name, CodeUnknownArgument, "%s takes %s for clusters of k8s alone", s.Kind, name)
		}
	}
}

// health refuses a caller's choice of what is looked for on the node itself: the answer would tell which files
// and units it has.
func (c *checker) health(part string, s Step) {
	if check := s.With["check"].Literal; (check == "file" || check == "unit") && s.With["target"].From != "" {
		c.Refuse(part+"/with/target", CodeFixedArgument, "the definition itself must give the target of a %s check: no input and no step may", check)
	}
}

// argument checks that a value fits the argument of step i.
func (c *checker) argument(part string, i int, a taskcatalog.StepArg, v taskcatalog.StepValue) {
	switch {
	case v.From != "" && a.Fixed:
		c.Refuse(part, CodeFixedArgument, "the definition itself must give %s: no input and no step may", a.Name)
	case v.From != "":
		if a.Required {
			c.given(part, v.From)
		}
		c.bound(part, i, a, v.From)
	case a.Type == taskcatalog.StepTable && v.Table != nil:
		for _, name := range slices.Sorted(maps.Keys(v.Table)) {
			c.cell(part+"/"+name, i, name, v.Table[name])
		}
	default:
		if what := taskcatalog.FormFault(a, v); what != "" {
			code := CodeWrongValue
			if a.Type == taskcatalog.StepPackages || a.Type == taskcatalog.StepDigest {
				code = CodeNotPinned
			}
			c.Refuse(part, code, "%s %s", a.Name, what)
		}
	}
}

// cell checks one value of a table.
func (c *checker) cell(part string, i int, name string, v taskcatalog.StepValue) {
	switch {
	case !inputName.MatchString(name):
		c.Refuse(part, profiles.CodeBadName, "%s is no name (a-z, 0-9, '_', 32 at most)", profiles.Quote(name))
	case v.Table != nil:
		c.Refuse(part, CodeWrongValue, "a table holds no table")
	case v.From != "":
		if got, ok := c.origin(part, i, v.From); ok && got == taskcatalog.StepSecret {
			c.Refuse(part, CodeSecretMisused, "a secret goes into no table")
		}
	default:
		if what := taskcatalog.CellFault(v.Literal); what != "" {
			c.Refuse(part, CodeWrongValue, "%s %s", name, what)
		}
	}
}

// given refuses an input that a caller may leave out, where a value is needed.
func (c *checker) given(part, from string) {
	if name, input := strings.CutPrefix(from, "inputs."); input && !slices.Contains(c.d.Inputs.Required, name) {
		c.Refuse(part, CodeOptionalInput, "input %s may be left out, and the step needs it (add it to required)", profiles.Quote(name))
	}
}

// origin resolves where a value comes from: an input, or the output of an earlier step.
func (c *checker) origin(part string, i int, from string) (taskcatalog.StepType, bool) {
	where, name, _ := strings.Cut(from, ".")
	switch where {
	case "inputs":
		p, known := c.d.Inputs.Properties[name]
		if !known {
			c.Refuse(part, CodeUnknownInput, "there is no input %s", profiles.Quote(name))
			return "", false
		}
		c.usedInputs[name] = true
		return p.typeOf(), true
	case "steps":
		j := slices.IndexFunc(c.d.Steps[:i], func(s Step) bool { return s.ID == name })
		if j < 0 {
			c.Refuse(part, CodeUnknownStepID, "there is no step %s before this one", profiles.Quote(name))
			return "", false
		}
		c.usedSteps[name] = true
		kind, _ := taskcatalog.StepKindOf(c.d.Steps[j].Kind)
		if kind.Output == "" {
			c.Refuse(part, CodeNoOutput, "step %s (%s) gives nothing", profiles.Quote(name), kind.Name)
			return "", false
		}
		return kind.Output, true
	}
	c.Refuse(part, CodeWrongValue, "%s is no place that a value comes from (inputs.NAME, steps.ID)", profiles.Quote(from))
	return "", false
}

// bound checks that what a value comes from fits the argument.
func (c *checker) bound(part string, i int, a taskcatalog.StepArg, from string) {
	got, ok := c.origin(part, i, from)
	if !ok {
		return
	}
	_, name, _ := strings.Cut(from, ".")
	if a.Type == taskcatalog.StepSecret || got == taskcatalog.StepSecret {
		c.secret(part, i, a, got, name)
		return
	}
	digestAsText := got == taskcatalog.StepDigest && a.Type == taskcatalog.StepText
	textAsName := got == taskcatalog.StepText && a.Type == taskcatalog.StepName // its form is checked with the plan
	if got != a.Type && !digestAsText && !textAsName {
		why := ""
		if pattern, ok := patterns[a.Type]; ok {
			why = " (give the input, or its items, the pattern " + pattern + ")"
		}
		if a.Type == taskcatalog.StepSignature {
			why = " (give the input the format " + formatSignature + ")"
		}
		c.Refuse(part, profiles.CodeWrongType, "%s is of type %s, and %s gives %s%s", a.Name, a.Type, from, got, why)
		return
	}
	if p, input := c.d.Inputs.Properties[name]; input && strings.HasPrefix(from, "inputs.") && len(a.Values) > 0 {
		if p.Enum == nil || slices.ContainsFunc(p.Enum, func(v string) bool { return !slices.Contains(a.Values, v) }) {
			c.Refuse(part, CodeWrongValue, "input %s needs an enum of values that %s has (%s)",
				profiles.Quote(name), a.Name, strings.Join(a.Values, ", "))
		}
	}
}

// secret checks that a credential goes into an argument for its type, and nowhere else.
func (c *checker) secret(part string, i int, a taskcatalog.StepArg, got taskcatalog.StepType, name string) {
	if a.Type != taskcatalog.StepSecret || got != taskcatalog.StepSecret {
		c.Refuse(part, CodeSecretMisused, "%s: a secret comes from a step credential.mint, and goes only into an argument for secrets", a.Name)
		return
	}
	j := slices.IndexFunc(c.d.Steps[:i], func(s Step) bool { return s.ID == name })
	if of, _ := c.d.Steps[j].With["type"].Literal.(string); !slices.Contains(a.Values, of) {
		c.Refuse(part, CodeSecretMisused, "%s takes %s, and step %s mints %s", a.Name, strings.Join(a.Values, " or "), profiles.Quote(name), profiles.Quote(of))
	}
}
