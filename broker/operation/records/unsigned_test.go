package records

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Nobody takes the last signer of a source away unawares: what could then be brought unsigned is named.
func TestTheLastSignerOfASourceIsNotRemovedUnawares(t *testing.T) {
	each(t, func(s *site) {
		taken := errors.New("taken")
		check := func() error { // it removes nothing
			t.Helper()
			_, err := s.db.RemoveArtifactSigner(s.Context(), ada, "team", "over", func(ctx context.Context, of store.SignerRemoval) error {
				return cmp.Or(needed(ctx, of, "remove artifact signer team", "confirm with --allow-unsigned"), taken)
			})
			if errors.Is(err, taken) {
				return nil
			}
			return err
		}
		s.refused(check(), "artifact_signer_not_found")
		s.signer("team", "oci:registry.example/models", "k1")
		s.ok(check()) // no operation brings anything from there
		s.shipPull()
		s.says(check(), "artifact_signer_last", "oci:registry.example/models", "demo.pull@v1", "--allow-unsigned")
		s.signer("team", "oci:elsewhere.example", "k1")
		s.ok(check())
		s.signer("team", "oci:registry.example/models/llama", "k1") // a part of what the definition lists
		s.says(check(), "artifact_signer_last")
		for _, source := range []string{"oci:registry.example", "oci:registry.example/models/llama"} {
			s.signer("other", source, "k2") // of a wider source, and of the same
			s.ok(check())
		}
		_, err := s.records.RemoveArtifactSigner(s.Context(), ada, "other", "over", false)
		s.ok(err)
		s.says(check(), "artifact_signer_last")
		s.requires(broker.Place{OrganisationID: "org-1"}) // for its own operations alone
		s.says(check(), "artifact_signer_last")
		s.requires(broker.Place{})
		s.ok(check())
	})
}

// Whoever sets the signer anew for another source takes it from the one it had.
func TestTheLastSignerOfASourceIsNotMovedUnawares(t *testing.T) {
	each(t, func(s *site) {
		s.shipPull()
		s.signer("team", "oci:registry.example/models", "k1")
		moved := func(name, source string) error {
			_, err := s.records.SetArtifactSigner(s.Context(), ada, broker.ArtifactSigner{Name: name, Source: source, Key: "k2", Reason: "moved"})
			return err
		}
		s.says(moved("team", "oci:elsewhere.example"), "artifact_signer_last", "oci:registry.example/models", "demo.pull@v1", "another name")
		s.ok(moved("team", "oci:registry.example/models")) // another key
		s.ok(moved("team", "oci:registry.example"))        // covers the former source
		s.says(moved("team", "oci:registry.example/models/llama"), "artifact_signer_last")
		s.ok(moved("other", "oci:registry.example"))
		s.ok(moved("team", "oci:elsewhere.example"))
		s.says(moved("other", "oci:elsewhere.example"), "artifact_signer_last")
		s.requires(broker.Place{})
		s.ok(moved("other", "oci:elsewhere.example"))
	})
}

func (s *site) shipPull() {
	s.Helper()
	w, _ := s.onPull()
	content, err := w.Definition.Encode()
	s.ok(err)
	s.ok(s.db.ShipOperationDefinitions(s.Context(), []broker.OperationDefinition{{
		Operation: w.Definition.Operation, Version: w.Definition.Version, Summary: w.Definition.Summary, Digest: w.Definition.Digest(), Content: content,
	}}))
}

// Two people remove the last two signers of a source at the same moment: each counts on the other's. One of them stays.
func TestTwoRemovalsDoNotTakeTheLastSigner(t *testing.T) {
	each(t, func(s *site) {
		s.shipPull()
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			s.signer(name, "oci:registry.example/models", "k1")
		}
		var done sync.WaitGroup
		for _, name := range names {
			done.Go(func() {
				if _, err := s.records.RemoveArtifactSigner(s.Context(), ada, name, "over", false); err != nil && broker.AsError(err).Code != "artifact_signer_last" {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		done.Wait()
		if left, err := s.db.ArtifactSigners(s.Context()); err != nil || len(left) != 1 {
			t.Errorf("%d signers are left, %v", len(left), err)
		}
	})
}
