package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/signature"
	"github.com/hostler/hostler/broker/store"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

const digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

const pulls = `operation: demo.pull
version: v1
summary: pull two artifacts
backend_type: node_agent
safety: forced
targets: [node, allocation]
deadline_seconds: 600
artifacts: {sources: ["oci:registry.example", "s3:models"], signature: as_policy, max_bytes: 1000}
steps:
  - {id: one, kind: artifact.pull_oci, timeout_seconds: 60, with: {source: registry.example/models/llama, digest: "` + digestA + `", root: /var/lib/models, name: a}}
  - {id: two, kind: artifact.pull_oci, timeout_seconds: 60, with: {source: registry.example/models/llama, digest: "` + digestA + `", root: /var/lib/models, name: b}}
`

const (
	twice       = `{id: two, kind: artifact.pull_oci, timeout_seconds: 60, with: {source: registry.example/models/llama, digest: "` + digestA + `", root: /var/lib/models, name: b}}`
	environment = `{id: env, kind: python.env.create, timeout_seconds: 60, with: {source: pypi.example/simple, lock: {from: steps.one}, root: /opt/env, name: env}}`
)

// judge believes the last signer of each list, or fails.
type judge struct {
	fails error
	asked []string
	while func() // what happens meanwhile
}

func (j *judge) Artifact(_ context.Context, lists [][]broker.ArtifactSigner, repository, digest string) (out []taskcatalog.ArtifactSignature, err error) {
	j.asked = append(j.asked, repository+"@"+digest)
	if j.while != nil {
		j.while()
	}
	if j.fails != nil {
		return nil, j.fails
	}
	if len(lists) == 0 {
		return nil, signature.NoSigner("oci:"+repository, digest)
	}
	return byTheLast(lists, "oci:"+repository, digest, taskcatalog.SignatureAtTag), nil
}

func (j *judge) File(lists [][]broker.ArtifactSigner, source, digest, given string) ([]taskcatalog.ArtifactSignature, error) {
	j.asked = append(j.asked, source+"@"+digest+" "+given)
	if j.fails != nil {
		return nil, j.fails
	}
	if len(lists) == 0 {
		return nil, signature.NoSigner(source, digest)
	}
	return byTheLast(lists, source, digest, taskcatalog.SignatureGiven), nil
}

func byTheLast(lists [][]broker.ArtifactSigner, source, digest, form string) (out []taskcatalog.ArtifactSignature) {
	for _, list := range lists {
		by := list[len(list)-1]
		out = append(out, taskcatalog.ArtifactSignature{
			Source: source, Digest: digest, Place: by.Source, Signer: by.Name, Trust: by.Trust(), TrustedRoot: by.Root(), Form: form,
		})
	}
	return out
}

// onPull is an order that pulls, with a judge.
func (s *site) onPull(change ...string) (Order, *judge) {
	s.Helper()
	d, problems := definition.Parse(profiles.File{Name: "op.yaml", Text: []byte(strings.NewReplacer(change...).Replace(pulls))})
	if problems != nil {
		s.Fatal(problems)
	}
	j := &judge{}
	s.records.Signatures = j
	w := s.onLab()
	w.Definition = d
	return w, j
}

func unjudged(context.Context, store.SignerRemoval) error { return nil }

func (s *site) signer(name, source, key string) broker.ArtifactSigner {
	s.Helper()
	kept, err := s.db.PutArtifactSigner(s.Context(), ada, broker.ArtifactSigner{Name: name, Source: source, Key: key, Reason: "test"}, unjudged)
	s.ok(err)
	return kept
}

// renewed gives a signer another trusted root.
func (s *site) renewed(by broker.ArtifactSigner, root string) {
	s.Helper()
	by.TrustedRoot = root
	_, err := s.db.PutArtifactSigner(s.Context(), ada, by, unjudged)
	s.ok(err)
}

func (s *site) requires(place broker.Place) {
	s.Helper()
	yes := true
	_, err := s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{
		Place: place, Operation: broker.AllOperations, Overlay: broker.OperationOverlay{RequireSignatureVerification: &yes},
	}, false, "test")
	s.ok(err)
}

func (s *site) says(err error, code string, parts ...string) {
	s.Helper()
	s.refused(err, code)
	for _, part := range parts {
		if err != nil && !strings.Contains(err.Error(), part) {
			s.Errorf("%v does not say %q", err, part)
		}
	}
}

func TestNothingIsJudgedThatNeedsNoSignature(t *testing.T) {
	each(t, func(s *site) {
		s.signer("others", "oci:registry.example/other", "k")
		w, j := s.onPull()
		o, err := s.records.New(s.Context(), w)
		if err != nil || len(j.asked) != 0 || len(o.Plan.Signatures) != 0 || o.Plan.Artifacts.Signed {
			t.Errorf("%v %v %+v", err, j.asked, o.Plan.Signatures)
		}
	})
}

// What a level, a definition or a signer of the source requires is judged once, and stands in the plan.
func TestAPlanHasTheSignaturesThatWereVerified(t *testing.T) {
	each(t, func(s *site) {
		corp, team := s.signer("corp", "oci:registry.example", "k1"), s.signer("team", "oci:registry.example/models", "k2")
		w, j := s.onPull()
		o, err := s.records.New(s.Context(), w)
		s.ok(err)
		if len(o.Plan.Signatures) != 2 || o.Plan.Signatures[0].Trust != corp.Trust() || o.Plan.Signatures[1].Trust != team.Trust() || len(j.asked) != 1 {
			t.Fatalf("%+v, asked %v", o.Plan.Signatures, j.asked)
		}
		s.ok(s.checked(o, true))
		s.signer("more", "oci:registry.example/models", "k3") // another signer of the source
		s.ok(s.checked(o, true))
		s.requires(broker.Place{})
		s.ok(s.checked(o, true))
		if len(j.asked) != 1 {
			t.Errorf("it is judged again: %v", j.asked)
		}
		s.signer("team", team.Source, "turned")
		s.says(s.checked(o, true), "signature_stale", "the global policy for all operations requires", "oci:registry.example/models")
		_, err = s.records.RemoveArtifactSigner(s.Context(), ada, "team", "over", true)
		s.ok(err)
		s.says(s.checked(o, true), "signature_stale") // "more" signs there now
		_, err = s.records.RemoveArtifactSigner(s.Context(), ada, "more", "over", true)
		s.ok(err)
		s.ok(s.checked(o, true))
		_, err = s.records.RemoveArtifactSigner(s.Context(), ada, "corp", "over", true)
		s.ok(err)
		s.says(s.checked(o, true), signature.CodeNoSigner, "the global policy")
	})
}

func TestASignatureIsOfTheArtifactOfThePlan(t *testing.T) {
	each(t, func(s *site) {
		s.signer("team", "oci:registry.example/models", "k")
		w, _ := s.onPull()
		o, err := s.records.New(s.Context(), w)
		s.ok(err)
		for name, change := range map[string]func(*taskcatalog.ArtifactSignature){
			"another digest": func(a *taskcatalog.ArtifactSignature) { a.Digest = strings.ReplaceAll(digestA, "a", "b") },
			"another source": func(a *taskcatalog.ArtifactSignature) { a.Source += "-fork" },
			"another signer": func(a *taskcatalog.ArtifactSignature) { a.Signer = "corp" },
			"another root":   func(a *taskcatalog.ArtifactSignature) { a.TrustedRoot = digestA },
			"other trust":    func(a *taskcatalog.ArtifactSignature) { a.Trust = digestA },
		} {
			changed := o
			changed.Plan.Signatures = slices.Clone(o.Plan.Signatures)
			change(&changed.Plan.Signatures[0])
			if err := s.checked(changed, true); err == nil || broker.AsError(err).Code != "signature_stale" {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Each refusal names what requires the signature.
func TestAnArtifactThatMustBeSignedIsRefusedWithTheLevel(t *testing.T) {
	each(t, func(s *site) {
		w, j := s.onPull()
		before, err := s.records.New(s.Context(), w)
		s.ok(err)
		strict, strictJudge := s.onPull("as_policy", "required")
		_, err = s.records.New(s.Context(), strict)
		s.says(err, signature.CodeNoSigner, "the definition requires a signature", "artifact-signer set")
		strictJudge.fails = nil
		s.records.Signatures = j
		s.requires(broker.Place{OrganisationID: "org-1", ProjectID: "p-1"})
		_, err = s.records.New(s.Context(), w)
		s.says(err, signature.CodeNoSigner, "the project's policy for all operations requires a signature")
		s.says(s.checked(before, true), signature.CodeNoSigner, "the project's policy")
		s.requires(broker.Place{})
		s.signer("team", "oci:registry.example/models", "k")
		j.fails = broker.Errorf(broker.Refused, signature.CodeMissing, "it has no signature")
		_, err = s.records.New(s.Context(), w)
		s.says(err, signature.CodeMissing, "the global policy for all operations requires", "it has no signature")
		j.fails = broker.Errorf(broker.Unavailable, "registry_unreachable", "it does not answer")
		_, err = s.records.New(s.Context(), w)
		s.says(err, "registry_unreachable")
		j.fails = errors.New("the database")
		if _, err = s.records.New(s.Context(), w); !errors.Is(err, j.fails) {
			t.Errorf("%v", err)
		}
		j.fails, j.asked = nil, nil
		python, _ := s.onPull("s3:models", "pypi:pypi.example", twice, environment)
		_, err = s.records.New(s.Context(), python)
		s.says(err, "signature_unverifiable", "the global policy for all operations requires", "step env", "artifact.pull_oci", "artifact.pull_blob")
	})
}

func TestASignersSourceNeedsASignatureWithoutAPolicy(t *testing.T) {
	each(t, func(s *site) {
		s.signer("team", "oci:registry.example/models", "k")
		w, j := s.onPull()
		j.fails = broker.Errorf(broker.Refused, signature.CodeUntrusted, "it is another's")
		_, err := s.records.New(s.Context(), w)
		s.says(err, signature.CodeUntrusted, "an artifact signer of oci:registry.example/models requires a signature", "it is another's")
		// A source that is denied is not asked at all.
		_, err = s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{
			Operation: broker.AllOperations, Overlay: broker.OperationOverlay{AllowedArtifactSources: []string{"s3:models"}},
		}, false, "test")
		s.ok(err)
		j.asked = nil
		_, err = s.records.New(s.Context(), w)
		s.refused(err, "artifact_source_denied")
		if len(j.asked) > 0 {
			t.Errorf("it asked for %v", j.asked)
		}
	})
}

// A renewed trusted root withdraws no tasks. Whoever begins then is judged with it.
func TestARenewedTrustedRootEndsNoRunningAttempt(t *testing.T) {
	each(t, func(s *site) {
		team := s.signer("team", "oci:registry.example/models", "k")
		s.renewed(team, "of 2025")
		w, _ := s.onPull()
		o, err := s.records.New(s.Context(), w)
		s.ok(err)
		running := o
		running.Status = broker.OperationRunning
		s.renewed(team, "of 2026")
		s.ok(s.checked(running, false))
		for _, status := range []broker.OperationStatus{"", broker.OperationQueued, broker.OperationFailed} {
			o.Status = status
			s.says(s.checked(o, true), "signature_stale", "retry the operation")
		}
		s.renewed(team, "") // a log is asked for no more
		s.says(s.checked(running, false), "signature_stale")
		team.Key = "turned"
		s.renewed(team, "of 2025")
		s.says(s.checked(running, false), "signature_stale")
	})
}

func TestARetryIsJudgedAnewByTheSignersOfNow(t *testing.T) {
	each(t, func(s *site) {
		team := s.signer("team", "oci:registry.example/models", "k")
		w, j := s.onPull()
		content, err := w.Definition.Encode()
		s.ok(err)
		s.ok(s.db.ShipOperationDefinitions(s.Context(), []broker.OperationDefinition{
			{Operation: w.Definition.Operation, Version: w.Definition.Version, Summary: "pull", Digest: w.Definition.Digest(), Content: content},
		}))
		s.tasks.does = fails
		o := s.begun(w)
		s.settle()
		retry := func() error {
			s.Helper()
			o, err = s.db.Operation(s.Context(), o.ID)
			s.ok(err)
			next, err := s.records.Retry(s.Context(), o, chain.Actor{Name: "ada"}, "again")
			if err != nil {
				return err
			}
			_, err = s.engine.Start(s.Context(), next)
			s.ok(err)
			s.settle()
			o, err = s.db.Operation(s.Context(), o.ID)
			return err
		}
		j.asked = nil
		s.ok(retry())
		if len(j.asked) != 0 || o.Attempt != 2 {
			t.Errorf("attempt %d is judged anew, by the same signers: %v", o.Attempt, j.asked)
		}
		team.Key = "turned"
		s.renewed(team, "of 2026")
		j.fails = broker.Errorf(broker.Refused, signature.CodeUntrusted, "it is by another key")
		s.says(retry(), signature.CodeUntrusted, "by another key")
		j.fails, s.tasks.does = nil, succeeds
		s.ok(retry())
		team.TrustedRoot = "of 2026"
		if got := o.Plan.Signatures; o.Attempt != 3 || len(got) != 1 || got[0].Trust != team.Trust() || got[0].TrustedRoot != team.Root() ||
			o.Status == broker.OperationFailed && o.Code == "signature_stale" {
			t.Errorf("%s %s, attempt %d: %+v", o.Status, o.Code, o.Attempt, got)
		}
	})
}

// A plan whose signatures are judged makes dozens of requests. Beyond two of a project the next one is refused at once.
func TestAProjectHasTwoPlansJudgedAtOnce(t *testing.T) {
	each(t, func(s *site) {
		s.signer("team", "oci:registry.example/models", "k")
		w, j := s.onPull()
		depth := 0
		var third error
		j.while = func() {
			depth++
			level := depth
			if level > 2 {
				return
			}
			if _, err := s.records.New(s.Context(), w); level == 2 {
				third = err
			}
		}
		_, err := s.records.New(s.Context(), w)
		s.ok(err)
		s.says(third, "signatures_busy", "try again")
		if broker.AsError(third).Kind != broker.Unavailable || len(j.asked) != 2 {
			t.Errorf("%v, and %d are judged", third, len(j.asked))
		}
		j.while = nil
		_, err = s.records.New(s.Context(), w) // the places are free again
		s.ok(err)
	})
}

func TestABrokerJudgesSixteenPlansAtOnce(t *testing.T) {
	var j judging
	var ends []func()
	for i := range maxJudged {
		end, err := j.begin(fmt.Sprint("p-", i))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if _, err := j.begin("p-more"); err == nil || broker.AsError(err).Code != "signatures_busy" {
		t.Errorf("%v", err)
	}
	ends[0]()
	if _, err := j.begin("p-more"); err != nil {
		t.Error(err)
	}
	for _, end := range ends[1:] {
		end()
	}
	if j.all != 1 || len(j.of) != 1 {
		t.Errorf("%d are kept: %v", j.all, j.of)
	}
}
