package registry

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// records are those of one release and one registry.
type records struct {
	release store.AgentRelease
	account broker.RegistryCredential
}

func (r *records) AgentRelease(_ context.Context, version string) (store.AgentRelease, error) {
	if version != r.release.Version {
		return store.AgentRelease{}, broker.Errorf(broker.NotFound, "agent_release_unknown", "none")
	}
	return r.release, nil
}

func (r *records) RegistryCredential(_ context.Context, registry string) (broker.RegistryCredential, error) {
	if registry != r.account.Registry {
		return broker.RegistryCredential{}, broker.Errorf(broker.NotFound, "registry_credential_not_found", "none")
	}
	return r.account, nil
}

var asked = broker.Task{ID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "node.self_update"}

// A token is made for what is on record, where the node was told the same.
func TestATokenIsForTheReleaseOnRecord(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*records, *taskcatalog.SelfUpdateParams)
		code   string
	}{
		"as it is":                      {func(*records, *taskcatalog.SelfUpdateParams) {}, ""},
		"another repository":            {func(_ *records, u *taskcatalog.SelfUpdateParams) { u.Source.Repository += "-secret" }, "credential_refused"},
		"another registry":              {func(_ *records, u *taskcatalog.SelfUpdateParams) { u.Source.Repository = "evil.example/fleet/agent" }, "credential_refused"},
		"another digest":                {func(_ *records, u *taskcatalog.SelfUpdateParams) { u.Manifest.Digest = "sha256:bb" }, "credential_refused"},
		"without TLS":                   {func(_ *records, u *taskcatalog.SelfUpdateParams) { u.Source.PlainHTTP = true }, "credential_refused"},
		"a version that is none":        {func(_ *records, u *taskcatalog.SelfUpdateParams) { u.Version = "9.9.9" }, "agent_release_unknown"},
		"no credential":                 {func(_ *records, u *taskcatalog.SelfUpdateParams) { u.Source.Credential = "" }, "credential_refused"},
		"from the broker":               {func(_ *records, u *taskcatalog.SelfUpdateParams) { u.Source = nil }, "credential_refused"},
		"no manifest":                   {func(_ *records, u *taskcatalog.SelfUpdateParams) { u.Manifest = nil }, "credential_refused"},
		"revoked":                       {func(r *records, _ *taskcatalog.SelfUpdateParams) { r.release.RevokedAt = now }, "release_revoked"},
		"no account any more":           {func(r *records, _ *taskcatalog.SelfUpdateParams) { r.account.Registry = "other.example" }, "registry_credential_not_found"},
		"an account without TLS":        {func(r *records, _ *taskcatalog.SelfUpdateParams) { r.account.PlainHTTP = true }, "registry_credential_moved"},
		"an account of another setting": {func(r *records, _ *taskcatalog.SelfUpdateParams) { r.account.Generation = "g-2" }, "registry_credential_unfinished"},
		"an account of another user":    {func(r *records, _ *taskcatalog.SelfUpdateParams) { r.account.Username = "pull-2" }, "registry_credential_unfinished"},
		"an account without secret":     {func(r *records, _ *taskcatalog.SelfUpdateParams) { r.account.VaultPath += "x" }, "registry_credential_missing"},
		"an account of before":          {func(*records, *taskcatalog.SelfUpdateParams) {}, "registry_realm_changed"},
		"published without TLS": {func(r *records, u *taskcatalog.SelfUpdateParams) {
			r.release.PlainHTTP, u.Source.PlainHTTP = true, true
		}, "registry_plain_http"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			files, err := secrets.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = files.Close() })
			h.record.VaultPath, h.record.Generation = broker.RegistryCredentialPath(h.record.Registry), "g-1"
			a, err := NewAccount(h.record, password)
			if err != nil {
				t.Fatal(err)
			}
			if a.login.Realm = h.URL; name == "an account of before" {
				a.login.Realm = ""
			}
			if err := Put(t.Context(), files, h.record, a); err != nil {
				t.Fatal(err)
			}
			r := &records{account: h.record, release: store.AgentRelease{Version: "1.2.3", Digest: "sha256:aa", Reference: h.record.Registry + "/fleet/agent"}}
			u := taskcatalog.SelfUpdateParams{
				Version: "1.2.3", Manifest: &taskcatalog.ReleaseManifest{Digest: "sha256:aa", Size: 1},
				Source: &taskcatalog.ReleaseSource{Repository: r.release.Reference, Credential: taskcatalog.CredentialOCIPull},
			}
			c.change(r, &u)
			params, err := json.Marshal(u)
			if err != nil {
				t.Fatal(err)
			}
			told := &taskcatalog.Task{TaskID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "node.self_update", Params: params}
			pulls := &Pulls{Records: r, Secrets: files, Client: h.client, Signed: func([]byte) (*taskcatalog.Task, error) { return told, nil }}
			got, err := pulls.Of(t.Context(), asked)
			switch {
			case c.code != "" && (broker.AsError(err).Code != c.code || h.shown.Load() > 0 || got.Secret != ""):
				t.Errorf("%v, want %s; the login was shown %d times", err, c.code, h.shown.Load())
			case c.code == "" && (err != nil || got != broker.Minted{Secret: `{"token":"opaque"}`, Expires: now.Add(5 * time.Minute), Opens: "pull " + r.release.Reference + "@sha256:aa"}):
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A row of a task that somebody changed, or gave the envelope of another one, opens
// nothing.
func TestATokenIsForATaskAsItWasSigned(t *testing.T) {
	for name, told := range map[string]func() (*taskcatalog.Task, error){
		"nobody signed it": func() (*taskcatalog.Task, error) { return nil, errors.New("bad signature") },
		"another task": func() (*taskcatalog.Task, error) {
			return &taskcatalog.Task{TaskID: "t-2", NodeID: "n-1", NodeEpoch: 2, Type: asked.Type}, nil
		},
		"another node": func() (*taskcatalog.Task, error) {
			return &taskcatalog.Task{TaskID: "t-1", NodeID: "n-2", NodeEpoch: 2, Type: asked.Type}, nil
		},
		"another epoch": func() (*taskcatalog.Task, error) {
			return &taskcatalog.Task{TaskID: "t-1", NodeID: "n-1", NodeEpoch: 1, Type: asked.Type}, nil
		},
		"another type": func() (*taskcatalog.Task, error) {
			return &taskcatalog.Task{TaskID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "node.drain"}, nil
		},
	} {
		pulls := &Pulls{Signed: func([]byte) (*taskcatalog.Task, error) { return told() }}
		if _, err := pulls.Of(t.Context(), asked); broker.AsError(err).Code != "credential_refused" || !strings.Contains(err.Error(), "signed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
