package records

import (
	"testing"

	"github.com/hostler/hostler/broker"
)

// Nobody takes the last signer of a source away unawares: what could then be brought unsigned is named.
func TestTheLastSignerOfASourceIsNotRemovedUnawares(t *testing.T) {
	each(t, func(s *site) {
		ship := func(change ...string) {
			t.Helper()
			w, _ := s.onPull(change...)
			content, err := w.Definition.Encode()
			s.ok(err)
			s.ok(s.db.ShipOperationDefinitions(s.Context(), []broker.OperationDefinition{{
				Operation: w.Definition.Operation, Version: w.Definition.Version, Summary: w.Definition.Summary, Digest: w.Definition.Digest(), Content: content,
			}}))
		}
		check := func() error { return s.records.CheckSignerRemoval(s.Context(), "team") }
		s.ok(check()) // the removal itself says that there is none
		s.signer("team", "oci:registry.example/models", "k1")
		s.ok(check()) // no operation brings anything from there
		ship()
		s.says(check(), "artifact_signer_last", "oci:registry.example/models", "demo.pull@v1", "--allow-unsigned")
		s.signer("team", "oci:elsewhere.example", "k1")
		s.ok(check())
		s.signer("team", "oci:registry.example/models/llama", "k1") // a part of what the definition lists
		s.says(check(), "artifact_signer_last")
		for _, source := range []string{"oci:registry.example", "oci:registry.example/models/llama"} {
			s.signer("other", source, "k2") // of a wider source, and of the same
			s.ok(check())
		}
		_, err := s.db.RemoveArtifactSigner(s.Context(), ada, "other", "over")
		s.ok(err)
		s.says(check(), "artifact_signer_last")
		s.requires(broker.Place{OrganisationID: "org-1"}) // for its own operations alone
		s.says(check(), "artifact_signer_last")
		s.requires(broker.Place{})
		s.ok(check())
	})
}
