package registry

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/taskcatalog"
)

const stepPlan = `{"operation_id":"op-1","steps":[
{"id":"key","kind":"credential.mint","with":{"type":"oci_pull","scope":"HOST/fleet"}},
{"id":"one","kind":"artifact.pull_oci","with":{"source":"HOST/fleet/driver","credential":{"from":"steps.key"}}},
{"id":"two","kind":"artifact.pull_oci","with":{"source":"HOST/fleet/driver","credential":{"from":"steps.key"}}}]}`

// A step gets a token for the one repository that the signed plan pulls from.
func TestATokenIsForTheRepositoryOfItsStep(t *testing.T) {
	for name, c := range map[string]struct {
		plan, step string
		change     func(*records, *taskcatalog.Task)
		code       string
	}{
		"as it is":                        {stepPlan, "key", nil, ""},
		"a step that is not in the plan":  {stepPlan, "other", nil, "credential_refused"},
		"a step that mints nothing":       {stepPlan, "one", nil, "credential_refused"},
		"a credential of another type":    {strings.Replace(stepPlan, "oci_pull", "s3_read", 1), "key", nil, "credential_refused"},
		"a pull from outside the scope":   {strings.ReplaceAll(stepPlan, "fleet/driver", "private/driver"), "key", nil, "credential_refused"},
		"a pull from a namesake":          {strings.ReplaceAll(stepPlan, "fleet/driver", "fleet-of-others/driver"), "key", nil, "credential_refused"},
		"pulls from two repositories":     {strings.Replace(stepPlan, "fleet/driver", "fleet/model", 1), "key", nil, "credential_refused"},
		"a pull of another kind":          {strings.Replace(stepPlan, "artifact.pull_oci", "artifact.pull_blob", 1), "key", nil, "credential_refused"},
		"no pull":                         {strings.ReplaceAll(stepPlan, "steps.key", "steps.none"), "key", nil, "credential_refused"},
		"another registry":                {strings.ReplaceAll(stepPlan, "HOST", "evil.example"), "key", nil, "registry_credential_not_found"},
		"an account without TLS":          {stepPlan, "key", func(r *records, _ *taskcatalog.Task) { r.account.PlainHTTP = true }, "registry_plain_http"},
		"an account of another setting":   {stepPlan, "key", func(r *records, _ *taskcatalog.Task) { r.account.Generation = "g-2" }, "registry_credential_unfinished"},
		"another node":                    {stepPlan, "key", func(_ *records, k *taskcatalog.Task) { k.NodeID = "n-2" }, "credential_refused"},
		"another type of task":            {stepPlan, "key", func(_ *records, k *taskcatalog.Task) { k.Type = "node.self_update" }, "credential_refused"},
		"params that are no plan":         {`[]`, "key", nil, "credential_refused"},
		"a source that is not in the row": {strings.ReplaceAll(stepPlan, `"source":"HOST/fleet/driver",`, ""), "key", nil, "credential_refused"},
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
			a.login.Realm = h.URL
			if err := Put(t.Context(), files, h.record, a); err != nil {
				t.Fatal(err)
			}
			r := &records{account: h.record}
			told := &taskcatalog.Task{
				TaskID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "operation.run",
				Params: json.RawMessage(strings.ReplaceAll(c.plan, "HOST", h.record.Registry)),
			}
			if c.change != nil {
				c.change(r, told)
			}
			pulls := &Pulls{Records: r, Secrets: files, Client: h.client, Signed: func(envelope []byte) (*taskcatalog.Task, error) {
				if string(envelope) != "signed" {
					return nil, errors.New("no signature")
				}
				return told, nil
			}}
			got, err := pulls.OfStep(t.Context(), broker.Task{ID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "operation.run", Envelope: []byte("signed")}, c.step)
			switch {
			case c.code != "" && (err == nil || broker.AsError(err).Code != c.code || h.shown.Load() > 0 || got.Secret != ""):
				t.Errorf("%v, want %s; the login was shown %d times", err, c.code, h.shown.Load())
			case c.code == "" && (err != nil || got != broker.Minted{Secret: `{"token":"opaque"}`, Expires: now.Add(5 * time.Minute), Opens: "pull " + h.record.Registry + "/fleet/driver"}):
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
