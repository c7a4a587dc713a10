package plan

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/taskcatalog"
)

// source holds what a step brings, or mints a credential for, against both lists.
func (m *maker) source(kind taskcatalog.StepKind, s taskcatalog.PlannedStep) error {
	scheme, argument := definition.Scheme(s.Kind, s.With)
	if scheme == "" && !kind.Artifact {
		return nil
	}
	text, literal := s.With[argument].Literal.(string)
	if m.d.Artifacts == nil || !literal {
		return broker.Errorf(broker.Refused, CodeSource, "cannot plan %s: step %s says no source", m.d.ID(), s.ID)
	}
	if kind.Artifact && (m.limits.RequireSignature || m.d.Artifacts.Signature == definition.SignatureRequired) {
		return broker.Errorf(broker.Refused, CodeUnsigned,
			"cannot plan %s: step %s brings an artifact that must be signed, and this release verifies no signatures of artifacts", m.d.ID(), s.ID)
	}
	i := slices.IndexFunc(m.d.Artifacts.Sources, func(l string) bool { return definition.Listed(l, scheme, text) })
	if i < 0 {
		return broker.Errorf(broker.Refused, CodeSource, "cannot plan %s: the definition does not list the %s of step %s (its sources: %s)",
			m.d.ID(), argument, s.ID, strings.Join(m.d.Artifacts.Sources, ", "))
	}
	narrowest := m.d.Artifacts.Sources[i]
	if m.limits.Sources != nil {
		j := slices.IndexFunc(m.limits.Sources, func(l string) bool { return definition.Listed(l, scheme, text) })
		if j < 0 {
			return broker.Errorf(broker.Refused, CodeSourceDenied, "cannot plan %s: the policy does not permit the %s of step %s",
				m.d.ID(), argument, s.ID)
		}
		if permitted := m.limits.Sources[j]; len(permitted) > len(narrowest) { // both cover one text: the longer lies below the shorter
			narrowest = permitted
		}
	}
	if m.sources == nil {
		m.sources = map[string]bool{}
	}
	m.sources[narrowest] = true
	return nil
}

// Sources returns KIND:PATH of whatever the steps of a plan bring to the node, or mint a credential for, sorted.
func Sources(p taskcatalog.OperationPlan) (all []string) {
	for _, s := range p.Steps {
		scheme, argument := definition.Scheme(s.Kind, s.With)
		if text, literal := s.With[argument].Literal.(string); literal && scheme != "" {
			all = append(all, scheme+":"+text)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
