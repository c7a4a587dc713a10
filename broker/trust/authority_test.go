package trust

import (
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/test/suspended"
)

func TestABrokerWithOtherKeysRefusesToStart(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBench(t, db, clock)
		b.reopen(t) // the same keys are welcome
		other := b.options()
		other.Dir = filepath.Join(t.TempDir(), "keys")
		if err := Make(other.Dir, MakeOptions{Now: clock.Now()}); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), other)
		refusedWith(t, err, "key_mismatch")
	})
}

func TestABrokerThatLacksANewKeyRefusesToStart(t *testing.T) {
	b := onSQLite(t)
	ring := b.ring.doc
	b.rotate(t, pki.UseTask)
	if err := b.ring.write(ring); err != nil { // a replica that was not given the new key
		t.Fatal(err)
	}
	_, err := Open(t.Context(), b.options())
	refusedWith(t, err, "key_mismatch")
}

func TestWhatADatabaseAdminWritesDecidesNothingAboutTrust(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBench(t, db, clock)
		attacker := pkitest.NewAt(t, clock.Now())
		forged := *attacker.Bundle
		forged.Version = 2
		raw, err := pki.SignBundle(forged, attacker.Trust)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.SaveBundle(t.Context(), admin, 2, raw, "mine now"); err != nil {
			t.Fatal(err)
		}
		refusedWith(t, b.Refresh(t.Context()), "key_mismatch")
		if b.Version() != 1 {
			t.Errorf("version %d is in force", b.Version())
		}
		_, err = Open(t.Context(), b.options())
		refusedWith(t, err, "key_mismatch")
	})
}

func TestAnotherReplicasRotationIsFollowed(t *testing.T) {
	b := onSQLite(t)
	other, err := Open(t.Context(), b.options())
	if err != nil {
		t.Fatal(err)
	}
	b.rotate(t, pki.UseTrust)
	if err := b.Finish(t.Context(), admin, nil, "done"); err != nil {
		t.Fatal(err)
	}
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if other.Version() != 3 {
		t.Errorf("version %d, want 3", other.Version())
	}
}

func TestAllThatEndsIsTold(t *testing.T) {
	b := onSQLite(t)
	shown, err := b.ServerCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[pki.KeyUse]time.Time{}
	for _, e := range b.Expiries() {
		if e.ID == "" || got[e.Use] != (time.Time{}) {
			t.Errorf("%+v has no id, or comes twice", e)
		}
		got[e.Use] = e.At
	}
	want := map[pki.KeyUse]time.Time{UseServer: shown.Leaf.NotAfter}
	for _, use := range []pki.KeyUse{pki.UseRoot, UseIssuing, pki.UseTask, pki.UseTrust, pki.UseStatement} {
		want[use] = b.ring.keys(use)[0].NotAfter
	}
	for use, at := range want {
		if !got[use].Equal(at) || at.IsZero() {
			t.Errorf("%s ends at %v, want %v", use, got[use], at)
		}
	}
	b.rotate(t, pki.UseTask)
	if n := len(b.Expiries()); n != len(want)+1 {
		t.Errorf("in a rotation %d end, want both keys", n)
	}
}

func TestTheServerCertificateIsRenewedInProcess(t *testing.T) {
	b := onSQLite(t)
	first, err := b.ServerCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "broker.example", "192.0.2.7"} {
		if err := first.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if ips := first.Leaf.IPAddresses; !ips[0].Equal(net.IPv4(127, 0, 0, 1)) {
		t.Errorf("addresses %v", ips)
	}
	if len(first.Leaf.ExtKeyUsage) != 1 || first.Leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
		t.Errorf("uses %v, want serverAuth alone", first.Leaf.ExtKeyUsage)
	}
	if n := len(first.Certificate); n != 3 {
		t.Errorf("a chain of %d, want leaf, issuing CA and root", n)
	}
	b.clock.Advance(serverLife / 2)
	if again, err := b.ServerCertificate(nil); err != nil || again != first {
		t.Errorf("another one at half its life (%v)", err)
	}
	b.clock.Advance(serverLife / 4)
	next, err := b.ServerCertificate(nil)
	if err != nil || next == first || !next.Leaf.NotAfter.Equal(b.clock.Now().Add(serverLife).Truncate(time.Second)) {
		t.Errorf("not renewed past two thirds of its life (%v)", err)
	}
}

// A machine was suspended, or its clock was set: the dates in the certificate decide.
func TestTheServerCertificateIsRenewedByItsOwnDates(t *testing.T) {
	b := onSQLite(t)
	now := time.Now() // as the broker reads it, with a monotonic reading
	b.o.Now = func() time.Time { return now }
	first, err := b.ServerCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]time.Time{
		"suspended past its end":           suspended.For(t, now, serverLife+time.Hour),
		"suspended past two thirds of it":  suspended.For(t, now, serverLife*2/3+time.Hour),
		"the clock was set back before it": suspended.For(t, now, -time.Hour),
	} {
		b.o.Now = func() time.Time { return at }
		next, err := b.ServerCertificate(nil)
		if err != nil || next == first || at.Before(next.Leaf.NotBefore) || at.Round(0).After(next.Leaf.NotAfter) {
			t.Errorf("%s: the certificate is still the old one, or not valid at %v (%v)", name, at, err)
		}
		first = next
	}
}
