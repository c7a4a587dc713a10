package definition

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Faults of a definition, beside those that it shares with resolver profiles.
const (
	CodeBadForm         taskcatalog.Code = "bad_form"          // a text does not have its form
	CodeUnknownKind     taskcatalog.Code = "unknown_step_kind" // of a step
	CodeUnknownArgument taskcatalog.Code = "unknown_argument"
	CodeMissingArgument taskcatalog.Code = "missing_argument"
	CodeFixedArgument   taskcatalog.Code = "fixed_argument" // the definition must say the value itself
	CodeWrongValue      taskcatalog.Code = "wrong_value"
	CodeUnknownInput    taskcatalog.Code = "unknown_input"
	CodeUnusedInput     taskcatalog.Code = "unused_input"
	CodeOptionalInput   taskcatalog.Code = "optional_input"
	CodeInputUnbounded  taskcatalog.Code = "input_unbounded"
	CodeInputSchema     taskcatalog.Code = "input_schema"
	CodeUnknownStepID   taskcatalog.Code = "unknown_step_id" // or one that comes later
	CodeNoOutput        taskcatalog.Code = "no_output"
	CodeSecretMisused   taskcatalog.Code = "secret_misused"
	CodeUnusedSecret    taskcatalog.Code = "unused_secret"
	CodeSourceNotListed taskcatalog.Code = "source_not_listed"
	CodeNotPinned       taskcatalog.Code = "not_pinned"
	CodeBadTemplate     taskcatalog.Code = "bad_template"
)

// Problems are all faults of a file.
type Problems = profiles.Problems

const commandProfiles = "command_profiles"

// maxFacts bounds the permitted values of a fact.
const maxFacts = 64

// maxGPUs is the greatest number of GPUs that a SKU can have.
const maxGPUs = 64

// Parse reads a definition. It returns a definition without problems, or nil and all problems.
func Parse(f profiles.File) (*Definition, Problems) {
	doc, problems := profiles.Open(f)
	if problems != nil {
		return nil, problems
	}
	d := &Definition{Commands: doc.Commands(commandProfiles)}
	for i := range d.Commands {
		d.Commands[i].At = "" // the digest does not depend on the name of the file
	}
	raw := doc.JSON(commandProfiles)
	if found := doc.Problems(); len(found) > 0 {
		return nil, found
	}
	faults, err := taskcatalog.SchemaFor[Definition]().Faults(raw)
	if err != nil {
		doc.Refuse("", profiles.CodeWrongType, "the file is no definition: %v", err)
	}
	for _, fault := range faults {
		doc.Refuse(fault.At, codeOf(fault.Keyword), "%s", fault.Message)
	}
	if found := doc.Problems(); len(found) > 0 {
		return nil, found
	}
	if err := taskcatalog.DecodeStrict(raw, d); err != nil {
		doc.Refuse("", profiles.CodeWrongType, "the file is no definition: %v", err)
		return nil, doc.Problems()
	}
	if d.Inputs.Type == "" {
		d.Inputs.Type = "object"
	}
	(&checker{Document: doc, d: d, usedInputs: map[string]bool{}, usedSteps: map[string]bool{}, usedCommands: map[string]bool{}}).all()
	if found := doc.Problems(); len(found) > 0 {
		return nil, found
	}
	return d, nil
}

// codeOf gives a fault of the schema its code.
func codeOf(keyword string) taskcatalog.Code {
	switch keyword {
	case "additionalProperties":
		return profiles.CodeUnknownKey
	case "required":
		return profiles.CodeMissingKey
	case "type":
		return profiles.CodeWrongType
	case "enum":
		return CodeWrongValue
	case "pattern":
		return CodeBadForm
	}
	return profiles.CodeOutOfBounds
}

// checker checks a definition whose form is right.
type checker struct {
	*profiles.Document
	d *Definition

	usedInputs, usedSteps, usedCommands map[string]bool
}

func (c *checker) all() {
	for _, key := range slices.Sorted(maps.Keys(c.d.Requires)) {
		if n := len(c.d.Requires[key]); n == 0 || n > maxFacts {
			c.Refuse("/requires/"+key, profiles.CodeOutOfBounds, "%s wants 1 to %d values", profiles.Quote(key), maxFacts)
		}
		if key == taskcatalog.GPUCount {
			c.gpuCount(c.d.Requires[key])
			continue
		}
		for _, value := range c.d.Requires[key] {
			if what := profiles.CheckFact(key, value); what != "" {
				c.Refuse("/requires/"+key, profiles.CodeUnknownMatchValue, "%s", what)
			}
		}
	}
	c.sources()
	c.inputs()
	if c.d.Backend != BackendNodeAgent && slices.ContainsFunc(c.d.Steps, func(s Step) bool { return !strings.HasPrefix(s.Kind, "cluster.") }) {
		c.Refuse("/backend_type", CodeWrongValue, "%s carries out only the steps of a cluster", c.d.Backend)
	}
	for i := range c.d.Steps {
		c.step(i)
	}
	c.unused()
}

// gpuCount checks the least number of GPUs.
func (c *checker) gpuCount(values []string) {
	if len(values) == 0 {
		return // told already
	}
	n, err := strconv.Atoi(values[0])
	if len(values) > 1 || err != nil || strconv.Itoa(n) != values[0] || n < 1 || n > maxGPUs {
		c.Refuse("/requires/"+taskcatalog.GPUCount, profiles.CodeUnknownMatchValue,
			"%s wants one number, from 1 to %d: the least number of GPUs", profiles.Quote(taskcatalog.GPUCount), maxGPUs)
	}
}

// unused refuses what is declared and serves nothing: most often it is a slip in a name.
func (c *checker) unused() {
	for _, name := range slices.Sorted(maps.Keys(c.d.Inputs.Properties)) {
		if !c.usedInputs[name] {
			c.Refuse("/inputs/properties/"+name, CodeUnusedInput, "no step uses input %s", profiles.Quote(name))
		}
	}
	for i, p := range c.d.Commands {
		if !c.usedCommands[p.ID] {
			c.Refuse(at("/"+commandProfiles, i), profiles.CodeUnusedProfile, "no step uses command profile %s", profiles.Quote(p.ID))
		}
	}
	for i, s := range c.d.Steps {
		if k, _ := taskcatalog.StepKindOf(s.Kind); k.Output == taskcatalog.StepSecret && !c.usedSteps[s.ID] {
			c.Refuse(at("/steps", i), CodeUnusedSecret, "step %s mints a credential, and no later step uses it", profiles.Quote(s.ID))
		}
	}
}
