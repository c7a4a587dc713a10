package secrets

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

func TestATaskGetsOnlyWhatItsTypeMayHave(t *testing.T) {
	files := open(t, t.TempDir())
	now := time.Unix(1_800_000_000, 0)
	m := &Minter{Keeper: files, Now: func() time.Time { return now }}
	update := broker.Task{ID: "t-1", Type: "node.self_update", Params: []byte(`{"credential_type":"maas_machine_token"}`)}

	_, _, err := m.Mint(t.Context(), update, "oci_pull")
	wantCode(t, err, "secret_not_found")
	if err := files.Put(t.Context(), "registry/oci-pull", []byte("pull-secret")); err != nil {
		t.Fatal(err)
	}
	secret, expires, err := m.Mint(t.Context(), update, "oci_pull")
	if err != nil || secret != "pull-secret" || !expires.Equal(now.Add(mintLife)) {
		t.Fatalf("got %q until %v, %v", secret, expires, err)
	}
	_, _, err = m.Mint(t.Context(), broker.Task{ID: "t-2", Type: "node.drain"}, "oci_pull")
	wantCode(t, err, "credential_refused")
	if err := PutNodeToken(t.Context(), files, "n-aaaa", []byte("machine-secret")); err != nil {
		t.Fatal(err)
	}
	reseed := broker.Task{ID: "t-3", Type: "node.hw_sync_reseed", NodeID: "n-aaaa"}
	if secret, _, err := m.Mint(t.Context(), reseed, "maas_machine_token"); err != nil || secret != "machine-secret" {
		t.Errorf("got %q, %v", secret, err)
	}
	reseed.NodeID, reseed.Params = "n-bbbb", []byte(`{"node":"n-aaaa"}`)
	_, _, err = m.Mint(t.Context(), reseed, "maas_machine_token")
	wantCode(t, err, "secret_not_found")
	_, _, err = m.Mint(t.Context(), update, "maas_machine_token")
	wantCode(t, err, "credential_refused")
	if err := ForgetNode(t.Context(), files, "n-aaaa"); err != nil {
		t.Fatal(err)
	}
	reseed.NodeID = "n-aaaa"
	_, _, err = m.Mint(t.Context(), reseed, "maas_machine_token")
	wantCode(t, err, "secret_not_found")
	_, _, err = m.Mint(t.Context(), update, "../identity")
	wantCode(t, err, "credential_type_unknown")
}
