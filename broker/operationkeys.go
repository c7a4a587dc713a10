package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// maxOperationList bounds each list of an overlay, as lists of definitions are bounded.
const maxOperationList = 32

// operationKey is a key of overlays. Its functions see overlays that set the key; narrow alone sees others, too.
type operationKey struct {
	Name   string
	code   string                          // of a denial
	value  func(o OperationOverlay) any    // nil: not set
	narrow func(to, by *OperationOverlay)  // leaves in to what both permit
	fault  func(o OperationOverlay) string // why the value is no value of the key; empty: it is
	// widens returns the part of o that wider does not permit; empty: there is none.
	widens func(o, wider OperationOverlay) string
	// adds is set where a value only adds to what the wider levels have, and so cannot widen them.
	adds bool
	// denies returns what of an execution is denied, and what the key has instead; nil: nothing is.
	denies func(o OperationOverlay, ask OperationAsk) (what, has string)
}

// operationKeys is the table of keys, in the order in which an execution is held against them.
var operationKeys = []operationKey{
	{
		Name: "enabled", code: "operation_denied",
		value: func(o OperationOverlay) any { return pointed(o.Enabled) },
		narrow: func(to, by *OperationOverlay) {
			to.Enabled = both(to.Enabled, by.Enabled, func(a, b bool) bool { return a && b })
		},
		widens: func(o, wider OperationOverlay) string { return textIf(*o.Enabled && !*wider.Enabled, "true") },
		denies: func(o OperationOverlay, _ OperationAsk) (string, string) { return "", textIf(!*o.Enabled, "is false") },
	},
	listKey("allowed_target_kinds", "target_kind_denied", func(o *OperationOverlay) *[]string { return &o.AllowedTargetKinds },
		func(listed, kind string) bool { return listed == kind },
		func(kind string) string {
			if !slices.Contains(OperationTargetKinds, kind) {
				return "is no kind of target (" + strings.Join(OperationTargetKinds, ", ") + ")"
			}
			return ""
		},
		func(ask OperationAsk) []string { return []string{ask.TargetKind} }, " on target kind "),
	listKey("allowed_artifact_sources", "artifact_source_denied", func(o *OperationOverlay) *[]string { return &o.AllowedArtifactSources },
		taskcatalog.SourceCovers, taskcatalog.SourceListFault, func(ask OperationAsk) []string { return ask.Sources }, " from "),
	{
		Name:   "require_signature_verification",
		value:  func(o OperationOverlay) any { return pointed(o.RequireSignatureVerification) },
		narrow: narrowSignature,
		widens: func(o, wider OperationOverlay) string {
			return textIf(!*o.RequireSignatureVerification && *wider.RequireSignatureVerification, "false")
		},
	},
	limitKey("max_artifact_size_bytes", "artifact_size_denied", 1<<44, func(o *OperationOverlay) **int64 { return &o.MaxArtifactSizeBytes },
		func(most int64, ask OperationAsk) (string, bool) {
			return " with artifacts of up to " + numberOr(ask.MaxArtifactBytes, "unknown") + " bytes",
				len(ask.Sources) > 0 && (ask.MaxArtifactBytes <= 0 || ask.MaxArtifactBytes > most)
		}),
	limitKey("timeout_seconds", "operation_timeout_denied", 86400, func(o *OperationOverlay) **int64 { return &o.TimeoutSeconds },
		func(most int64, ask OperationAsk) (string, bool) {
			return " for up to " + numberOr(int64(ask.Timeout/time.Second), "unknown") + " seconds",
				ask.Timeout <= 0 || ask.Timeout > time.Duration(most)*time.Second
		}),
	limitKey("max_concurrency", "operation_concurrency_denied", 10000, func(o *OperationOverlay) **int64 { return &o.MaxConcurrency },
		func(most int64, ask OperationAsk) (string, bool) {
			return fmt.Sprintf(" beside %d executions under way", ask.Running), ask.Running >= most
		}),
	conditionsKey(),
}

// OperationKeys returns the names of the keys of overlays.
func OperationKeys() (names []string) {
	for _, k := range operationKeys {
		names = append(names, k.Name)
	}
	return names
}

// OperationDenials returns the codes by which policies and a policy engine deny executions.
func OperationDenials() (codes []string) {
	for _, k := range operationKeys {
		if k.code != "" {
			codes = append(codes, k.code)
		}
	}
	return append(codes, PolicyEngineDenied, PolicyEngineUnreachable)
}

// Value returns the value of a key; nil: it is not set, or there is no such key.
func (o OperationOverlay) Value(key string) any {
	i := slices.IndexFunc(operationKeys, func(k operationKey) bool { return k.Name == key })
	if i < 0 {
		return nil
	}
	return operationKeys[i].value(o)
}

// Narrow returns what both overlays permit: what either denies is denied. The order of overlays makes
// no difference.
func (o OperationOverlay) Narrow(by OperationOverlay) OperationOverlay {
	for _, k := range operationKeys {
		k.narrow(&o, &by)
	}
	return o
}

// Check refuses an overlay with a value that its key cannot have, and an overlay without keys. Code:
// operation_policy_invalid.
func (o OperationOverlay) Check() error {
	set := 0
	for _, k := range operationKeys {
		if k.value(o) == nil {
			continue
		}
		set++
		if k.fault == nil {
			continue
		}
		if what := k.fault(o); what != "" {
			return Errorf(Invalid, "operation_policy_invalid", "%s %s", k.Name, what)
		}
	}
	if set == 0 {
		return Errorf(Invalid, "operation_policy_invalid", "the policy has no key (give at least one of %s, or delete the policy)",
			strings.Join(OperationKeys(), ", "))
	}
	return nil
}

// limitKey is a key with the largest permitted number. The least of two limits counts.
func limitKey(name, code string, highest int64, of func(*OperationOverlay) **int64,
	beyond func(most int64, ask OperationAsk) (string, bool),
) operationKey {
	get := func(o OperationOverlay) *int64 { return *of(&o) }
	return operationKey{
		Name: name, code: code,
		value: func(o OperationOverlay) any { return pointed(get(o)) },
		narrow: func(to, by *OperationOverlay) {
			*of(to) = both(*of(to), *of(by), func(a, b int64) int64 { return min(a, b) })
		},
		fault: func(o OperationOverlay) string {
			return textIf(*get(o) < 1 || *get(o) > highest, fmt.Sprintf("is not between 1 and %d", highest))
		},
		widens: func(o, wider OperationOverlay) string {
			return textIf(*get(o) > *get(wider), fmt.Sprint(*get(o)))
		},
		denies: func(o OperationOverlay, ask OperationAsk) (string, string) {
			what, denied := beyond(*get(o), ask)
			return what, textIf(denied, fmt.Sprintf("is %d", *get(o)))
		},
	}
}

// listKey is a key with a list of what is permitted. An entry of one list that an entry of the other covers is
// permitted by both.
func listKey(name, code string, of func(*OperationOverlay) *[]string, covers func(listed, entry string) bool,
	fault func(entry string) string, asked func(OperationAsk) []string, preposition string,
) operationKey {
	get := func(o OperationOverlay) []string { return *of(&o) }
	covered := func(list []string, entry string) bool {
		return slices.ContainsFunc(list, func(l string) bool { return covers(l, entry) })
	}
	// shared returns what both lists permit, sorted, without entries that others of the result cover.
	// Of two spellings of one source the first stays.
	shared := func(a, b []string) []string {
		out := []string{}
		for _, entry := range slices.Concat(a, b) {
			if covered(a, entry) && covered(b, entry) {
				out = append(out, entry)
			}
		}
		slices.Sort(out)
		out = slices.Compact(out)
		all := slices.Clone(out)
		return slices.DeleteFunc(out, func(entry string) bool {
			return slices.ContainsFunc(all, func(l string) bool {
				return l != entry && covers(l, entry) && (l < entry || !covers(entry, l))
			})
		})
	}
	return operationKey{
		Name: name, code: code,
		value: func(o OperationOverlay) any {
			if get(o) == nil {
				return nil
			}
			return get(o)
		},
		narrow: func(to, by *OperationOverlay) {
			a, b := *of(to), *of(by)
			switch {
			case a == nil && b == nil:
				return
			case a == nil:
				a = b
			case b == nil:
				b = a
			}
			*of(to) = shared(a, b)
		},
		fault: func(o OperationOverlay) string {
			if len(get(o)) > maxOperationList {
				return fmt.Sprintf("has %d entries (at most %d)", len(get(o)), maxOperationList)
			}
			for _, entry := range get(o) {
				if what := fault(entry); what != "" {
					return fmt.Sprintf("has %q, which %s", cleanText(entry), what)
				}
			}
			return ""
		},
		widens: func(o, wider OperationOverlay) string {
			for _, entry := range get(o) {
				if !covered(get(wider), entry) {
					return entry
				}
			}
			return ""
		},
		denies: func(o OperationOverlay, ask OperationAsk) (string, string) {
			for _, entry := range asked(ask) {
				if !covered(get(o), entry) {
					return preposition + cleanText(entry), "has " + textIf(len(get(o)) > 0, "only ") + operationValue(get(o))
				}
			}
			return "", ""
		},
	}
}

// narrowSignature leaves a verification required where either overlay requires it.
func narrowSignature(to, by *OperationOverlay) {
	to.RequireSignatureVerification = both(to.RequireSignatureVerification, by.RequireSignatureVerification,
		func(a, b bool) bool { return a || b })
}

// both joins two values, either of which may be missing.
func both[T any](a, b *T, join func(a, b T) T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	v := join(*a, *b)
	return &v
}

// pointed returns the value behind p, or nil.
func pointed[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// operationValue is a key's value as a text of bounded length.
func operationValue(v any) string {
	list, isList := v.([]string)
	switch shown := list[:min(len(list), 5)]; {
	case !isList:
		return fmt.Sprint(v)
	case len(list) == 0:
		return "no entry"
	case len(list) > len(shown):
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), len(list)-len(shown))
	default:
		return strings.Join(shown, ", ")
	}
}

func textIf(so bool, text string) string {
	if so {
		return text
	}
	return ""
}

func numberOr(n int64, none string) string {
	if n <= 0 {
		return none
	}
	return fmt.Sprint(n)
}

// Beyond returns the first key in which o permits more than another overlay; empty: in none. A key that only
// the other overlay sets counts.
func (o OperationOverlay) Beyond(other OperationOverlay) string {
	for _, k := range operationKeys {
		if k.value(other) != nil && (k.value(o) == nil || k.widens(o, other) != "") {
			return k.Name
		}
	}
	return ""
}
