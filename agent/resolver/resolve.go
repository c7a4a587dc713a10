package resolver

import (
	"strings"
	"time"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Resolved is a step's implementation on a machine: a command profile or a builtin.
type Resolved struct {
	Step    string
	Rule    string                   // the winning rule
	At      string                   // place of the rule: nvidia.yaml:12
	Command *profiles.CommandProfile // nil for a builtin
	Builtin string                   // without its prefix; "" for a command
}

// Resolve resolves a step on a machine with these facts. Code profile_missing if the winning rule
// does not name the step, unknown_step if the kind does not exist; Rule is set even then.
func Resolve(set *profiles.Set, facts map[string]string, step string) (Resolved, error) {
	r := Resolved{Step: step}
	if !profiles.KnownStep(step) {
		return r, taskcatalog.Errorf(profiles.CodeUnknownStep, "cannot resolve %q: it is not a step kind", taskcatalog.Clean(step, 64))
	}
	rule := set.Rule(facts)
	if rule == nil {
		return r, taskcatalog.Errorf(profiles.CodeProfileMissing,
			"cannot resolve %s: no rule matches this machine (push a set of profiles with a fallback)", step)
	}
	r.Rule, r.At = rule.Name, rule.At
	target, ok := rule.Overrides[step]
	if !ok {
		return r, taskcatalog.Errorf(profiles.CodeProfileMissing,
			"cannot resolve %s: rule %s does not name this step (push a set of profiles that does: hostler resolver push)", step, rule.Name)
	}
	if builtin, ok := strings.CutPrefix(target, profiles.BuiltinPrefix); ok {
		r.Builtin = builtin
		return r, nil
	}
	if r.Command, ok = set.Command(target); !ok {
		return r, taskcatalog.Errorf(profiles.CodeProfileMissing, "cannot resolve %s: there is no command profile %s", step, target)
	}
	return r, nil
}

// Profile names the implementation in records: a command profile's id, or builtin:NAME, or "".
func (r Resolved) Profile() string {
	switch {
	case r.Command != nil:
		return r.Command.ID
	case r.Builtin != "":
		return profiles.BuiltinPrefix + r.Builtin
	}
	return ""
}

// Nothing reports whether there is nothing to do on this hardware.
func (r Resolved) Nothing() bool { return r.Builtin == profiles.BuiltinNone }

// Record is the record of an attempt. The failure code may be empty.
func (r Resolved) Record(attempt int, status taskcatalog.StepStatus, code taskcatalog.Code, took time.Duration) taskcatalog.StepRecord {
	return taskcatalog.StepRecord{
		StepKind: r.Step, ResolvedProfile: r.Profile(), HardwareMatch: r.Rule,
		AttemptNumber: attempt, Status: status, ErrorCode: code, DurationMS: took.Milliseconds(),
	}
}
