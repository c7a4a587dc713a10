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
	if by := m.signedBy(); kind.Artifact && by != "" {
		if err := Verifiable(m.d.ID(), s, by); err != nil {
			return err
		}
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
		if permitted := m.limits.Sources[j]; taskcatalog.SourceCovers(narrowest, permitted) {
			narrowest = permitted
		}
	}
	if m.sources == nil {
		m.sources = map[string]bool{}
	}
	m.sources[narrowest] = true
	return nil
}

// signedBy names what requires signatures of artifacts; empty: nothing does.
func (m *maker) signedBy() string {
	if m.d.Artifacts != nil && m.d.Artifacts.Signature == definition.SignatureRequired {
		return "the definition"
	}
	return m.limits.SignaturesBy
}

// Verifiable refuses a step that brings an artifact of which no signature is verified. by requires one. Code:
// signature_unverifiable.
func Verifiable(operation string, s taskcatalog.PlannedStep, by string) error {
	if _, ok := ArtifactOf(s); ok {
		return nil
	}
	return broker.Errorf(broker.Refused, CodeUnsigned,
		"cannot run %s: %s requires a signature of what step %s brings, and only signatures of OCI artifacts (artifact.pull_oci) and "+
			"of files (artifact.pull_blob) are verified", operation, by, s.ID)
}

// Artifact is what a plan brings to the node by its digest: an OCI artifact, or a file.
type Artifact struct {
	Source, Digest string // KIND:PATH
	Given          string // with a file: what is given as its signature; empty: nothing
}

// Repository is the repository of an OCI artifact; ok is false for a file.
func (a Artifact) Repository() (repository string, ok bool) {
	return strings.CutPrefix(a.Source, "oci:")
}

// ArtifactOf returns what a step brings by its digest; ok is false if it brings no such thing.
func ArtifactOf(s taskcatalog.PlannedStep) (a Artifact, ok bool) {
	if s.Kind != "artifact.pull_oci" && s.Kind != "artifact.pull_blob" {
		return a, false
	}
	scheme, argument := definition.Scheme(s.Kind, s.With)
	path, source := s.With[argument].Literal.(string)
	digest, literal := s.With["digest"].Literal.(string)
	given, _ := s.With["signature"].Literal.(string)
	return Artifact{Source: scheme + ":" + path, Digest: digest, Given: given}, source && literal && scheme != ""
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
