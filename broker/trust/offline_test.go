package trust

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// A trust key that is kept elsewhere is needed to rotate and for nothing else.
// While it is away, whoever holds the broker and all its files signs tasks, and
// cannot tell a node whom to believe.
func TestABrokerWithoutItsTrustKeyWorksAndCannotRotate(t *testing.T) {
	clock := storetest.NewClock()
	db := storetest.Open(t, "sqlite", clock.Now)
	stick := t.TempDir()
	away := filepath.Join(stick, "trust.key")
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pki.MarshalKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(away, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: filepath.Join(t.TempDir(), "keys"), db: db, clock: clock}
	if err := Make(b.dir, MakeOptions{Now: clock.Now(), TrustKeyURI: pki.FileURI(away)}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(away); err != nil { // the stick is pulled
		t.Fatal(err)
	}
	b.reopen(t)
	n := b.enroll(t, "node")
	if _, err := b.ask(t, n); err != nil {
		t.Fatalf("without the trust key the daily work stands still: %v", err)
	}
	for _, use := range rotatable {
		if _, err := b.Rotate(t.Context(), admin, use, "mine now"); err == nil {
			t.Errorf("the %s key was rotated without the trust key", use)
		}
	}
	if b.Version() != 1 {
		t.Errorf("version %d is in force", b.Version())
	}
	// With every key that is there, and a trust key of one's own, no bundle is
	// made that the node would take.
	forged := *n.bundle
	forged.Version = 2
	for _, use := range []pki.KeyUse{pki.UseTask, pki.UseStatement} {
		k, err := b.ring.signer(b.ring.keys(use)[0])
		if err != nil {
			t.Fatal(err)
		}
		raw, err := pki.SignBundle(forged, k)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.bundle.Accept(raw, clock.Now()); taskcatalog.CodeOf(err, "") != pki.CodeTrustKeyUnknown {
			t.Errorf("a bundle signed by the %s key: %v", use, err)
		}
	}
	// The stick is put back: what was prepared is taken up.
	if err := os.WriteFile(away, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b.reopen(t)
	if _, err := b.Rotate(t.Context(), admin, pki.UseTask, "due"); err != nil {
		t.Fatalf("with the trust key back: %v", err)
	}
}
