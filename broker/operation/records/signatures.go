package records

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/plan"
	"github.com/hostler/hostler/broker/signature"
	"github.com/hostler/hostler/taskcatalog"
)

// patience bounds how long registries are asked for the signatures of a plan: somebody waits for it.
const patience = 25 * time.Second

// Signatures judges the signatures of an artifact: signature.Judge.
type Signatures interface {
	Artifact(ctx context.Context, lists [][]broker.ArtifactSigner, repository, digest string) ([]taskcatalog.ArtifactSignature, error)
	// File judges what is given as the signature of a file at a source, KIND:PATH.
	File(lists [][]broker.ArtifactSigner, source, digest, given string) ([]taskcatalog.ArtifactSignature, error)
}

// signaturesBy names the policy that requires signatures; empty: none does.
func signaturesBy(e broker.EffectiveOperationPolicy) string {
	if !e.RequiresSignature() {
		return ""
	}
	return e.By["require_signature_verification"].Rule.String()
}

// need is an artifact that needs a signature.
type need struct {
	plan.Artifact
	by    string // what requires it
	lists [][]broker.SignerTrust
}

// needs returns the artifacts of a plan that need a signature by the policy, by the definition, or because
// signers are set for their source. Code: signature_unverifiable.
func (r *Records) needs(ctx context.Context, e broker.EffectiveOperationPolicy, o broker.Operation) (all []need, err error) {
	if o.Plan.Artifacts == nil {
		return nil, nil
	}
	signers, err := r.DB.ArtifactSignerTrusts(ctx)
	if err != nil {
		return nil, err
	}
	by := signaturesBy(e)
	if by == "" && o.Plan.Artifacts.Signed {
		by = "the definition"
	}
	for _, s := range o.Plan.Steps {
		kind, _ := taskcatalog.StepKindOf(s.Kind)
		if !kind.Artifact {
			continue
		}
		if by != "" {
			if err := plan.Verifiable(o.Operation, s, by); err != nil {
				return nil, err
			}
		}
		a, ok := plan.ArtifactOf(s)
		if !ok || slices.ContainsFunc(all, func(n need) bool { return n.Artifact == a }) {
			continue
		}
		n := need{Artifact: a, by: by, lists: broker.ArtifactSignersOf(signers, a.Source)}
		if len(n.lists) > 0 {
			n.by = cmp.Or(by, "an artifact signer of "+n.lists[0][0].Source)
		}
		if n.by != "" {
			all = append(all, n)
		}
	}
	return all, nil
}

// refuse says what requires a signature.
func (n need) refuse(o broker.Operation, err error) error {
	e := broker.AsError(err)
	if e.Kind == broker.Internal {
		return err
	}
	return broker.Errorf(e.Kind, e.Code, "cannot run %s: %s requires a signature of what it brings: %s", o.Operation, n.by, e.Message)
}

// signatures judges the artifacts of a plan that need it. Codes: those of signature.Judge,
// signatures_busy and signature_unverifiable.
func (r *Records) signatures(
	ctx context.Context, e broker.EffectiveOperationPolicy, o broker.Operation,
) (all []taskcatalog.ArtifactSignature, err error) {
	needs, err := r.needs(ctx, e, o)
	if err != nil || len(needs) == 0 {
		return nil, err
	}
	end, err := r.judging.begin(o.ProjectID)
	if err != nil {
		return nil, err
	}
	defer end()
	signers, err := r.DB.ArtifactSigners(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, n := range needs {
		found, err := r.judged(ctx, broker.ArtifactSignersOf(signers, n.Source), n.Artifact)
		if err != nil {
			return nil, n.refuse(o, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (r *Records) judged(
	ctx context.Context, lists [][]broker.ArtifactSigner, a plan.Artifact,
) ([]taskcatalog.ArtifactSignature, error) {
	if repository, oci := a.Repository(); oci {
		return r.Signatures.Artifact(ctx, lists, repository, a.Digest)
	}
	return r.Signatures.File(lists, a.Source, a.Digest, a.Given)
}

// signed refuses a plan whose verified signatures are no longer enough: a further signature is required,
// or a signer was removed or changed. An attempt that runs goes on when only a trusted root was renewed. No
// registry is asked. Codes: signature_no_signer, signature_stale, signature_unverifiable.
func (r *Records) signed(ctx context.Context, e broker.EffectiveOperationPolicy, o broker.Operation) error {
	needs, err := r.needs(ctx, e, o)
	if err != nil {
		return err
	}
	runs := o.Status == broker.OperationRunning
	for _, n := range needs {
		if len(n.lists) == 0 {
			return n.refuse(o, signature.NoSigner(n.Source, n.Digest))
		}
		for _, list := range n.lists {
			if !slices.ContainsFunc(o.Plan.Signatures, func(s taskcatalog.ArtifactSignature) bool { return n.heldBy(list, s, runs) }) {
				return n.refuse(o, broker.Errorf(broker.Refused, "signature_stale",
					"the plan has no signature by a signer that is trusted now for %s (retry the operation: signatures are then verified anew)", list[0].Source))
			}
		}
	}
	return nil
}

// heldBy reports whether a verified signature is of the artifact, by one of the signers as they are now. For an
// attempt that runs, the trusted root may be another one.
func (n need) heldBy(list []broker.SignerTrust, s taskcatalog.ArtifactSignature, runs bool) bool {
	return s.Source == n.Source && s.Digest == n.Digest && slices.ContainsFunc(list, func(by broker.SignerTrust) bool {
		return s.Signer == by.Name && s.Trust == by.Trust && (runs || s.TrustedRoot == by.Root)
	})
}
