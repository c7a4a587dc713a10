package broker

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// OperationLevel is a level of the policy of operations. Each level narrows what the wider levels
// permit, and no level widens it.
type OperationLevel string

// The levels, from the widest.
const (
	OperationGlobal  OperationLevel = "global"
	OperationTenant  OperationLevel = "tenant" // an organisation
	OperationProject OperationLevel = "project"
)

var operationLevels = []OperationLevel{OperationGlobal, OperationTenant, OperationProject}

// OperationLevelOf returns the level of a place.
func OperationLevelOf(p Place) OperationLevel {
	switch {
	case p.OfPlatform():
		return OperationGlobal
	case p.ProjectID == "":
		return OperationTenant
	}
	return OperationProject
}

// AllOperations stands for every operation in a policy.
const AllOperations = "*"

var operationForm = lazyregexp.New(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,4}$`)

// CheckOperation refuses a text that is neither an operation nor AllOperations. The operation need
// not exist. Code: operation_invalid.
func CheckOperation(operation string) error {
	if operation == AllOperations || len(operation) <= 64 && operationForm.MatchString(operation) {
		return nil
	}
	return Errorf(Invalid, "operation_invalid",
		"%q is no operation (write it without a version, such as model.artifact.stage, or * for all operations)", cleanText(operation))
}

// OperationTargetKinds are the kinds of targets of operations.
var OperationTargetKinds = []string{"node", "allocation", "group"}

// OperationOverlay is what a level says of an operation. A key that is nil says nothing. An empty
// list permits nothing.
type OperationOverlay struct {
	Enabled *bool `json:"enabled,omitempty"`
	// MaxConcurrency bounds how many executions of the operation a project has at the same time.
	MaxConcurrency *int64 `json:"max_concurrency,omitempty"`
	TimeoutSeconds *int64 `json:"timeout_seconds,omitempty"` // of an execution
	// AllowedArtifactSources are listed as in definitions: s3:models covers s3:models/public.
	AllowedArtifactSources       []string `json:"allowed_artifact_sources,omitzero"`
	AllowedTargetKinds           []string `json:"allowed_target_kinds,omitzero"`
	RequireSignatureVerification *bool    `json:"require_signature_verification,omitempty"`
	MaxArtifactSizeBytes         *int64   `json:"max_artifact_size_bytes,omitempty"` // of each artifact
	// Conditions must all be true, with those of the other levels.
	Conditions []OperationCondition `json:"conditions,omitempty"`
}

// OperationPolicy is the overlay of a place for an operation.
type OperationPolicy struct {
	Place     Place  // the platform: the global policy
	Operation string // or AllOperations
	Overlay   OperationOverlay
	UpdatedAt time.Time
}

// Rule names the policy.
func (p OperationPolicy) Rule() OperationRule {
	return OperationRule{Level: OperationLevelOf(p.Place), Operation: p.Operation}
}

// OperationRule names a policy by its level and operation.
type OperationRule struct {
	Level     OperationLevel
	Operation string
}

func (r OperationRule) String() string {
	level := "the " + string(r.Level) + "'s policy"
	if r.Level == OperationGlobal {
		level = "the global policy"
	}
	if r.Operation == AllOperations {
		return level + " for all operations"
	}
	return level + " for " + r.Operation
}

// Of reports whether the policy concerns an operation in a place.
func (p OperationPolicy) Of(place Place, operation string) bool {
	return p.Place.Covers(place) && (p.Operation == AllOperations || p.Operation == operation)
}

// compare orders policies from the widest level, and within a level from all operations to one.
func (p OperationPolicy) compare(q OperationPolicy) int {
	a, b := p.Rule(), q.Rule()
	return cmp.Or(slices.Index(operationLevels, a.Level)-slices.Index(operationLevels, b.Level),
		strings.Compare(a.Operation, b.Operation)) // '*' comes before every letter
}

// EffectiveOperationPolicy is what all levels together say of an operation in a place.
type EffectiveOperationPolicy struct {
	Operation string
	// Overlay has each key as narrow as the narrowest level. A key that is nil has no limit.
	Overlay OperationOverlay
	By      map[string]OperationDecision // by key; without an entry: no level sets the key
	from    []OperationPolicy            // from the widest
}

// OperationDecision says which policy decided a key: the last policy that set or narrowed it.
type OperationDecision struct {
	Rule OperationRule
	// Apart is set if no entry of a list is left: the wider policy that shares none with Rule.
	Apart *OperationRule
}

// MergeOperationPolicies returns what the policies say of an operation in a place. Policies of other
// places and operations are passed over.
func MergeOperationPolicies(place Place, operation string, all []OperationPolicy) EffectiveOperationPolicy {
	e := EffectiveOperationPolicy{Operation: operation, By: map[string]OperationDecision{}}
	for _, p := range all {
		if p.Of(place, operation) {
			e.from = append(e.from, p)
		}
	}
	slices.SortFunc(e.from, OperationPolicy.compare)
	for i, p := range e.from {
		next := e.Overlay.Narrow(p.Overlay)
		for _, k := range operationKeys {
			if !reflect.DeepEqual(k.value(e.Overlay), k.value(next)) {
				e.By[k.Name] = OperationDecision{Rule: p.Rule(), Apart: e.apart(k, e.from[:i], p, next)}
			}
		}
		e.Overlay = next
	}
	return e
}

// apart returns the policy that shares no entry of a list with p, if p left the list without entries.
// Where three policies share none, but each two of them do, this is the policy that decided before p.
func (e EffectiveOperationPolicy) apart(k operationKey, wider []OperationPolicy, p OperationPolicy, next OperationOverlay) *OperationRule {
	empty := func(o OperationOverlay) bool {
		list, isList := k.value(o).([]string)
		return isList && len(list) == 0
	}
	before, decided := e.By[k.Name]
	if !decided || !empty(next) || empty(p.Overlay) {
		return nil
	}
	rule := before.Rule
	if i := slices.IndexFunc(wider, func(w OperationPolicy) bool { return empty(w.Overlay.Narrow(p.Overlay)) }); i >= 0 {
		rule = wider[i].Rule()
	}
	return &rule
}

// RequiresSignature reports whether the signatures of artifacts must be verified.
func (e EffectiveOperationPolicy) RequiresSignature() bool {
	return e.Overlay.RequireSignatureVerification != nil && *e.Overlay.RequireSignatureVerification
}

// OperationAsk is an execution that is asked for.
type OperationAsk struct {
	TargetKind       string
	Sources          []string // KIND:PATH of what its steps bring; empty: nothing
	MaxArtifactBytes int64    // of each artifact; 0: not known
	Timeout          time.Duration
	Running          int64 // executions of the operation that the project has already
	// Holds says whether a condition is true of the execution. An error denies, and so does a function that is missing.
	Holds func(OperationCondition) (bool, error)
}

// Permit refuses an execution that a level denies, and names the widest such level. Codes:
// operation_denied, target_kind_denied, artifact_source_denied, artifact_size_denied,
// operation_timeout_denied, operation_concurrency_denied, operation_condition_denied.
func (e EffectiveOperationPolicy) Permit(ask OperationAsk) error {
	for _, k := range operationKeys {
		for _, p := range e.from {
			if k.denies == nil || k.value(p.Overlay) == nil {
				continue
			}
			what, has := k.denies(p.Overlay, ask)
			if has == "" {
				continue
			}
			return Errorf(Refused, k.code, "cannot run %s%s: denied by %s: %s %s%s (see hostler operation policy explain %s)",
				e.Operation, what, p.Rule(), k.Name, has, e.parted(k), e.Operation)
		}
	}
	return nil
}

// parted adds which levels leave nothing of a list.
func (e EffectiveOperationPolicy) parted(k operationKey) string {
	d := e.By[k.Name]
	if d.Apart == nil {
		return ""
	}
	return "; " + d.Apart.String() + " and " + d.Rule.String() + " have none in common"
}

// CheckNarrows refuses a policy that would permit what a wider policy denies: such a key could never
// have an effect. Code: policy_cannot_widen.
func (p OperationPolicy) CheckNarrows(wider []OperationPolicy) error {
	wider = slices.DeleteFunc(slices.Clone(wider), func(w OperationPolicy) bool { return w.compare(p) >= 0 })
	e := MergeOperationPolicies(p.Place, p.Operation, wider)
	for _, k := range operationKeys {
		if k.adds || k.value(p.Overlay) == nil || k.value(e.Overlay) == nil {
			continue
		}
		if asks := k.widens(p.Overlay, e.Overlay); asks != "" {
			return Errorf(Refused, "policy_cannot_widen", "cannot set %s of %s to %s: %s has %s, which no narrower policy can widen "+
				"(leave the key out, or narrow it further)", k.Name, p.Rule(), asks, e.By[k.Name].Rule, operationValue(k.value(e.Overlay)))
		}
	}
	return nil
}

// OperationPolicyOf reads a stored overlay. A key that this broker does not know is refused: a newer
// broker may have written it. Code: operation_policy_unreadable.
func OperationPolicyOf(raw []byte) (o OperationOverlay, err error) {
	if err = taskcatalog.DecodeStrict(raw, &o); err == nil {
		err = o.Check()
	}
	if err != nil {
		return OperationOverlay{}, Errorf(Refused, "operation_policy_unreadable",
			"a stored policy of operations cannot be read: %v (set the policy again: hostler operation policy set)", err)
	}
	return o, nil
}
