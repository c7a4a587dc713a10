package records

import (
	"encoding/json"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/signature"
	"github.com/hostler/hostler/taskcatalog"
)

// onFile is an order that pulls one file, with what is given as its signature; empty: nothing.
func (s *site) onFile(given string) (Order, *judge) {
	s.Helper()
	w, j := s.onPull(
		"artifacts:", "inputs: {type: object, properties: {signature: {type: string, format: signature}}}\nartifacts:",
		"kind: artifact.pull_oci", "kind: artifact.pull_blob", "source: registry.example/models/llama", "from: s3, source: models/llama",
		"name: a}", "name: a, signature: {from: inputs.signature}}", "\n  - "+twice, "")
	if given != "" {
		raw, err := json.Marshal(map[string]string{"signature": given})
		s.ok(err)
		w.Inputs = raw
	}
	return w, j
}

// What a level or a signer requires of a file is judged by what is given with it, and stands in the plan.
func TestAPlanHasTheSignaturesOfItsFiles(t *testing.T) {
	each(t, func(s *site) {
		const given = "{\n}"
		team := s.signer("team", "s3:models", "k")
		w, j := s.onFile(given)
		o, err := s.records.New(s.Context(), w)
		s.ok(err)
		if len(o.Plan.Signatures) != 1 || o.Plan.Signatures[0].Trust != team.Trust() || o.Plan.Signatures[0].Form != taskcatalog.SignatureGiven ||
			len(j.asked) != 1 || j.asked[0] != "s3:models/llama@"+digestA+" "+given || o.Plan.Steps[0].With["signature"].Literal != given {
			t.Fatalf("%+v, asked %q", o.Plan, j.asked)
		}
		s.ok(s.checked(o, true))
		s.requires(broker.Place{})
		s.ok(s.checked(o, true))
		if len(j.asked) != 1 {
			t.Errorf("it is judged again: %q", j.asked)
		}
		other := o
		other.Plan.Signatures = []taskcatalog.ArtifactSignature{o.Plan.Signatures[0]}
		other.Plan.Signatures[0].Source = "gcs:models/llama"
		s.says(s.checked(other, true), "signature_stale", "for s3:models", "retry")
		s.signer("team", team.Source, "turned")
		s.says(s.checked(o, true), "signature_stale", "the global policy for all operations requires", "s3:models")
		_, err = s.records.RemoveArtifactSigner(s.Context(), ada, "team", "over", true)
		s.ok(err)
		s.says(s.checked(o, true), signature.CodeNoSigner, "the global policy", "s3:models/llama")
	})
}

func TestAFileThatMustBeSignedIsRefusedWithTheLevel(t *testing.T) {
	each(t, func(s *site) {
		w, j := s.onFile("")
		_, err := s.records.New(s.Context(), w)
		s.ok(err)
		s.requires(broker.Place{OrganisationID: "org-1", ProjectID: "p-1"})
		_, err = s.records.New(s.Context(), w)
		s.says(err, signature.CodeNoSigner, "the project's policy for all operations requires a signature", "s3:models/llama")
		s.signer("team", "s3:models", "k")
		j.fails = broker.Errorf(broker.Refused, signature.CodeUntrusted, "it is another's")
		_, err = s.records.New(s.Context(), w)
		s.says(err, signature.CodeUntrusted, "the project's policy", "it is another's")
		s.records.Signatures = &signature.Judge{Now: s.clock.Now} // what is not given is missing
		s.signer("team", "s3:models", testKey)
		_, err = s.records.New(s.Context(), w)
		s.says(err, signature.CodeMissing, "the project's policy", "cosign sign-blob")
		w, _ = s.onFile("who signs?")
		s.records.Signatures = &signature.Judge{Now: s.clock.Now}
		_, err = s.records.New(s.Context(), w)
		s.says(err, signature.CodeMalformed, "the project's policy")
	})
}

const testKey = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"
