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

// CheckSignerRemoval refuses to remove the last signer of a source while operations that may run bring artifacts from there,
// which nothing else then requires to be signed. An organisation or a project may still require it for its own. Code:
// artifact_signer_last.
func (r *Records) CheckSignerRemoval(ctx context.Context, name string) error {
	all, err := r.DB.ArtifactSigners(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(s broker.ArtifactSigner) bool { return s.Name == name })
	if i < 0 {
		return nil // the removal says so
	}
	source := all[i].Source
	if len(broker.ArtifactSignersOf(slices.Delete(slices.Clone(all), i, i+1), source)) > 0 {
		return nil
	}
	unsigned, err := r.unsigned(ctx, source)
	if err != nil || len(unsigned) == 0 {
		return err
	}
	more := ""
	if len(unsigned) > mostUnsignedNamed {
		unsigned, more = unsigned[:mostUnsignedNamed], ", and more"
	}
	return broker.Errorf(broker.Refused, "artifact_signer_last",
		"cannot remove artifact signer %s: it is the last of %s, and these operations could then bring artifacts from there without a signature, "+
			"where no policy of an organisation or project requires one: %s%s (set another signer, or require signatures by the global policy; "+
			"or confirm with --allow-unsigned)", name, source, strings.Join(unsigned, ", "), more)
}

// unsigned are the definitions that may run, bring artifacts from a source, and need a signature neither by themselves nor
// by the global policy.
func (r *Records) unsigned(ctx context.Context, source string) (ids []string, err error) {
	all, _, err := r.DB.OperationDefinitions(ctx, store.OperationDefinitionFilter{})
	if err != nil {
		return nil, err
	}
	for _, record := range all {
		if _, err := record.MayRun(); err != nil {
			continue
		}
		kept, err := r.DB.OperationDefinition(ctx, record.ID())
		if err != nil {
			return nil, err
		}
		d, err := definitionOf(kept)
		if err != nil { // it does not run
			continue
		}
		if !brings(d, source) || d.Artifacts.Signature == definition.SignatureRequired {
			continue
		}
		e, err := r.DB.EffectiveOperationPolicy(ctx, broker.Place{}, d.Operation)
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
