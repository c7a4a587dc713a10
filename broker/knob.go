package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Knob is the declaration of one field of a Policy, read from the field's tags:
//
//	json              the name, stored and on the wire
//	unit              what a value counts or names; a bool needs none
//	default           the value of a new profile; empty: none, or the site's
//	minimum, maximum  the bounds of a number
//	enum              the allowed texts
//	accepts           the form of a text, a list or a map: a row of forms
//	maxLength         the longest text
//	maxItems          the longest list
//	doc               what the knob steers, as a sentence
//
// All tags but unit and accepts are huma's too, so the API's description says the same.
type Knob struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Unit    string `json:"unit"`
	Default string `json:"default"`
	Bounds  string `json:"bounds"` // without the unit
	Help    string `json:"help"`

	field     []int // of Policy
	typ       reflect.Type
	number    bool
	min, max  int
	enum      []string
	maxLength int
	maxItems  int
	accepts   string
}

var tenantIDForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// form is the form of a text, or of each text of a list; ok is nil for checks and retries, which have functions
// of their own.
type form struct {
	bounds string
	ok     func(string) bool
}

var bundleForm = lazyregexp.New(`^https?://[^\s@?#]{1,400}@sha256:[0-9a-f]{64}$`)

// forms has a row for each value of the tag accepts.
var forms = map[string]form{
	"series":       {"such as ubuntu/noble or custom/IMAGE", seriesForm.MatchString},
	"architecture": {"such as amd64/generic", archForm.MatchString},
	"interface":    {"such as eno8303", ifaceForm.MatchString},
	"bundle":       {"URL@sha256:DIGEST", bundleForm.MatchString},
	"interval":     {"1m to 24h, such as 15m or 1h 30min", func(s string) bool { _, err := SyncInterval(s); return err == nil }},
	"passing":      {Never + ", or 10m to 720h, such as 2h", passingForm},
	"retries":      {fmt.Sprintf("0 to %d for each stage", mostRetries), nil},
	"skus":         {"ids of SKUs", SKUForm.MatchString},
	"tenants":      {"ids of projects and organisations", tenantIDForm.MatchString},
	"checks":       {strings.Join(taskcatalog.PlatformChecks(), ", "), nil},
}

var (
	knobs    = knobsOf(reflect.TypeFor[Policy]())
	defaults = defaultsOf(knobs)
)

// Knobs lists the knobs of a policy, group by group.
func Knobs() []Knob { return slices.Clone(knobs) }

// KnobNamed returns the knob with a name.
func KnobNamed(name string) (Knob, bool) {
	i := slices.IndexFunc(knobs, func(k Knob) bool { return k.Name == name })
	if i < 0 {
		return Knob{}, false
	}
	return knobs[i], true
}

// DefaultPolicy is the policy of a new profile.
func DefaultPolicy() (p Policy) {
	if err := json.Unmarshal(defaults, &p); err != nil {
		panic("broker: a default of a knob is not of the knob's type: " + err.Error())
	}
	p.StageRetries = maps.Clone(defaultRetries)
	return p
}

// knobsOf reads the declarations of a struct's fields, also of the fields in its groups.
func knobsOf(policy reflect.Type) (all []Knob) {
	for _, f := range reflect.VisibleFields(policy) {
		if f.Anonymous {
			continue
		}
		tag := f.Tag.Get
		k := Knob{Unit: tag("unit"), Default: tag("default"), Help: tag("doc"), field: f.Index, typ: f.Type, accepts: tag("accepts")}
		k.Name, _, _ = strings.Cut(tag("json"), ",")
		if len(f.Index) > 1 {
			k.Group = policy.FieldByIndex(f.Index[:len(f.Index)-1]).Tag.Get("title")
		}
		if tag("enum") != "" {
			k.enum = strings.Split(tag("enum"), ",")
		}
		least, noMin := strconv.Atoi(tag("minimum"))
		most, noMax := strconv.Atoi(tag("maximum"))
		k.min, k.max, k.number = least, most, noMin == nil && noMax == nil
		k.maxLength, _ = strconv.Atoi(tag("maxLength"))
		k.maxItems, _ = strconv.Atoi(tag("maxItems"))
		switch f.Type.Kind() {
		case reflect.Bool:
			k.Unit = "switch"
		case reflect.Map:
			k.Default = retriesText(defaultRetries)
		}
		k.Bounds = k.bounds()
		all = append(all, k)
	}
	return all
}

// bounds says which values are allowed; empty: nothing is declared.
func (k Knob) bounds() string {
	switch {
	case k.typ.Kind() == reflect.Bool:
		return "true, false"
	case k.number:
		return fmt.Sprintf("%d to %d", k.min, k.max)
	case k.enum != nil:
		return strings.Join(k.enum, ", ")
	}
	return forms[k.accepts].bounds
}

func retriesText(retries map[string]int) string {
	var all []string
	for _, stage := range slices.Sorted(maps.Keys(retries)) {
		all = append(all, fmt.Sprintf("%s %d", stage, retries[stage]))
	}
	return strings.Join(all, ", ")
}

// defaultsOf is the JSON form of the defaults that the tags hold.
func defaultsOf(all []Knob) []byte {
	members := map[string]json.RawMessage{}
	for _, k := range all {
		switch {
		case k.Default == "" || k.typ.Kind() == reflect.Map:
		case k.typ.Kind() == reflect.String:
			members[k.Name] = json.RawMessage(strconv.Quote(k.Default))
		default:
			members[k.Name] = json.RawMessage(k.Default)
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		panic("broker: a default of a knob is no JSON: " + err.Error())
	}
	return raw
}

// Of returns the knob's value in a policy.
func (k Knob) Of(p Policy) any { return reflect.ValueOf(p).FieldByIndex(k.field).Interface() }

// Refusal says why the knob cannot have a value: with the name, the value unless it is a URL, the
// bounds and the unit. Empty: the value is allowed. A value comes from a policy or from JSON.
func (k Knob) Refusal(value any) string {
	switch v := value.(type) {
	case *int:
		if v == nil {
			return ""
		}
		return k.Refusal(float64(*v))
	case int:
		return k.Refusal(float64(v))
	case float64:
		if k.number && (v < float64(k.min) || v > float64(k.max)) {
			return fmt.Sprintf("%s is %s %s (allowed: %s %s)", k.Name, strconv.FormatFloat(v, 'f', -1, 64), k.Unit, k.Bounds, k.Unit)
		}
	case string:
		switch {
		case k.takes(v):
		case k.accepts == "bundle": // a refused URL may have credentials in it
			return fmt.Sprintf("%s is not a %s of the form %s", k.Name, k.Unit, k.Bounds)
		default:
			return fmt.Sprintf("%s is the %s %q (allowed: %s)", k.Name, k.Unit, cleanText(v), k.Bounds)
		}
	case map[string]int:
		return refusedRetries(v)
	case []string:
		return k.refusedList(v)
	}
	return ""
}

func (k Knob) refusedList(all []string) string {
	ok := forms[k.accepts].ok
	if ok == nil {
		return refusedChecks(all)
	}
	if len(all) > k.maxItems {
		return fmt.Sprintf("%s names %d %s (allowed: %d at most)", k.Name, len(all), k.Unit, k.maxItems)
	}
	for i, one := range all {
		switch {
		case !ok(one):
			return fmt.Sprintf("%s names %q (allowed: %s)", k.Name, cleanText(one), k.Bounds)
		case slices.Contains(all[:i], one):
			return fmt.Sprintf("%s names %s twice", k.Name, one)
		}
	}
	return ""
}

// takes reports whether a text is allowed.
func (k Knob) takes(text string) bool {
	switch ok := forms[k.accepts].ok; {
	case k.enum != nil:
		return slices.Contains(k.enum, text)
	case k.maxLength > 0 && len(text) > k.maxLength:
		return false
	case ok == nil || text == "" && k.Default == "":
		return true
	default:
		return ok(text)
	}
}
