package trust

import (
	"crypto"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
)

func (b *bench) addReleaseKey(t *testing.T, pub crypto.PublicKey) string {
	t.Helper()
	id, err := b.AddReleaseKey(t.Context(), admin, pub, "releases")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A site begins without releases, takes a key, replaces it, and never comes to a bundle
// that its nodes would not take.
func TestReleaseKeysJoinAndLeave(t *testing.T) {
	b := onSQLite(t)
	n := b.enroll(t, "node")
	if len(n.bundle.ReleaseKeys(b.clock.Now())) != 0 {
		t.Fatal("a site begins with a release key")
	}
	first, second := pkitest.NewSigner(t), pkitest.NewSigner(t)
	if id := b.addReleaseKey(t, first.Key.Public()); id != first.ID || b.Version() != 2 {
		t.Fatalf("key %s, version %d", id, b.Version())
	}
	if b.addReleaseKey(t, first.Key.Public()); b.Version() != 2 {
		t.Error("the same key again made another bundle")
	}
	b.hear(t, n)
	if keys := n.bundle.ReleaseKeys(b.clock.Now()); len(keys) != 1 || keys[first.ID] == nil {
		t.Errorf("the node believes %v", keys)
	}
	refusedWith(t, b.RetireReleaseKey(t.Context(), admin, first.ID, "stolen"), "release_key_last")
	refusedWith(t, b.RetireReleaseKey(t.Context(), admin, "0000000000000000", "typo"), "release_key_unknown")

	b.addReleaseKey(t, second.Key.Public())
	if err := b.RetireReleaseKey(t.Context(), admin, first.ID, "stolen"); err != nil {
		t.Fatal(err)
	}
	b.hear(t, n)
	if keys := n.bundle.ReleaseKeys(b.clock.Now()); len(keys) != 1 || keys[second.ID] == nil {
		t.Errorf("the node believes %v", keys)
	}
	b.reopen(t) // the private half of a release key is on no broker
	if keys := b.ReleaseKeys(); len(keys) != 1 || keys[second.ID] == nil {
		t.Errorf("the broker believes %v", keys)
	}
}

func TestAKeyOfAnotherUseSignsNoReleases(t *testing.T) {
	b := onSQLite(t)
	for _, use := range rotatable {
		k, err := b.ring.keys(use)[0].public()
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.AddReleaseKey(t.Context(), admin, k, "two uses")
		refusedWith(t, err, "trust_key_two_uses")
	}
	if b.Version() != 1 {
		t.Errorf("version %d is in force", b.Version())
	}
}

func TestReleaseKeysWaitForAnOpenRotation(t *testing.T) {
	b := onSQLite(t)
	one, two := pkitest.NewSigner(t), pkitest.NewSigner(t)
	b.addReleaseKey(t, one.Key.Public())
	b.addReleaseKey(t, two.Key.Public())
	r := b.rotate(t, pki.UseTask)
	_, err := b.AddReleaseKey(t.Context(), admin, pkitest.NewSigner(t).Key.Public(), "now")
	refusedWith(t, err, "rotation_open")
	refusedWith(t, b.RetireReleaseKey(t.Context(), admin, one.ID, "now"), "rotation_open")
	if now, _ := b.Rotation(); now != r {
		t.Errorf("the rotation is %+v, and was %+v", now, r)
	}
}

// A release key that ran out keeps no other key from being replaced, and counts for
// nothing itself.
func TestAReleaseKeyThatRanOutHoldsUpNothing(t *testing.T) {
	b := onSQLite(t)
	n := b.enroll(t, "node")
	k := pkitest.NewSigner(t)
	b.addReleaseKey(t, k.Key.Public())
	b.hear(t, n)
	next, err := b.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range next.Keys {
		if next.Keys[i].Use == pki.UseRelease {
			next.Keys[i].NotAfter = b.clock.Now().Add(time.Hour)
		}
	}
	if err := b.publish(t.Context(), admin, next, "shorter"); err != nil {
		t.Fatal(err)
	}
	b.hear(t, n)
	b.clock.Advance(2 * time.Hour)
	if keys := n.bundle.ReleaseKeys(b.clock.Now()); len(keys) != 0 {
		t.Errorf("after its time the node believes %v", keys)
	}
	b.rotate(t, pki.UseTask)
	b.hear(t, n)
	if n.bundle.Version != b.Version() {
		t.Errorf("the node has version %d, and %d is in force", n.bundle.Version, b.Version())
	}
}

// A hold may come while this replica serves.
func TestABundleAfterARestoreIsBeyondThoseThatAreLost(t *testing.T) {
	b := onSQLite(t)
	if _, err := b.db.MarkRestored(t.Context(), admin, b.clock.Now(), "a backup"); err != nil {
		t.Fatal(err)
	}
	floor, err := b.db.LastRestore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.addReleaseKey(t, pkitest.NewSigner(t).Key.Public())
	if got := b.Version(); got < floor.TrustFloor {
		t.Errorf("the next bundle has version %d, and one of %d may have been issued", got, floor.TrustFloor-1)
	}
}
