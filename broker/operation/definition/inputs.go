package definition

import (
	"encoding/json"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Inputs is the JSON Schema of an operation's inputs. It is a part of JSON Schema in which every value has
// a type and a bound.
type Inputs struct {
	Type       string              `json:"type" jsonschema:"enum=object"`
	Required   []string            `json:"required,omitempty" jsonschema:"maxItems=32,uniqueItems=true"`
	Properties map[string]Property `json:"properties" jsonschema:"maxProperties=32"`
}

// Property is the schema of one input.
type Property struct {
	Type        string   `json:"type" jsonschema:"enum=string,enum=integer,enum=boolean,enum=array"`
	Description string   `json:"description,omitempty" jsonschema:"maxLength=400"`
	Enum        []string `json:"enum,omitempty" jsonschema:"minItems=1,maxItems=64"`       // of a string
	Pattern     string   `json:"pattern,omitempty" jsonschema:"minLength=1,maxLength=256"` // of a string
	Format      string   `json:"format,omitempty" jsonschema:"enum=signature"`             // of a string: the signature of a file
	MinLength   int      `json:"minLength,omitempty" jsonschema:"minimum=0,maximum=1024"`  // of a string
	MaxLength   int      `json:"maxLength,omitempty" jsonschema:"minimum=1,maximum=1024"`  // of a string
	Minimum     *int64   `json:"minimum,omitempty"`                                        // of an integer
	Maximum     *int64   `json:"maximum,omitempty"`                                        // of an integer
	Items       *Item    `json:"items,omitempty"`                                          // of an array
	MinItems    int      `json:"minItems,omitempty" jsonschema:"minimum=0,maximum=256"`    // of an array
	MaxItems    int      `json:"maxItems,omitempty" jsonschema:"minimum=1,maximum=256"`    // of an array
}

// Item is the schema of an array's items.
type Item struct {
	Type      string   `json:"type" jsonschema:"enum=string"`
	Enum      []string `json:"enum,omitempty" jsonschema:"minItems=1,maxItems=64"`
	Pattern   string   `json:"pattern,omitempty" jsonschema:"minLength=1,maxLength=256"`
	MaxLength int      `json:"maxLength,omitempty" jsonschema:"minimum=1,maximum=1024"`
}

// formatSignature is the format of an input that is the signature of a file.
const formatSignature = string(taskcatalog.StepSignature)

var inputName = lazyregexp.New(`^[a-z][a-z0-9_]{0,31}$`)

// compile returns the schema that inputs are held against: nothing but the named inputs is taken.
func (in Inputs) compile() (*taskcatalog.Schema, error) {
	if in.Properties == nil {
		in.Properties = map[string]Property{}
	}
	text, err := json.Marshal(struct {
		Inputs
		Additional bool `json:"additionalProperties"`
	}{in, false})
	if err != nil {
		return nil, err
	}
	return taskcatalog.CompileSchema(text)
}

var wholeNumber = lazyregexp.New(`^(0|[1-9][0-9]{0,15})$`)

// CheckInputs holds inputs against the schema. The error names the place and never the value. A text is as
// strict as one that a definition says itself: it is not empty, has no control character, and does not begin
// with '-'. A number is written as a whole number.
func (d *Definition) CheckInputs(raw json.RawMessage) error {
	var in map[string]json.RawMessage
	if err := taskcatalog.DecodeStrict(raw, &in); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		p, known := d.Inputs.Properties[name]
		if !known {
			continue // the schema refuses it
		}
		var v taskcatalog.StepValue
		switch {
		case p.Type == "integer" && !wholeNumber.Match(in[name]):
			return taskcatalog.Errorf(taskcatalog.CodeBadParams, "input %s is no whole number", name)
		case p.Type == "integer":
			continue
		case v.UnmarshalJSON(in[name]) != nil || v.From != "" || v.Table != nil:
			return taskcatalog.Errorf(taskcatalog.CodeBadParams, "input %s is not of its type", name)
		}
		if what := p.fault(v); what != "" {
			return taskcatalog.Errorf(taskcatalog.CodeBadParams, "input %s %s", name, what)
		}
	}
	s, err := d.Inputs.compile()
	if err != nil {
		return err
	}
	return s.CheckFor(raw, "hostler operation-definition show "+d.ID())
}

// fault says why a text or a list is no value of an input, whatever its schema says; empty: it is one.
func (p Property) fault(v taskcatalog.StepValue) string {
	if p.Format == formatSignature {
		return taskcatalog.FormFault(taskcatalog.StepArg{Type: taskcatalog.StepSignature}, v)
	}
	return taskcatalog.CellFault(v.Literal)
}

// typeOf returns the type that an input has as the argument of a step.
func (p Property) typeOf() taskcatalog.StepType {
	switch p.Type {
	case "integer":
		return taskcatalog.StepInteger
	case "boolean":
		return taskcatalog.StepBoolean
	case "array":
		if p.Items != nil && p.Items.Pattern == taskcatalog.StepPackagePattern {
			return taskcatalog.StepPackages
		}
		return taskcatalog.StepTexts
	}
	switch {
	case p.Format == formatSignature:
		return taskcatalog.StepSignature
	case p.Pattern == taskcatalog.StepDigestPattern:
		return taskcatalog.StepDigest
	}
	return taskcatalog.StepText
}

func (c *checker) inputs() {
	in, usable := c.d.Inputs, true
	for _, name := range in.Required {
		if _, known := in.Properties[name]; !known {
			c.Refuse("/inputs/required", CodeUnknownInput, "%s is required, and no property has this name", profiles.Quote(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
		part, p := "/inputs/properties/"+name, in.Properties[name]
		if !inputName.MatchString(name) {
			c.Refuse(part, profiles.CodeBadName, "%s is no name of an input (a-z, 0-9, '_', 32 at most)", profiles.Quote(name))
		}
		if what := p.unbounded(); what != "" {
			c.Refuse(part, CodeInputUnbounded, "input %s %s", profiles.Quote(name), what)
		}
		patterns := []string{p.Pattern}
		if p.Items != nil {
			patterns = append(patterns, p.Items.Pattern)
		}
		for _, pattern := range patterns {
			if _, err := regexp.Compile(pattern); err != nil {
				c.Refuse(part, CodeInputSchema, "the pattern of input %s cannot be used: %v", profiles.Quote(name), err)
				usable = false
				continue
			}
			if pattern != "" && !ofWhole(pattern) {
				c.Refuse(part, CodeInputUnbounded,
					"the pattern of input %s must be for the whole text: ^…$, with alternatives in brackets", profiles.Quote(name))
			}
		}
		for _, v := range p.values() {
			if what := taskcatalog.CellFault(v); what != "" {
				c.Refuse(part, CodeWrongValue, "a value of the enum of input %s %s", profiles.Quote(name), what)
			}
		}
	}
	if _, err := in.compile(); err != nil && usable {
		c.Refuse("/inputs", CodeInputSchema, "the schema of the inputs cannot be used: %s", firstLine(err))
	}
}

// values are the permitted values of a text, or of the items of a list.
func (p Property) values() []string {
	if p.Items != nil {
		return p.Items.Enum
	}
	return p.Enum
}

// ofWhole reports whether a pattern matches whole texts alone. JSON Schema looks for a pattern anywhere.
func ofWhole(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || re.Op != syntax.OpConcat || len(re.Sub) < 2 {
		return false
	}
	return re.Sub[0].Op == syntax.OpBeginText && re.Sub[len(re.Sub)-1].Op == syntax.OpEndText
}

// unbounded says which bound a property lacks, or which keyword its type does not have; empty: none.
func (p Property) unbounded() string {
	text := p.Enum != nil || p.Pattern != "" || p.MinLength != 0 || p.MaxLength != 0
	number := p.Minimum != nil || p.Maximum != nil
	list := p.Items != nil || p.MinItems != 0 || p.MaxItems != 0
	switch {
	case p.Format != "" && (p.Type != "string" || text):
		return "is a signature, which is a string without enum, pattern and lengths: it has 64 KiB at most"
	case p.Format != "":
		return ""
	case p.Type != "string" && text:
		return "has enum, pattern or a length, which only a string has"
	case p.Type != "integer" && number:
		return "has a minimum or maximum, which only an integer has"
	case p.Type != "array" && list:
		return "has items, which only an array has"
	case p.Type == "string" && p.Enum == nil && p.MaxLength == 0:
		return "needs maxLength or enum"
	case p.Type == "integer" && (p.Minimum == nil || p.Maximum == nil || *p.Minimum < 0 || *p.Minimum > *p.Maximum ||
		*p.Maximum > taskcatalog.MaxStepNumber):
		return "needs minimum and maximum, 0 to 2^53-1, in this order"
	case p.Type == "array" && (p.Items == nil || p.MaxItems == 0):
		return "needs items and maxItems"
	case p.Type == "array" && p.Items.Enum == nil && p.Items.MaxLength == 0:
		return "needs maxLength or enum for its items"
	}
	return ""
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
