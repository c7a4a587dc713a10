package records

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// mostUnsignedNamed bounds the operations that a refusal names.
const mostUnsignedNamed = 10

// RemoveArtifactSigner removes a signer. It refuses to remove the last one of a source while operations that may run bring
// artifacts from there, which nothing else then requires to be signed, unless that is permitted. An organisation or a
// project may still require it for its own. Codes: artifact_signer_last, artifact_signer_not_found.
func (r *Records) RemoveArtifactSigner(
	ctx context.Context, by broker.Actor, name, reason string, allowUnsigned bool,
) (broker.ArtifactSigner, error) {
	return r.DB.RemoveArtifactSigner(ctx, by, name, reason, func(ctx context.Context, of store.SignerRemoval) error {
		if allowUnsigned {
			return nil
		}
		return needed(ctx, of, "remove artifact signer "+name, "confirm with --allow-unsigned")
	})
}

// SetArtifactSigner sets a signer in place of the former one of the name. The former one is not taken from another
// source where RemoveArtifactSigner would refuse it. Codes: artifact_signer_last, too_many_artifact_signers.
func (r *Records) SetArtifactSigner(ctx context.Context, by broker.Actor, s broker.ArtifactSigner) (broker.ArtifactSigner, error) {
	return r.DB.PutArtifactSigner(ctx, by, s, func(ctx context.Context, of store.SignerRemoval) error {
		return needed(ctx, of, "move artifact signer "+s.Name+" to "+s.Source, "give the new signer another name")
	})
}

// needed refuses the removal of the last signer of a source from which something could then be brought unsigned. what and
// instead are words of the error: what is refused, and what to do instead.
func needed(ctx context.Context, of store.SignerRemoval, what, instead string) error {
	source := of.Signer.Source
	if len(broker.ArtifactSignersOf(of.Rest, source)) > 0 {
		return nil
	}
	unsigned, err := unsignedOf(ctx, of)
	if err != nil || len(unsigned) == 0 {
		return err
	}
	more := ""
	if len(unsigned) > mostUnsignedNamed {
		unsigned, more = unsigned[:mostUnsignedNamed], ", and more"
	}
	return broker.Errorf(broker.Refused, "artifact_signer_last",
		"cannot %s: it is the last of %s, and these operations could then bring artifacts from there without a signature, "+
			"where no policy of an organisation or project requires one: %s%s (set another signer, or require signatures by the global policy; "+
			"or %s)", what, source, strings.Join(unsigned, ", "), more, instead)
}

// unsignedOf are the definitions that may run, bring artifacts from a signer's source, and need a signature neither by
// themselves nor by the global policy.
func unsignedOf(ctx context.Context, of store.SignerRemoval) (ids []string, err error) {
	all, err := of.Definitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, kept := range all {
		if _, err := kept.MayRun(); err != nil {
			continue
		}
		d, err := definitionOf(kept)
		if err != nil { // it does not run
			continue
		}
		if !brings(d, of.Signer.Source) || d.Artifacts.Signature == definition.SignatureRequired {
			continue
		}
		e, err := of.GlobalPolicy(ctx, d.Operation)
		if err != nil {
			return nil, err
		}
		if !e.RequiresSignature() {
			ids = append(ids, d.ID())
		}
	}
	return ids, nil
}

// brings reports whether a definition may bring artifacts from a source, or from a part of it.
func brings(d *definition.Definition, source string) bool {
	return d.Artifacts != nil && slices.ContainsFunc(d.Artifacts.Sources, func(listed string) bool {
		return taskcatalog.SourceCovers(listed, source) || taskcatalog.SourceCovers(source, listed)
	}) && slices.ContainsFunc(d.Steps, func(s definition.Step) bool {
		kind, _ := taskcatalog.StepKindOf(s.Kind)
		return kind.Artifact
	})
}
