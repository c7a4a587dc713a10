package artifactsource

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// site is a broker with accounts and one task of an operation.
type site struct {
	accounts []broker.SourceCredential
	secrets  map[string][]byte
	signed   taskcatalog.Task
}

func (s *site) SourceCredentials(context.Context) ([]broker.SourceCredential, error) {
	return s.accounts, nil
}

func (s *site) Get(_ context.Context, path string) ([]byte, error) {
	if v, ok := s.secrets[path]; ok {
		return append([]byte(nil), v...), nil
	}
	return nil, broker.Errorf(broker.NotFound, "secret_not_found", "no secret")
}

func (s *site) Put(_ context.Context, path string, value []byte) error {
	s.secrets[path] = append([]byte(nil), value...)
	return nil
}

func (s *site) set(t *testing.T, name, source, secret string) {
	t.Helper()
	c := broker.SourceCredential{Name: name, Source: source, Endpoint: "https://s3.example", Region: "eu", KeyID: "AK", VaultPath: broker.SourceCredentialPath(name), Generation: "g"}
	if strings.HasPrefix(source, "huggingface:") {
		c.Endpoint, c.Region, c.KeyID = "https://huggingface.co", "", ""
	}
	if err := c.Check(secret); err != nil {
		t.Fatal(err)
	}
	s.accounts = append(s.accounts, c)
	if err := Put(t.Context(), s, c, secret); err != nil {
		t.Fatal(err)
	}
}

func (s *site) mint(t *testing.T, credentialType, step string) (broker.Minted, error) {
	t.Helper()
	m := &Mints{Records: s, Secrets: s, Now: func() time.Time { return now }, Signed: func(envelope []byte) (*taskcatalog.Task, error) {
		if string(envelope) != "signed" {
			return nil, errors.New("no signature")
		}
		return &s.signed, nil
	}}
	return m.Of(t.Context(), broker.Task{ID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "operation.run", Envelope: []byte("signed")}, credentialType, step)
}

const plan = `{"operation_id":"op-1","attempt":1,"operation":"model.artifact.stage@v1","steps":[
{"id":"key","kind":"credential.mint","with":{"type":"s3_read","scope":"models/public"}},
{"id":"hub","kind":"credential.mint","with":{"type":"hf_token","scope":"owner/model"}},
{"id":"one","kind":"artifact.pull_blob","with":{"from":"s3","source":"models/public/a.bin","credential":{"from":"steps.key"}}},
{"id":"two","kind":"artifact.pull_blob","with":{"from":"s3","source":"models/public/b.bin","credential":{"from":"steps.key"}}},
{"id":"three","kind":"artifact.pull_blob","with":{"from":"huggingface","source":"owner/model@main/w.bin","credential":{"from":"steps.hub"}}}]}`

func newSite(t *testing.T, plan string) *site {
	s := &site{secrets: map[string][]byte{}}
	s.signed = taskcatalog.Task{TaskID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "operation.run", Params: json.RawMessage(plan)}
	s.set(t, "wide", "s3:models", "wide-secret")
	s.set(t, "public", "s3:models/public", "public-secret")
	s.set(t, "other", "s3:models/public-of-others", "other-secret")
	s.set(t, "hub", "huggingface:owner", "hub-token")
	return s
}

func TestACredentialReadsTheFilesOfItsStepAlone(t *testing.T) {
	s := newSite(t, plan)
	got, err := s.mint(t, "s3_read", "key")
	if err != nil {
		t.Fatal(err)
	}
	var c taskcatalog.BlobCredential
	if err := json.Unmarshal([]byte(got.Secret), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.URLs) != 2 || !strings.HasPrefix(c.URLs["models/public/a.bin"], "https://s3.example/models/public/a.bin?") || c.Authorization != "" || !c.ExpiresAt.Equal(now.Add(life)) || !got.Expires.Equal(c.ExpiresAt) {
		t.Errorf("%+v", c)
	}
	if strings.Contains(got.Secret, "public-secret") || !strings.Contains(got.Opens, "source credential public") {
		t.Errorf("the key travels, or the wrong account signs: %s", got.Opens)
	}
	got, err = s.mint(t, "hf_token", "hub")
	if err != nil {
		t.Fatal(err)
	}
	c = taskcatalog.BlobCredential{}
	if err := json.Unmarshal([]byte(got.Secret), &c); err != nil || c.Authorization != "Bearer hub-token" ||
		len(c.URLs) != 1 || c.URLs["owner/model@main/w.bin"] != "https://huggingface.co/owner/model/resolve/main/w.bin" {
		t.Errorf("%+v %v", c, err)
	}
}

func TestACredentialIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		plan, kind, step, code string
		broken                 func(*site)
	}{
		"for a step that is not in the plan":  {plan, "s3_read", "nothing", "credential_refused", nil},
		"for a step that mints nothing":       {plan, "s3_read", "one", "credential_refused", nil},
		"of another type":                     {plan, "gcs_read", "key", "credential_refused", nil},
		"of a type that no source reads":      {plan, "oci_pull", "key", "credential_refused", nil},
		"for a pull outside the scope":        {strings.Replace(plan, "models/public/b.bin", "models/private/b.bin", 1), "s3_read", "key", "credential_refused", nil},
		"for a pull that climbs out":          {strings.Replace(plan, "models/public/b.bin", "models/public/../private/b.bin", 1), "s3_read", "key", "credential_refused", nil},
		"for a pull from another kind":        {strings.Replace(plan, `"from":"s3","source":"models/public/b`, `"from":"gcs","source":"models/public/b`, 1), "s3_read", "key", "credential_refused", nil},
		"where no account serves the scope":   {strings.ReplaceAll(plan, "models/public", "unknown/public"), "s3_read", "key", "source_credential_not_found", nil},
		"of an envelope that is not signed":   {plan, "s3_read", "key", "credential_refused", func(s *site) { s.signed.TaskID = "t-2" }},
		"of an envelope of another node":      {plan, "s3_read", "key", "credential_refused", func(s *site) { s.signed.NodeID = "n-2" }},
		"of an envelope of another epoch":     {plan, "s3_read", "key", "credential_refused", func(s *site) { s.signed.NodeEpoch = 1 }},
		"of a task of another type":           {plan, "s3_read", "key", "credential_refused", func(s *site) { s.signed.Type = "node.drain" }},
		"where the secret is gone":            {plan, "s3_read", "key", "source_credential_missing", func(s *site) { delete(s.secrets, broker.SourceCredentialPath("public")) }},
		"where the record was set without it": {plan, "s3_read", "key", "source_credential_unfinished", func(s *site) { s.accounts[1].Generation = "h" }},
		"where the record was moved":          {plan, "s3_read", "key", "source_credential_unfinished", func(s *site) { s.accounts[1].Endpoint = "https://evil.example" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, row.plan)
			if row.broken != nil {
				row.broken(s)
			}
			got, err := s.mint(t, row.kind, row.step)
			if err == nil || broker.AsError(err).Code != row.code || got.Secret != "" {
				t.Errorf("%v, want %s", err, row.code)
			}
			if err != nil && strings.Contains(err.Error(), "-secret") {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}
