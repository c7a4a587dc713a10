package definition

import (
	"maps"
	"slices"
	"strings"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Scheme returns the kind of source that a step brings something from, or mints a credential for, and the
// argument that names the source; empty: the step does neither.
func Scheme(kind string, with map[string]taskcatalog.StepValue) (scheme, argument string) {
	return taskcatalog.StepSource(kind, with)
}

// sources checks the list of sources.
func (c *checker) sources() {
	if c.d.Artifacts == nil {
		return
	}
	for i, s := range c.d.Artifacts.Sources {
		if fault := taskcatalog.SourceListFault(s); fault != "" {
			c.Refuse(at("/artifacts/sources", i), CodeWrongValue, "%s %s", profiles.Quote(s), fault)
		}
	}
}

// source checks that an artifact comes from the definition's list of sources. What an input gives is checked
// with the plan.
func (c *checker) source(part string, s Step) {
	if c.d.Artifacts == nil {
		c.Refuse(part, profiles.CodeMissingKey, "artifacts with its sources is missing: step %s brings something to the node", profiles.Quote(s.ID))
		return
	}
	if scheme, argument := Scheme(s.Kind, s.With); scheme != "" {
		c.listed(part+"/with/"+argument, scheme, s.With[argument])
	}
}

// scope checks that a credential is for a listed source.
func (c *checker) scope(part string, s Step) {
	scheme, argument := Scheme(s.Kind, s.With)
	switch {
	case scheme != "" && c.d.Artifacts == nil:
		c.Refuse(part, profiles.CodeMissingKey, "artifacts with its sources is missing: step %s mints a credential for one", profiles.Quote(s.ID))
	case scheme != "":
		c.listed(part+"/with/"+argument, scheme, s.With[argument])
	}
}

func (c *checker) listed(part, scheme string, v taskcatalog.StepValue) {
	source, literal := v.Literal.(string)
	if literal && !slices.ContainsFunc(c.d.Artifacts.Sources, func(l string) bool { return Listed(l, scheme, source) }) {
		c.Refuse(part, CodeSourceNotListed, "%s is below no source of artifacts", profiles.Quote(scheme+":"+source))
	}
}

// Listed reports whether a source is the listed one, or lies below it.
func Listed(listed, scheme, source string) bool {
	return taskcatalog.SourceCovers(listed, scheme+":"+source)
}

// command checks a step that runs a command profile of the definition.
func (c *checker) command(part string, i int, s Step) {
	id, literal := s.With["command"].Literal.(string)
	if !literal {
		return // refused as an argument
	}
	j := slices.IndexFunc(c.d.Commands, func(p profiles.CommandProfile) bool { return p.ID == id })
	if j < 0 {
		c.Refuse(part+"/with/command", profiles.CodeUnknownProfile, "there is no command profile %s", profiles.Quote(id))
		return
	}
	c.usedCommands[id] = true
	p, given := &c.d.Commands[j], s.With["args"].Table
	for _, a := range p.ArgSchema {
		v, ok := given[a.Name]
		if !ok {
			if a.Required {
				c.Refuse(part, CodeMissingArgument, "command profile %s needs the argument %s", id, profiles.Quote(a.Name))
			}
			continue
		}
		if a.Required {
			c.given(part+"/with/args/"+a.Name, v.From)
		}
		if v.From == "" && v.Table == nil {
			if err := a.Fits(v.Literal); err != nil {
				c.Refuse(part+"/with/args/"+a.Name, CodeWrongValue, "command profile %s, argument %s: %v", id, a.Name, err)
			}
			continue
		}
		got := c.typeOfCell(i, v)
		asText := a.Type == profiles.ArgString && slices.Contains(textual, got)
		asList := a.Type == profiles.ArgList && got == taskcatalog.StepPackages
		if got != "" && got != argTypes[a.Type] && !asText && !asList {
			c.Refuse(part+"/with/args/"+a.Name, profiles.CodeWrongType, "command profile %s takes %s as a %s; this gives a %s",
				id, a.Name, a.Type, got)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(p.ArgSchema, func(a profiles.Arg) bool { return a.Name == name }) {
			c.Refuse(part+"/with/args/"+name, CodeUnknownArgument, "command profile %s takes no argument %s", id, profiles.Quote(name))
		}
	}
}

// argTypes are the types of arguments of command profiles as types of steps.
var argTypes = map[string]taskcatalog.StepType{
	profiles.ArgString: taskcatalog.StepText, profiles.ArgInteger: taskcatalog.StepInteger,
	profiles.ArgBoolean: taskcatalog.StepBoolean, profiles.ArgList: taskcatalog.StepTexts,
}

// textual are the types whose values are texts.
var textual = []taskcatalog.StepType{taskcatalog.StepDigest, taskcatalog.StepName, taskcatalog.StepPath}

// typeOfCell returns the type of what a value in a table comes from; empty: it is faulty, and was refused.
func (c *checker) typeOfCell(i int, v taskcatalog.StepValue) taskcatalog.StepType {
	where, name, _ := strings.Cut(v.From, ".")
	if p, known := c.d.Inputs.Properties[name]; known && where == "inputs" {
		return p.typeOf()
	}
	if j := slices.IndexFunc(c.d.Steps[:i], func(s Step) bool { return s.ID == name }); j >= 0 && where == "steps" {
		kind, _ := taskcatalog.StepKindOf(c.d.Steps[j].Kind)
		return kind.Output
	}
	return ""
}

// template checks the template of a file: it names values, and does nothing else with them.
func (c *checker) template(part string, s Step) {
	text, _ := s.With["template"].Literal.(string)
	part += "/with/template"
	names, faults := taskcatalog.StepTemplateNames(text)
	for _, fault := range faults {
		c.Refuse(part, CodeBadTemplate, "%s", fault)
	}
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
		if _, given := s.With["values"].Table[name]; !given {
			c.Refuse(part, CodeBadTemplate, "the template names %s, which is not among values", profiles.Quote(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.With["values"].Table)) {
		c.rendered(strings.TrimSuffix(part, "template")+"values/"+name, s.With["values"].Table[name].From)
		c.given(strings.TrimSuffix(part, "template")+"values/"+name, s.With["values"].Table[name].From)
		if !named[name] {
			c.Refuse(strings.TrimSuffix(part, "template")+"values/"+name, CodeUnusedInput, "the template does not name %s", profiles.Quote(name))
		}
	}
}

// rendered refuses a text of an input that may have any character: within a file, a quote or a '#' can end the
// value and begin another one.
func (c *checker) rendered(part, from string) {
	name, input := strings.CutPrefix(from, "inputs.")
	p, known := c.d.Inputs.Properties[name]
	if !input || !known {
		return
	}
	text, bound := p.Type == "string", p.Pattern != "" || p.Enum != nil
	if p.Items != nil {
		text, bound = true, p.Items.Pattern != "" || p.Items.Enum != nil
	}
	if text && !bound {
		c.Refuse(part, CodeInputUnbounded, "input %s goes into a file, and needs a pattern or an enum of the characters that the file can hold",
			profiles.Quote(name))
	}
}
