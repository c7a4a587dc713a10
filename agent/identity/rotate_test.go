package identity

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// changeover is a broker's view of a rotation.
type changeover struct {
	*office
	key, cert    string // of the request, and the answer
	loseAsk      int
	heard        bool // the new certificate was used: from then on the old one is denied
	loseProof    int
	over         bool // the broker has ended the rotation
	asked, shown int
}

var errDenied = errors.New("denied")

func (c *changeover) ask(_ context.Context, r wire.RenewRequest) (*wire.RenewReply, error) {
	c.asked++
	if c.heard {
		return nil, errDenied
	}
	if c.over {
		return nil, ErrRotationOver
	}
	csr, err := pki.ParseCSR([]byte(r.CSR))
	if err != nil || r.RotationTask != "t-1" {
		c.t.Fatalf("%+v, %v", r, err)
	}
	key, _ := pki.PublicKeyDigest(csr.PublicKey)
	if c.key == "" {
		c.key, c.cert = key, c.certify(r.CSR)
	}
	if c.key != key {
		c.t.Fatal("two keys for one task")
	}
	if c.loseAsk > 0 {
		c.loseAsk--
		return nil, errLost
	}
	return &wire.RenewReply{Certificate: c.cert}, nil
}

func (c *changeover) prove(_ context.Context, m *Member) error {
	c.shown++
	if c.over {
		return ErrKeyRefused
	}
	if got, _ := pki.PublicKeyDigest(m.Key.Public()); got != c.key {
		c.t.Fatal("shown with another key")
	}
	c.heard = true
	if c.loseProof > 0 {
		c.loseProof--
		return errLost
	}
	return nil
}

func (c *changeover) rotate(s *State) error {
	return s.Rotate(context.Background(), "t-1", pki.Ed25519, Report{}, c.ask, c.prove)
}

func keysIn(t *testing.T, dir string) []string {
	t.Helper()
	keys, err := filepath.Glob(filepath.Join(dir, "*"+keySuffix))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// member is a state that has enrolled.
func member(t *testing.T) (string, *changeover, *State) {
	t.Helper()
	dir, o := t.TempDir(), newOffice(t)
	s := openState(t, dir)
	if _, err := enroll(s, o); err != nil {
		t.Fatal(err)
	}
	return dir, &changeover{office: o}, s
}

func TestARotationGivesAnotherKeyInTheSameEnrolment(t *testing.T) {
	dir, c, s := member(t)
	before := s.Member()
	old := keysIn(t, dir)
	if err := c.rotate(s); err != nil {
		t.Fatal(err)
	}
	after := s.Member()
	if after.NodeIdentity != before.NodeIdentity || after.TokenHash != before.TokenHash || after.Key.Public().(ed25519.PublicKey).Equal(before.Key.Public()) {
		t.Errorf("before %+v, after %+v", before.NodeIdentity, after.NodeIdentity)
	}
	if now := keysIn(t, dir); len(now) != 1 || now[0] == old[0] {
		t.Errorf("key files %v, before %v", now, old)
	}
	if cert, ok := s.Rotated("t-1"); !ok || pki.Serial(cert) != pki.Serial(after.Cert.Leaf) || s.Rotating() != "" {
		t.Errorf("rotated by t-1: %v, under way: %q", ok, s.Rotating())
	}
	if _, ok := s.Rotated("t-2"); ok {
		t.Error("rotated by a task that was not")
	}
	if err := c.rotate(s); err != nil || c.asked != 1 || c.shown != 1 {
		t.Errorf("done again: %v, asked %d times", err, c.asked)
	}
	// The result survives a restart and a renewal.
	if _, err := s.Renew(t.Context(), Report{}, c.renew); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	s = openState(t, dir)
	if _, ok := s.Rotated("t-1"); !ok {
		t.Error("forgotten by the next process")
	}
}

func TestTheNewKeyAndItsCertificateAreOnDiskBeforeTheyAreShown(t *testing.T) {
	dir, c, s := member(t)
	err := s.Rotate(t.Context(), "t-1", pki.P256, Report{}, func(ctx context.Context, r wire.RenewRequest) (*wire.RenewReply, error) {
		if n := len(keysIn(t, dir)); n != 2 {
			t.Errorf("%d keys on disk when the request leaves", n)
		}
		return c.ask(ctx, r)
	}, func(ctx context.Context, m *Member) error {
		raw, err := os.ReadFile(filepath.Join(dir, rotationFile))
		if err != nil || !strings.Contains(string(raw), "BEGIN CERTIFICATE") || len(keysIn(t, dir)) != 2 {
			t.Errorf("when the certificate is shown: %s, %v", raw, err)
		}
		return c.prove(ctx, m)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Power is lost at each step in turn, with either answer of the broker lost as well. Afterwards the
// next process ends with a single key, accepted by the broker.
func TestARotationSurvivesACrashAtEachStep(t *testing.T) {
	errPower := errors.New("power lost")
	for _, lost := range []struct{ ask, proof int }{{}, {ask: 1}, {proof: 1}} {
		for n := 0; ; n++ {
			dir, c, s := member(t)
			c.loseAsk, c.loseProof = lost.ask, lost.proof
			step := 0
			s.fail = func(string) error {
				if step++; step > n {
					return errPower
				}
				return nil
			}
			err := c.rotate(s)
			cut := step > n
			_ = s.Close() // the state in memory is lost
			s = openState(t, dir)
			if _, ok := s.Rotated("t-1"); ok != (s.Rotating() == "" && c.heard) {
				t.Fatalf("lost %+v, step %d: rotated %v, under way %q, heard %v", lost, n, ok, s.Rotating(), c.heard)
			}
			for range 3 {
				if err = c.rotate(s); err == nil {
					break
				}
			}
			got, _ := pki.PublicKeyDigest(s.Member().Key.Public())
			if err != nil || !c.heard || got != c.key {
				t.Fatalf("lost %+v, step %d: %v; heard %v", lost, n, err, c.heard)
			}
			_ = s.Close()
			s = openState(t, dir)
			if keys := keysIn(t, dir); len(keys) != 1 || s.Rotating() != "" {
				t.Fatalf("lost %+v, step %d: keys %v", lost, n, keys)
			}
			if !cut {
				if n < 6 && lost.ask+lost.proof == 0 {
					t.Fatalf("only %d steps were seen", n)
				}
				break
			}
		}
	}
}

// The broker ends the rotation instead: at whatever step power was lost, the node keeps its old
// identity.
func TestARotationThatIsOverLeavesTheKeyThatWas(t *testing.T) {
	errPower := errors.New("power lost")
	for n := 0; n < 6; n++ {
		dir, c, s := member(t)
		before := s.Member().keyFile
		step := 0
		s.fail = func(string) error {
			if step++; step > n {
				return errPower
			}
			return nil
		}
		s.Member() // unchanged
		_ = s.Rotate(t.Context(), "t-1", pki.Ed25519, Report{}, c.ask, func(context.Context, *Member) error { return errLost })
		_ = s.Close()
		s = openState(t, dir)
		c.over = true
		if s.Rotating() != "" {
			if err := c.rotate(s); !errors.Is(err, ErrRotationOver) {
				t.Fatalf("step %d: %v", n, err)
			}
		}
		if keys := keysIn(t, dir); s.Member().keyFile != before || len(keys) != 1 || s.Rotating() != "" {
			t.Fatalf("step %d: key %s, before %s, files %v", n, s.Member().keyFile, before, keys)
		}
		if _, err := s.Renew(t.Context(), Report{}, c.renew); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNothingIsRenewedWhileTheKeyChanges(t *testing.T) {
	_, c, s := member(t)
	c.loseAsk = 1
	_ = c.rotate(s)
	if _, err := s.Renew(t.Context(), Report{}, c.renew); err == nil || !strings.Contains(err.Error(), "t-1") {
		t.Fatalf("%v", err)
	}
	if err := s.Rotate(t.Context(), "t-2", pki.Ed25519, Report{}, c.ask, c.prove); err == nil || c.asked != 1 {
		t.Fatalf("another rotation began: %v", err)
	}
	if err := s.GiveUpRotation("t-2"); err != nil || s.Rotating() != "t-1" {
		t.Fatalf("another's was given up: %v", err)
	}
	if err := s.GiveUpRotation("t-1"); err != nil || s.Rotating() != "" {
		t.Fatal(err)
	}
	if _, err := s.Renew(t.Context(), Report{}, c.renew); err != nil {
		t.Fatal(err)
	}
}

// Once the broker has received the new key there is no way back. A full disk does not cost the node
// its identity, and a restart completes the rotation.
func TestAFullDiskAtTheSwitchDoesNotLoseTheNode(t *testing.T) {
	dir, c, s := member(t)
	old := s.Member().keyFile
	s.fail = func(step string) error {
		if step == "write "+identityFile {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := c.rotate(s); err != nil || !s.Unsaved() {
		t.Fatalf("%v, unsaved %v", err, s.Unsaved())
	}
	if got, _ := pki.PublicKeyDigest(s.Member().Key.Public()); got != c.key || s.Rotating() != "" {
		t.Error("the new key is not in force")
	}
	if _, err := os.Stat(filepath.Join(dir, old)); err != nil {
		t.Error("the old key is gone before the new one is on record: a crash would leave none")
	}
	crashed := t.TempDir() // the directory after a crash at this point
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, key := range keysIn(t, crashed) {
		if err := os.Chmod(key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := openState(t, crashed)
	if again.Rotating() != "t-1" {
		t.Fatal("the next process does not know")
	}
	if err := c.rotate(again); err != nil || c.asked != 1 || len(keysIn(t, crashed)) != 1 {
		t.Fatalf("%v, asked %d times, keys %v", err, c.asked, keysIn(t, crashed))
	}

	s.fail = func(string) error { return nil }
	if err := s.Flush(); err != nil || s.Unsaved() || len(keysIn(t, dir)) != 1 {
		t.Fatalf("%v, keys %v", err, keysIn(t, dir))
	}
}

func TestANewEnrolmentEndsARotation(t *testing.T) {
	for _, crash := range []bool{false, true} {
		dir, c, s := member(t)
		c.loseProof = 1
		_ = c.rotate(s)
		note, err := os.ReadFile(filepath.Join(dir, rotationFile))
		if err != nil {
			t.Fatal(err)
		}
		c.id.Epoch++
		b := c.bootstrap()
		b.Token = "hsn_" + "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
		if _, err := s.Enroll(t.Context(), b, pki.Ed25519, Report{}, c.enroll); err != nil {
			t.Fatal(err)
		}
		if crash { // before the record was removed
			if err := os.WriteFile(filepath.Join(dir, rotationFile), note, 0o600); err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
			s = openState(t, dir)
		}
		if s.Rotating() != "" || len(keysIn(t, dir)) != 1 {
			t.Errorf("crash %v: under way %q, keys %v", crash, s.Rotating(), keysIn(t, dir))
		}
	}
}

func TestAnAnswerToARotationThatIsNotForUsIsNotTaken(t *testing.T) {
	for name, answer := range map[string]func(*changeover, wire.RenewRequest) string{
		"for the old key": func(c *changeover, _ wire.RenewRequest) string { return "" },
		"for another node": func(c *changeover, r wire.RenewRequest) string {
			c.id.NodeID = "n-aaaaaaaaaaaaaaaa"
			return c.certify(r.CSR)
		},
		"of another enrolment": func(c *changeover, r wire.RenewRequest) string {
			c.id.Epoch++
			return c.certify(r.CSR)
		},
		"for another key": func(c *changeover, _ wire.RenewRequest) string {
			return string(pki.MarshalCerts(c.auth.Enroll(c.t, c.id, time.Hour).Cert.Leaf))
		},
	} {
		_, c, s := member(t)
		before := s.Member()
		err := s.Rotate(t.Context(), "t-1", pki.Ed25519, Report{}, func(_ context.Context, r wire.RenewRequest) (*wire.RenewReply, error) {
			if text := answer(c, r); text != "" {
				return &wire.RenewReply{Certificate: text}, nil
			}
			return &wire.RenewReply{Certificate: chainPEM(before.Cert)}, nil
		}, func(context.Context, *Member) error {
			t.Errorf("%s: it was shown", name)
			return nil
		})
		if err == nil || s.Member() != before {
			t.Errorf("%s: taken (%v)", name, err)
		}
	}
}

func TestADamagedNoteOfARotationIsTold(t *testing.T) {
	for _, text := range []string{"", "{", `{"task_id":1}`, `{"task_id":"t-1","form":2}`, strings.Repeat("x", 1<<18)} {
		dir, _, s := member(t)
		_ = s.Close()
		if err := os.WriteFile(filepath.Join(dir, rotationFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := Open(dir, func() time.Time { return noon })
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Lock(); err == nil || !strings.Contains(err.Error(), rotationFile) {
			t.Errorf("%.20q: %v", text, err)
		}
		_ = again.Close()
	}
}
