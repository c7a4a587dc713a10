package reconcile

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Policy is a site's policy for drift. Zero values are the defaults.
type Policy struct {
	Modes               map[string]Mode `json:"modes,omitempty"` // by rule
	MaxSharePercent     int             `json:"max_share_percent,omitempty"`
	AtLeast             int             `json:"at_least,omitempty"`
	ConfirmSeconds      int             `json:"confirm_seconds,omitempty"`
	RetiredGraceSeconds int             `json:"retired_grace_seconds,omitempty"`
	DecommissionsAtOnce int             `json:"decommissions_at_once,omitempty"`
}

// DefaultPolicy applies where a site sets nothing else.
var DefaultPolicy = Policy{MaxSharePercent: 10, AtLeast: 5, ConfirmSeconds: 30, RetiredGraceSeconds: 24 * 3600, DecommissionsAtOnce: 1}

// PolicyOf reads a site's stored policy; nil is the default policy.
func PolicyOf(raw json.RawMessage) (p Policy, err error) {
	if len(raw) > 0 {
		err = taskcatalog.DecodeStrict(raw, &p)
	}
	return p.filled(), err
}

func (p Policy) filled() Policy {
	fill := func(v *int, or int) {
		if *v == 0 {
			*v = or
		}
	}
	fill(&p.MaxSharePercent, DefaultPolicy.MaxSharePercent)
	fill(&p.AtLeast, DefaultPolicy.AtLeast)
	fill(&p.ConfirmSeconds, DefaultPolicy.ConfirmSeconds)
	fill(&p.RetiredGraceSeconds, DefaultPolicy.RetiredGraceSeconds)
	fill(&p.DecommissionsAtOnce, DefaultPolicy.DecommissionsAtOnce)
	return p
}

// Mode returns the mode of a rule.
func (p Policy) Mode(rule string) Mode {
	if m, ok := p.Modes[rule]; ok {
		return m
	}
	r, _ := RuleOf(rule)
	return r.Default
}

// TooMany reports whether so many changes at once, of so many nodes, more likely have a cause
// outside the nodes.
func (p Policy) TooMany(changes, nodes int) bool {
	return changes >= p.AtLeast && changes*100 > p.MaxSharePercent*nodes
}

func (p Policy) confirm() time.Duration { return time.Duration(p.ConfirmSeconds) * time.Second }

// Grace is how long a node may stay retired with its machine deployed.
func (p Policy) Grace() time.Duration { return time.Duration(p.RetiredGraceSeconds) * time.Second }

// Check refuses an invalid policy. Code: reconcile_policy_invalid.
func (p Policy) Check() error {
	bad := func(format string, args ...any) error {
		return broker.Errorf(broker.Invalid, "reconcile_policy_invalid", "cannot store the policy: "+format, args...)
	}
	for _, id := range slices.Sorted(maps.Keys(p.Modes)) {
		_, known := RuleOf(id)
		switch {
		case !known:
			return bad("there is no rule %q (see hostler site reconcile show SITE)", taskcatalog.Clean(id, 64))
		case id == Unmanaged:
			return bad("rule %s has no mode: the broker never acts on a machine that belongs to no node", id)
		case !slices.Contains(Modes, p.Modes[id]):
			return bad("mode %q of rule %s is not observe, act or off", taskcatalog.Clean(string(p.Modes[id]), 32), id)
		}
	}
	p = p.filled()
	switch {
	case p.MaxSharePercent < 1 || p.MaxSharePercent > 100:
		return bad("max_share_percent %d is not between 1 and 100", p.MaxSharePercent)
	case p.AtLeast < 1 || p.AtLeast > 10000:
		return bad("at_least %d is not between 1 and 10000", p.AtLeast)
	case p.ConfirmSeconds < 10 || p.ConfirmSeconds > 3600:
		return bad("confirm_seconds %d is not between 10 and 3600", p.ConfirmSeconds)
	case p.RetiredGraceSeconds < 3600 || p.RetiredGraceSeconds > 365*24*3600:
		return bad("retired_grace_seconds %d is not between 3600 and a year", p.RetiredGraceSeconds)
	case p.DecommissionsAtOnce < 1 || p.DecommissionsAtOnce > 100:
		return bad("decommissions_at_once %d is not between 1 and 100", p.DecommissionsAtOnce)
	}
	return nil
}
