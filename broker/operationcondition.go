package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Bounds of the conditions of a policy.
const (
	maxOperationConditions  = 16
	maxConditionExpression  = 1024 // bytes
	maxConditionMessage     = 200  // bytes
	operationConditionsName = "conditions"
)

var conditionNameForm = lazyregexp.New(`^[a-z][a-z0-9_]{0,47}$`)

// OperationCondition is what must be true of an execution. Package condition judges it.
type OperationCondition struct {
	Name       string `json:"name" maxLength:"48"`
	Expression string `json:"expression" maxLength:"1024" doc:"in CEL; its result is a bool"`
	// Message tells whoever is denied what the condition wants.
	Message string `json:"message" maxLength:"200" doc:"told to whoever is denied"`
}

func (c OperationCondition) compare(d OperationCondition) int {
	return slices.Compare([]string{c.Name, c.Expression, c.Message}, []string{d.Name, d.Expression, d.Message})
}

// OperationFacts are what conditions and a policy engine may know of an execution, and all that they may know.
type OperationFacts struct {
	Operation       string            `json:"operation"` // model.artifact.stage
	Version         string            `json:"version"`   // v1
	Backend         string            `json:"backend"`
	Trigger         string            `json:"trigger"`
	TargetKind      string            `json:"target_kind"`
	NodeCount       int               `json:"node_count"`
	Site            string            `json:"site"`
	SKU             string            `json:"sku"`
	Labels          map[string]string `json:"labels"` // of the target
	ArtifactSources []string          `json:"artifact_sources"`
	Hour            int               `json:"hour"`   // of the day in UTC
	Minute          int               `json:"minute"` // of the hour
}

// At sets the time of day.
func (f OperationFacts) At(now time.Time) OperationFacts {
	f.Hour, f.Minute = now.UTC().Hour(), now.UTC().Minute()
	return f
}

// Digest names the facts.
func (f OperationFacts) Digest() (string, error) {
	raw, err := taskcatalog.Encode(f)
	return pki.Digest(raw), err
}

// The codes of a policy engine that the platform may have beside its policies.
const (
	PolicyEngineDenied      = "policy_engine_denied"
	PolicyEngineUnreachable = "policy_engine_unreachable" // what nobody can ask permits nothing
)

// RuledCondition is a condition with the policy that has it.
type RuledCondition struct {
	Rule OperationRule
	OperationCondition
}

// Conditions returns the conditions of all levels, from the widest. Each must be true.
func (e EffectiveOperationPolicy) Conditions() (all []RuledCondition) {
	for _, p := range e.from {
		for _, c := range p.Overlay.Conditions {
			all = append(all, RuledCondition{Rule: p.Rule(), OperationCondition: c})
		}
	}
	return all
}

// conditionsKey is the key with conditions. The conditions of all levels must be true.
func conditionsKey() operationKey {
	return operationKey{
		Name: operationConditionsName, code: "operation_condition_denied", adds: true,
		value: func(o OperationOverlay) any {
			if len(o.Conditions) == 0 {
				return nil
			}
			return o.Conditions
		},
		narrow: func(to, by *OperationOverlay) {
			if len(to.Conditions)+len(by.Conditions) == 0 {
				to.Conditions = nil
				return
			}
			all := slices.Concat(to.Conditions, by.Conditions)
			slices.SortFunc(all, OperationCondition.compare)
			to.Conditions = slices.Compact(all)
		},
		fault: func(o OperationOverlay) string { return conditionsFault(o.Conditions) },
		widens: func(o, wider OperationOverlay) string {
			for _, c := range wider.Conditions {
				if !slices.ContainsFunc(o.Conditions, func(own OperationCondition) bool { return own.Expression == c.Expression }) {
					return c.Name
				}
			}
			return ""
		},
		denies: func(o OperationOverlay, ask OperationAsk) (string, string) {
			for _, c := range o.Conditions {
				if why := ask.fails(c); why != "" {
					return "", "has " + c.Name + ", which " + why
				}
			}
			return "", ""
		},
	}
}

// fails says why a condition denies; empty: it does not. What nobody can judge denies.
func (ask OperationAsk) fails(c OperationCondition) string {
	if ask.Holds == nil {
		return "nothing can judge"
	}
	switch yes, err := ask.Holds(c); {
	case err != nil:
		return "cannot be judged: " + taskcatalog.Clean(err.Error(), 200)
	case !yes:
		return "is not true: " + c.Message
	}
	return ""
}

// conditionsFault says what is wrong with a list of conditions; empty: nothing, as far as can be seen without
// reading their expressions.
func conditionsFault(all []OperationCondition) string {
	if len(all) > maxOperationConditions {
		return fmt.Sprintf("has %d entries (at most %d)", len(all), maxOperationConditions)
	}
	seen := map[string]bool{}
	for _, c := range all {
		oneLine := strings.NewReplacer("\n", " ", "\t", " ").Replace(c.Expression)
		switch {
		case !conditionNameForm.MatchString(c.Name):
			return fmt.Sprintf("has the name %q (write it such as working_hours, with at most 48 characters)", cleanText(c.Name))
		case seen[c.Name]:
			return fmt.Sprintf("has %s twice", c.Name)
		case strings.TrimSpace(oneLine) == "" || taskcatalog.Clean(oneLine, maxConditionExpression) != oneLine:
			return fmt.Sprintf("has %s, whose expression is not a text of 1 to %d bytes without control characters", c.Name, maxConditionExpression)
		case c.Message == "" || taskcatalog.Clean(c.Message, maxConditionMessage) != c.Message:
			return fmt.Sprintf("has %s, whose message is not one line of 1 to %d bytes", c.Name, maxConditionMessage)
		}
		seen[c.Name] = true
	}
	return ""
}
