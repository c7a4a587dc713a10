package records

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
)

// The plan's artifacts say what required their signatures and whose they have, or which level requires none.
func TestArtifactsSayWhatRequiresTheirSignatures(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		before   func(s *site)
		required bool
		by       string
		signers  []string
	}{
		"nobody": {func(*site) {}, false, "no level of the policy", nil},
		"the platform says that none is": {func(s *site) {
			_, err := s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{
				Operation: broker.AllOperations, Overlay: broker.OperationOverlay{RequireSignatureVerification: &no},
			}, false, "test")
			s.ok(err)
		}, false, "the global policy for all operations", nil},
		"a signer": {func(s *site) {
			s.signer("corp", "oci:registry.example", "k1")
			s.signer("team", "oci:registry.example/models", "k2")
		}, true, "an artifact signer of oci:registry.example", []string{"corp", "team"}},
		"the project": {func(s *site) {
			s.signer("team", "oci:registry.example/models", "k2")
			s.requires(broker.Place{OrganisationID: "org-1", ProjectID: "p-1"})
		}, true, "the project's policy for all operations", []string{"team"}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *site) {
				c.before(s)
				w, _ := s.onPull()
				o, err := s.records.New(s.Context(), w)
				s.ok(err)
				all, err := s.records.Artifacts(s.Context(), o)
				s.ok(err)
				if len(all) != 1 || all[0].Source != "oci:registry.example/models/llama" || all[0].Digest != digestA || !slices.Equal(all[0].Steps, []string{"one", "two"}) {
					t.Fatalf("%+v", all)
				}
				var signers []string
				for _, by := range all[0].Signatures {
					signers = append(signers, by.Signer)
				}
				if a := all[0]; a.Required != c.required || a.By != c.by || !slices.Equal(signers, c.signers) {
					t.Errorf("%+v by %q", a, signers)
				}
			})
		})
	}
}
