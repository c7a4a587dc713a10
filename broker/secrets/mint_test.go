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

	got, err := m.Mint(t.Context(), update, "oci_pull", "")
	if err != nil || got != (broker.Minted{Secret: "pull-secret of t-1", Expires: now.Add(time.Minute), Opens: "an agent"}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	life = time.Hour
	if got, err := m.Mint(t.Context(), update, "oci_pull", ""); err != nil || !got.Expires.Equal(now.Add(mintLife)) {
		t.Errorf("it is for a node until %v, %v", got.Expires, err)
	}
	for _, other := range []string{"node.drain", "node.hw_sync_reseed"} {
		_, err = m.Mint(t.Context(), broker.Task{ID: "t-2", Type: other}, "oci_pull", "")
		wantCode(t, err, "credential_refused")
	}
	if asked != 2 {
		t.Errorf("a registry was asked %d times", asked)
	}
	if err := PutNodeToken(t.Context(), files, "n-aaaa", []byte("machine-secret")); err != nil {
		t.Fatal(err)
	}
	reseed := broker.Task{ID: "t-3", Type: "node.hw_sync_reseed", NodeID: "n-aaaa"}
	if got, err := m.Mint(t.Context(), reseed, "maas_machine_token", ""); err != nil || got.Secret != "machine-secret" || !got.Expires.Equal(now.Add(mintLife)) {
		t.Errorf("got %+v, %v", got, err)
	}
	reseed.NodeID, reseed.Params = "n-bbbb", []byte(`{"node":"n-aaaa"}`)
	_, err = m.Mint(t.Context(), reseed, "maas_machine_token", "")
	wantCode(t, err, "secret_not_found")
	_, err = m.Mint(t.Context(), update, "maas_machine_token", "")
	wantCode(t, err, "credential_refused")
	if err := ForgetNode(t.Context(), files, "n-aaaa"); err != nil {
		t.Fatal(err)
	}
	reseed.NodeID = "n-aaaa"
	_, err = m.Mint(t.Context(), reseed, "maas_machine_token", "")
	wantCode(t, err, "secret_not_found")
	_, err = m.Mint(t.Context(), update, "../identity", "")
	wantCode(t, err, "credential_type_unknown")
}
