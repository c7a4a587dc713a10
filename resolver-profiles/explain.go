package profiles

import (
	"maps"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// Matches reports whether the rule matches a machine with these facts. A missing fact matches no
// value.
func (h *HardwareProfile) Matches(keys map[string]string) bool {
	for key, values := range h.Match {
		have, ok := keys[key]
		if !ok || !slices.Contains(values, have) {
			return false
		}
	}
	return true
}

// Rule returns the winning rule for a machine with these facts.
func (s *Set) Rule(keys map[string]string) *HardwareProfile {
	for i := range s.HardwareProfiles {
		if h := &s.HardwareProfiles[i]; h.Matches(keys) {
			return h
		}
	}
	return nil // unreachable: a set from Parse or Decode always has a fallback
}

// CodeProfileMissing is the code of a step that the winning rule does not name.
const CodeProfileMissing taskcatalog.Code = "profile_missing"

// Explanation says why a step resolves as it does on one machine.
type Explanation struct {
	Step    string            `json:"step"`
	Version string            `json:"version,omitempty"`
	Digest  string            `json:"digest"`
	Facts   map[string]string `json:"facts"`
	Rules   []RuleExplanation `json:"rules"`
	Rule    string            `json:"rule,omitempty"`             // the winner
	Profile string            `json:"resolved_profile,omitempty"` // a command profile's id, or builtin:NAME
	Argv    []string          `json:"argv,omitempty"`             // of the command profile, without the step's arguments
	Code    taskcatalog.Code  `json:"code,omitempty"`             // profile_missing, unknown_step
}

// RuleExplanation is one rule: whether it matched, and the result of each condition.
type RuleExplanation struct {
	Name       string      `json:"name"`
	At         string      `json:"at,omitempty"`
	Matched    bool        `json:"matched"`
	Won        bool        `json:"won"`
	Fallback   bool        `json:"fallback,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is one key of a rule's match, beside the machine's fact.
type Condition struct {
	Key   string   `json:"key"`
	Want  []string `json:"want"`
	Have  string   `json:"have,omitempty"`
	Known bool     `json:"known"` // false: the machine has no such fact
	Holds bool     `json:"holds"`
}

// Explain walks every rule for one step on a machine with these facts.
func (s *Set) Explain(keys map[string]string, step string) Explanation {
	e := Explanation{Step: step, Version: s.Version, Digest: s.Digest(), Facts: keys}
	for i := range s.HardwareProfiles {
		h := &s.HardwareProfiles[i]
		r := RuleExplanation{Name: h.Name, At: h.At, Matched: h.Matches(keys), Fallback: h.fallback()}
		for _, key := range slices.Sorted(maps.Keys(h.Match)) {
			have, known := keys[key]
			r.Conditions = append(r.Conditions, Condition{
				Key: key, Want: h.Match[key], Have: have, Known: known, Holds: known && slices.Contains(h.Match[key], have),
			})
		}
		if r.Matched && e.Rule == "" {
			r.Won, e.Rule, e.Profile = true, h.Name, h.Overrides[step]
		}
		e.Rules = append(e.Rules, r)
	}
	switch {
	case !KnownStep(step):
		e.Code, e.Profile = CodeUnknownStep, ""
	case e.Profile == "":
		e.Code = CodeProfileMissing
	}
	if p, ok := s.Command(e.Profile); ok {
		e.Argv = append([]string{p.Command}, p.BaseArgs...)
	}
	return e
}
