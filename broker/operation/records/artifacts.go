package records

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/plan"
	"github.com/hostler/hostler/taskcatalog"
)

// Artifact is what a plan brings to a node, with what vouches for it.
type Artifact struct {
	Source, Digest string   // KIND:PATH; without a digest: Python packages
	Steps          []string // that bring it
	Required       bool     // a signature is
	// By names what requires a signature, or what says that the policy requires none.
	By         string
	Signatures []Signature
}

// Signature is a verified signature of an artifact.
type Signature struct {
	taskcatalog.ArtifactSignature
	Key string // digest of the public key that signed; empty: an identity did, or the signer is gone
}

// notByPolicy says which level leaves signatures open.
func notByPolicy(e broker.EffectiveOperationPolicy) string {
	if by, says := e.By["require_signature_verification"]; says {
		return by.Rule.String()
	}
	return "no level of the policy"
}

// Artifacts returns what the plan of an operation brings, in the order of the steps, and by whom it is signed.
func (r *Records) Artifacts(ctx context.Context, o broker.Operation) (all []Artifact, err error) {
	if o.Plan.Artifacts == nil {
		return nil, nil
	}
	e, err := r.policyOf(ctx, o)
	if err != nil {
		return nil, err
	}
	needs, err := r.needs(ctx, e, o)
	if err != nil {
		return nil, err
	}
	signers, err := r.DB.ArtifactSigners(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range o.Plan.Steps {
		if kind, _ := taskcatalog.StepKindOf(s.Kind); !kind.Artifact {
			continue
		}
		brought, ok := plan.ArtifactOf(s)
		if !ok {
			scheme, argument := definition.Scheme(s.Kind, s.With)
			path, _ := s.With[argument].Literal.(string)
			brought.Source = scheme + ":" + path
		}
		at := slices.IndexFunc(all, func(a Artifact) bool { return a.Source == brought.Source && a.Digest == brought.Digest })
		if at >= 0 {
			all[at].Steps = append(all[at].Steps, s.ID)
			continue
		}
		a := Artifact{Source: brought.Source, Digest: brought.Digest, Steps: []string{s.ID}, By: notByPolicy(e)}
		if i := slices.IndexFunc(needs, func(n need) bool { return n.Artifact == brought }); i >= 0 {
			a.Required, a.By = true, needs[i].by
		}
		for _, found := range o.Plan.Signatures {
			if found.Source == a.Source && found.Digest == a.Digest {
				a.Signatures = append(a.Signatures, Signature{ArtifactSignature: found, Key: keyOf(signers, found)})
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// keyOf is the digest of the key that made a signature.
func keyOf(signers []broker.ArtifactSigner, found taskcatalog.ArtifactSignature) string {
	for _, s := range signers {
		if s.Name == found.Signer && s.Trust() == found.Trust {
			return s.KeyDigest()
		}
	}
	return ""
}
