package secrets

import (
	"context"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

func TestATaskGetsOnlyWhatItsTypeMayHave(t *testing.T) {
	files := open(t, t.TempDir())
	now := time.Unix(1_800_000_000, 0)
	asked, life := 0, time.Minute
	m := &Minter{Keeper: files, Now: func() time.Time { return now }, PullToken: func(_ context.Context, k broker.Task) (broker.Minted, error) {
		asked++
		return broker.Minted{Secret: "pull-secret of " + k.ID, Expires: now.Add(life), Opens: "an agent"}, nil
	}}
	update := broker.Task{ID: "t-1", Type: "node.self_update", Params: []byte(`{"credential_type":"maas_machine_token"}`)}

	got, err := m.Mint(t.Context(), update, broker.MintAsk{Type: "oci_pull"})
	if err != nil || got != (broker.Minted{Secret: "pull-secret of t-1", Expires: now.Add(time.Minute), Opens: "an agent"}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	life = time.Hour
	if got, err := m.Mint(t.Context(), update, broker.MintAsk{Type: "oci_pull"}); err != nil || !got.Expires.Equal(now.Add(mintLife)) {
		t.Errorf("it is for a node until %v, %v", got.Expires, err)
	}
	for _, other := range []string{"node.drain", "node.hw_sync_reseed"} {
		_, err = m.Mint(t.Context(), broker.Task{ID: "t-2", Type: other}, broker.MintAsk{Type: "oci_pull"})
		wantCode(t, err, "credential_refused")
	}
	if asked != 2 {
		t.Errorf("a registry was asked %d times", asked)
	}
	if err := PutNodeToken(t.Context(), files, "n-aaaa", []byte("machine-secret")); err != nil {
		t.Fatal(err)
	}
	reseed := broker.Task{ID: "t-3", Type: "node.hw_sync_reseed", NodeID: "n-aaaa"}
	if got, err := m.Mint(t.Context(), reseed, broker.MintAsk{Type: "maas_machine_token"}); err != nil || got.Secret != "machine-secret" || !got.Expires.Equal(now.Add(mintLife)) {
		t.Errorf("got %+v, %v", got, err)
	}
	reseed.NodeID, reseed.Params = "n-bbbb", []byte(`{"node":"n-aaaa"}`)
	_, err = m.Mint(t.Context(), reseed, broker.MintAsk{Type: "maas_machine_token"})
	wantCode(t, err, "secret_not_found")
	_, err = m.Mint(t.Context(), update, broker.MintAsk{Type: "maas_machine_token"})
	wantCode(t, err, "credential_refused")
	if err := ForgetNode(t.Context(), files, "n-aaaa"); err != nil {
		t.Fatal(err)
	}
	reseed.NodeID = "n-aaaa"
	_, err = m.Mint(t.Context(), reseed, broker.MintAsk{Type: "maas_machine_token"})
	wantCode(t, err, "secret_not_found")
	_, err = m.Mint(t.Context(), update, broker.MintAsk{Type: "../identity"})
	wantCode(t, err, "credential_type_unknown")
}

// A step of an operation gets what its plan says, and nothing else gets that.
func TestOnlyAStepOfAnOperationReadsASource(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := &Minter{Now: func() time.Time { return now }, SourceCredential: func(_ context.Context, k broker.Task, credentialType, step string) (broker.Minted, error) {
		return broker.Minted{Secret: k.ID + " " + credentialType + " " + step, Expires: now.Add(time.Hour)}, nil
	}}
	run := broker.Task{ID: "t-1", Type: "operation.run"}
	got, err := m.Mint(t.Context(), run, broker.MintAsk{Type: "s3_read", Step: "key"})
	if err != nil || got.Secret != "t-1 s3_read key" || !got.Expires.Equal(now.Add(mintLife)) {
		t.Errorf("%+v %v", got, err)
	}
	for what, row := range map[string]struct {
		task string
		ask  broker.MintAsk
	}{
		"no step":              {"operation.run", broker.MintAsk{Type: "s3_read"}},
		"an update":            {"node.self_update", broker.MintAsk{Type: "s3_read", Step: "key"}},
		"an update for a step": {"node.self_update", broker.MintAsk{Type: "oci_pull", Step: "key"}},

		"a machine's token for a step":   {"operation.run", broker.MintAsk{Type: "maas_machine_token", Step: "key"}},
		"a step of another kind of task": {"terminal.open", broker.MintAsk{Type: "terminal_session", Step: "key"}},
	} {
		if got, err := m.Mint(t.Context(), broker.Task{ID: "t-2", Type: row.task}, row.ask); err == nil || broker.AsError(err).Code != "credential_refused" || got.Secret != "" {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
}
