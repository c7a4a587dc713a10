package identity

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// office answers enrolments and renewals as a broker does.
type office struct {
	t      *testing.T
	auth   *pkitest.Authority
	id     pki.NodeIdentity
	keys   []string // of the requests, in PEM
	lose   int      // answers to lose
	change func(*wire.EnrollReply)
	now    time.Time
}

func newOffice(t *testing.T) *office {
	auth := pkitest.NewAt(t, noon)
	return &office{t: t, auth: auth, id: auth.NewNode(t).NodeIdentity, now: noon}
}

var errLost = errors.New("the answer was lost")

func (o *office) certify(csrPEM string) string {
	csr, err := pki.ParseCSR([]byte(csrPEM))
	if err != nil {
		o.t.Fatal(err)
	}
	digest, _ := pki.PublicKeyDigest(csr.PublicKey)
	o.keys = append(o.keys, digest)
	leaf, err := o.auth.Issuing.IssueNode(csr, o.id, o.now, 24*time.Hour)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(pki.MarshalCerts(leaf, o.auth.Issuing.Cert, o.auth.Root()))
}

func (o *office) enroll(_ context.Context, r wire.EnrollRequest) (*wire.EnrollReply, error) {
	reply := &wire.EnrollReply{NodeID: o.id.NodeID, NodeEpoch: o.id.Epoch, Certificate: o.certify(r.CSR), TrustBundle: string(o.auth.RawBundle)}
	if o.change != nil {
		o.change(reply)
	}
	if o.lose > 0 {
		o.lose--
		return nil, errLost
	}
	return reply, nil
}

func (o *office) renew(_ context.Context, r wire.RenewRequest) (*wire.RenewReply, error) {
	return &wire.RenewReply{Certificate: o.certify(r.CSR)}, nil
}

func (o *office) bootstrap() *Bootstrap {
	return &Bootstrap{Broker: "https://b", CASHA256: o.auth.Pin(), Token: goodToken, Source: "the test"}
}

func openState(t *testing.T, dir string) *State {
	t.Helper()
	s, err := Open(dir, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Lock(); err != nil {
		t.Fatal(err)
	}
	return s
}

func enroll(s *State, o *office) (*Member, error) {
	return s.Enroll(context.Background(), o.bootstrap(), pki.Ed25519, Report{}, o.enroll)
}

func TestTheKeyIsOnDiskBeforeTheRequestLeaves(t *testing.T) {
	dir, o := t.TempDir(), newOffice(t)
	s := openState(t, dir)
	_, err := s.Enroll(context.Background(), o.bootstrap(), pki.P256, Report{}, func(ctx context.Context, r wire.EnrollRequest) (*wire.EnrollReply, error) {
		keys, _ := filepath.Glob(filepath.Join(dir, "*"+keySuffix))
		if len(keys) != 1 {
			t.Fatalf("keys on disk: %v", keys)
		}
		raw, err := os.ReadFile(keys[0])
		if err != nil {
			t.Fatal(err)
		}
		key, err := pki.ParseKey(raw)
		if err != nil {
			t.Fatal(err)
		}
		csr, _ := pki.ParseCSR([]byte(r.CSR))
		mine, _ := pki.PublicKeyDigest(key.Public())
		if asked, _ := pki.PublicKeyDigest(csr.PublicKey); asked != mine {
			t.Fatal("the request is for another key than the one on disk")
		}
		return o.enroll(ctx, r)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestALostAnswerIsAskedForAgainWithTheSameKey(t *testing.T) {
	for _, crash := range []bool{false, true} {
		dir, o := t.TempDir(), newOffice(t)
		o.lose = 2
		s := openState(t, dir)
		for range 2 {
			if _, err := enroll(s, o); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			if crash {
				_ = s.Close()
				s = openState(t, dir)
			}
		}
		if _, err := enroll(s, o); err != nil {
			t.Fatal(err)
		}
		if o.keys[0] != o.keys[1] || o.keys[1] != o.keys[2] {
			t.Fatalf("crash %v: the keys differ: %v", crash, o.keys)
		}
	}
}

// Power is lost at each step of the enrolment in turn; the next start ends as the same node with a
// single key.
func TestAnEnrolmentSurvivesACrashAtEachStep(t *testing.T) {
	errPower := errors.New("power lost")
	for n := 0; ; n++ {
		dir, o := t.TempDir(), newOffice(t)
		s := openState(t, dir)
		step := 0
		s.fail = func(string) error {
			if step++; step > n {
				return errPower
			}
			return nil
		}
		_, err := enroll(s, o)
		done := err == nil
		_ = s.Close()
		s = openState(t, dir)
		if s.Member() == nil {
			if _, err := enroll(s, o); err != nil {
				t.Fatalf("after a crash at step %d: %v", n, err)
			}
		}
		if s.Member().NodeID != o.id.NodeID {
			t.Fatalf("after a crash at step %d: %+v", n, s.Member().NodeIdentity)
		}
		keys, _ := filepath.Glob(filepath.Join(dir, "*"+keySuffix))
		temps, _ := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
		if len(keys) != 1 || len(temps) != 0 {
			t.Fatalf("after a crash at step %d: keys %v, temporary files %v", n, keys, temps)
		}
		if done {
			if n < 6 {
				t.Fatalf("only %d steps were seen", n)
			}
			return
		}
	}
}

func TestAnAnswerThatIsNotForUsIsRefusedAndChangesNothing(t *testing.T) {
	for name, change := range map[string]func(*office, *wire.EnrollReply){
		"certificate for another node": func(_ *office, r *wire.EnrollReply) { r.NodeID = "n-aaaaaaaaaaaaaaaa" },
		"certificate of another epoch": func(_ *office, r *wire.EnrollReply) { r.NodeEpoch++ },
		"certificate for another key": func(o *office, r *wire.EnrollReply) {
			n := o.auth.Enroll(o.t, o.id, time.Hour)
			r.Certificate = string(pki.MarshalCerts(n.Cert.Leaf))
		},
		"no certificate":    func(_ *office, r *wire.EnrollReply) { r.Certificate = "" },
		"bundle not signed": func(_ *office, r *wire.EnrollReply) { r.TrustBundle = "{}" },
		"bundle of a stranger": func(o *office, r *wire.EnrollReply) {
			raw, err := pki.SignBundle(*o.auth.Bundle, pkitest.NewSigner(o.t))
			if err != nil {
				o.t.Fatal(err)
			}
			r.TrustBundle = string(raw)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, o := t.TempDir(), newOffice(t)
			o.change = func(r *wire.EnrollReply) { change(o, r) }
			s := openState(t, dir)
			if _, err := enroll(s, o); taskcatalog.CodeOf(err, "") != CodeAnswerInvalid {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, identityFile)); err == nil || s.Member() != nil {
				t.Fatal("an identity was made of it")
			}
		})
	}
}

func TestTheStateIsForRootAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s := openState(t, dir)
	if _, err := enroll(s, newOffice(t)); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %04o", info.Mode().Perm())
	}
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if info, _ := f.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %04o", f.Name(), info.Mode().Perm())
		}
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := openState(t, dir)
	second, err := Open(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Close() })
	if err := second.Lock(); taskcatalog.CodeOf(err, "") != CodeStateLocked {
		t.Fatal(err)
	}
	first.Unlock()
	if err := second.Lock(); err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskDoesNotEndAMembership(t *testing.T) {
	dir, o := t.TempDir(), newOffice(t)
	s := openState(t, dir)
	if _, err := enroll(s, o); err != nil {
		t.Fatal(err)
	}
	s.fail = func(string) error { return syscall.ENOSPC }
	o.now = noon.Add(16 * time.Hour)
	m, err := s.Renew(context.Background(), Report{}, o.renew)
	if err != nil || !s.Unsaved() || s.Member() != m || !m.Cert.Leaf.NotAfter.Equal(o.now.Add(24*time.Hour)) {
		t.Fatal(err, s.Unsaved())
	}
	if err := s.Flush(); err == nil {
		t.Fatal("written to a full disk")
	}
	s.fail = func(string) error { return nil }
	if err := s.Flush(); err != nil || s.Unsaved() {
		t.Fatal(err)
	}
	_ = s.Close()
	if again := openState(t, dir).Member(); !again.Cert.Leaf.Equal(m.Cert.Leaf) {
		t.Fatal("the renewed certificate is not the one on disk")
	}
}

func TestTrustThatCannotBeWrittenIsNotInForce(t *testing.T) {
	o := newOffice(t)
	s := openState(t, t.TempDir())
	if _, err := enroll(s, o); err != nil {
		t.Fatal(err)
	}
	next := *o.auth.Bundle
	next.Version = 2
	raw, err := pki.SignBundle(next, o.auth.Trust)
	if err != nil {
		t.Fatal(err)
	}
	s.fail = func(string) error { return syscall.ENOSPC }
	if _, _, err := s.AcceptTrust(string(raw)); err == nil || s.Member().Trust.Version != 1 {
		t.Fatal(err)
	}
	s.fail = func(string) error { return nil }
	for i, changed := range []bool{true, false} {
		version, got, err := s.AcceptTrust(string(raw))
		if err != nil || version != 2 || got != changed {
			t.Fatal(i, version, got, err)
		}
	}
	next.Version = 3
	stranger, _ := pki.SignBundle(next, o.auth.Task)
	if _, _, err := s.AcceptTrust(string(stranger)); err == nil {
		t.Fatal("a bundle signed by a task key was taken")
	}
}

func TestADamagedIdentityIsAnErrorAndNotANewNode(t *testing.T) {
	dir, o := t.TempDir(), newOffice(t)
	s := openState(t, dir)
	if _, err := enroll(s, o); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	raw, _ := os.ReadFile(filepath.Join(dir, identityFile))
	for name, text := range map[string]string{
		"cut off":         string(raw[:len(raw)/2]),
		"empty":           "",
		"another's key":   strings.Replace(string(raw), `"key":"`, `"key":"../`, 1),
		"another's epoch": strings.Replace(string(raw), `"node_epoch":1`, `"node_epoch":2`, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Load(); taskcatalog.CodeOf(err, "") != CodeStateInvalid {
			t.Errorf("%s: %v", name, err)
		}
		_ = s.Close()
	}
}
