package profiles

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog"
)

// Health is the part of a set about the look at GPUs between two turnovers. Agents before it refuse a set
// that has it.
type Health struct {
	// EverySeconds is the time between two looks; 0: a minute.
	EverySeconds int `json:"every_seconds,omitempty" jsonschema:"minimum=10,maximum=3600"`
	// Rules for a field take the place of the compiled-in rules for that field.
	Rules []HealthRule `json:"rules,omitempty" jsonschema:"maxItems=128"`
}

// HealthRule says which values of a field give a verdict. It has exactly one test.
type HealthRule struct {
	Field   string                    `json:"field"`
	Verdict taskcatalog.HealthVerdict `json:"verdict" jsonschema:"enum=degraded,enum=unknown,enum=failed"`
	Says    string                    `json:"says" jsonschema:"maxLength=200"` // to people
	// Looks is how many looks in a row must show it; 0: one.
	Looks int `json:"looks,omitempty" jsonschema:"minimum=1,maximum=1000"`

	Above      *int64 `json:"above,omitempty"`
	Below      *int64 `json:"below,omitempty"`
	AboveField string `json:"above_field,omitempty"` // another field of the same look
	BelowField string `json:"below_field,omitempty"`
	// Rose: by more than so much since the look before. Grew: since the last boot or proven reset.
	Rose *int64 `json:"rose,omitempty" jsonschema:"minimum=0"`
	Grew *int64 `json:"grew,omitempty" jsonschema:"minimum=0"`
	// Fell: below the highest value that was seen while the GPU was partitioned as it is.
	Fell bool `json:"fell,omitempty"`
	// In: one of these. A text counts up to its first colon.
	In Values `json:"in,omitempty"`
}

// tests returns how many tests a rule has.
func (r *HealthRule) tests() int {
	n := 0
	for _, has := range []bool{
		r.Above != nil, r.Below != nil, r.AboveField != "", r.BelowField != "", r.Rose != nil, r.Grew != nil, r.Fell, len(r.In) > 0,
	} {
		if has {
			n++
		}
	}
	return n
}

// Key names a rule among those of a field.
func (r *HealthRule) Key() string {
	return fmt.Sprintf("%s %s %s", r.Field, r.Verdict, r.Test())
}

// Test is the test of a rule, in words.
func (r *HealthRule) Test() string {
	switch {
	case r.Above != nil:
		return fmt.Sprintf("above %d", *r.Above)
	case r.Below != nil:
		return fmt.Sprintf("below %d", *r.Below)
	case r.AboveField != "":
		return "above " + r.AboveField
	case r.BelowField != "":
		return "below " + r.BelowField
	case r.Rose != nil:
		return fmt.Sprintf("rose by more than %d", *r.Rose)
	case r.Grew != nil:
		return fmt.Sprintf("grew by more than %d", *r.Grew)
	case r.Fell:
		return "fell"
	}
	return "in " + strings.Join(r.In, ", ")
}

const (
	maxHealthRules = 128
	defaultEvery   = time.Minute
	leastEvery     = 10
	mostEvery      = 3600
	mostLooks      = 1000
)

//go:embed own/health.yaml
var health []byte

var readHealth = sync.OnceValue(func() Health {
	var found Problems
	set, where := &Set{}, places{}
	r := &reader{file: "health.yaml", found: &found, where: where}
	if doc := r.document(health); doc != nil {
		r.set(doc, set)
	}
	c := &checker{set: set, where: where}
	c.health()
	if found = append(found, c.found...); len(found) > 0 || set.Health == nil {
		panic(fmt.Sprintf("the compiled-in health.yaml: %v", found))
	}
	return *set.Health
})

// HealthEvery is the time between two looks at the GPUs.
func (s *Set) HealthEvery() time.Duration {
	if s.Health == nil || s.Health.EverySeconds == 0 {
		return defaultEvery
	}
	return time.Duration(s.Health.EverySeconds) * time.Second
}

// HealthRules are the rules in force: those of the set, and the compiled-in rules for other fields.
func (s *Set) HealthRules() []HealthRule {
	own := readHealth().Rules
	if s.Health == nil {
		return slices.Clone(own)
	}
	ruled := func(r HealthRule) bool {
		return slices.ContainsFunc(s.Health.Rules, func(o HealthRule) bool { return o.Field == r.Field })
	}
	return append(slices.DeleteFunc(slices.Clone(own), ruled), s.Health.Rules...)
}

// health reads the section of a file. Rules of several files are one list.
func (r *reader) health(part string, n *yaml.Node, s *Set) {
	if s.Health == nil {
		s.Health = &Health{}
	}
	r.mapping(part, n, map[string]field{
		"every_seconds": {func(part string, n *yaml.Node) {
			if s.Health.EverySeconds != 0 {
				r.refuse(n, CodeDuplicateKey, "every_seconds is in two files")
			}
			r.number(&s.Health.EverySeconds)(part, n)
			if s.Health.EverySeconds == 0 {
				r.refuse(n, CodeOutOfBounds, "every_seconds is %d to %d", leastEvery, mostEvery)
			}
		}, false},
		"rules": {func(part string, n *yaml.Node) {
			r.list(part, n, func(_ string, n *yaml.Node) {
				part := fmt.Sprintf("health/rules/%d", len(s.Health.Rules))
				s.Health.Rules = append(s.Health.Rules, r.healthRule(part, n))
			})
		}, false},
	})
}

func (r *reader) healthRule(part string, n *yaml.Node) (h HealthRule) {
	figure := func(p **int64) func(string, *yaml.Node) {
		return func(_ string, n *yaml.Node) {
			if v, ok := r.integer(n); ok {
				*p = &v
			}
		}
	}
	r.mapping(part, n, map[string]field{
		"field":       {r.into(&h.Field), true},
		"verdict":     {r.into((*string)(&h.Verdict)), true},
		"says":        {r.into(&h.Says), true},
		"looks":       {r.number(&h.Looks), false},
		"above":       {figure(&h.Above), false},
		"below":       {figure(&h.Below), false},
		"above_field": {r.into(&h.AboveField), false},
		"below_field": {r.into(&h.BelowField), false},
		"rose":        {figure(&h.Rose), false},
		"grew":        {figure(&h.Grew), false},
		"fell":        {func(_ string, n *yaml.Node) { h.Fell = r.boolean(n) }, false},
		"in":          {func(part string, n *yaml.Node) { h.In = r.values(part, n) }, false},
	})
	return h
}

// health checks the section of a set.
func (c *checker) health() {
	h := c.set.Health
	if h == nil {
		return
	}
	if h.EverySeconds != 0 && (h.EverySeconds < leastEvery || h.EverySeconds > mostEvery) {
		c.refuse(CodeOutOfBounds, "/health/every_seconds", "every_seconds is %d to %d", leastEvery, mostEvery)
	}
	if len(h.Rules) > maxHealthRules {
		c.refuse(CodeTooMany, "/health", "there are more than %d rules of health", maxHealthRules)
		return
	}
	seen := map[string]bool{}
	for i := range h.Rules {
		part := partOf("health/rules", i)
		c.healthRule(part, &h.Rules[i])
		if key := h.Rules[i].Key(); seen[key] {
			c.refuse(CodeDuplicate, part, "there are two rules of health with the test %s", quote(key))
		} else {
			seen[key] = true
		}
	}
}

func (c *checker) healthRule(part string, r *HealthRule) {
	f, known := taskcatalog.HealthFieldNamed(r.Field)
	if !known {
		c.refuse(CodeBadName, part+"/field", "%s is no field of a GPU's health", quote(r.Field))
		return
	}
	if n := r.tests(); n != 1 {
		c.refuse(CodeBadArg, part, "a rule of health has exactly one test, and this one has %d (above, below, above_field, below_field, rose, grew, fell, in)", n)
	}
	switch r.Verdict {
	case taskcatalog.HealthDegraded, taskcatalog.HealthUnknown, taskcatalog.HealthFailed:
	default:
		c.refuse(CodeBadArg, part+"/verdict", "%s is no verdict of a rule (degraded, unknown, failed)", quote(string(r.Verdict)))
	}
	if r.Says == "" || len(r.Says) > 200 {
		c.refuse(CodeOutOfBounds, part+"/says", "says wants 1 to 200 bytes")
	}
	if r.Looks < 0 || r.Looks > mostLooks {
		c.refuse(CodeOutOfBounds, part+"/looks", "looks is 1 to %d", mostLooks)
	}
	if (f.Text || f.Name == "xid") && len(r.In) == 0 {
		c.refuse(CodeBadArg, part, "%s has values to name: its rules have the test in", r.Field)
	}
	if r.Rose != nil && *r.Rose < 0 || r.Grew != nil && *r.Grew < 0 {
		c.refuse(CodeOutOfBounds, part, "rose and grew are 0 or more")
	}
	for _, other := range []string{r.AboveField, r.BelowField} {
		if o, known := taskcatalog.HealthFieldNamed(other); other != "" && (!known || o.Text || other == r.Field || f.Text) {
			c.refuse(CodeBadName, part, "%s cannot be compared with %s", r.Field, quote(other))
		}
	}
	if len(r.In) > maxValues {
		c.refuse(CodeOutOfBounds, part+"/in", "in wants 1 to %d values", maxValues)
	}
	for _, v := range r.In {
		if !factValue.MatchString(v) {
			c.refuse(CodeUnknownMatchValue, part+"/in", "%s is no value of %s", quote(v), r.Field)
		}
	}
}
