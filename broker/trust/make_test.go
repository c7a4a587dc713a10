package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestMakeMakesAWholeRingThatNobodyElseMayRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if err := Make(dir, MakeOptions{Now: start}); err != nil {
		t.Fatal(err)
	}
	r, err := openKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range []pki.KeyUse{pki.UseRoot, UseIssuing, pki.UseTask, pki.UseTrust, pki.UseStatement} {
		if n := len(r.keys(use)); n != 1 {
			t.Errorf("%s: %d keys, want 1", use, n)
			continue
		}
		if _, err := r.signer(r.keys(use)[0]); err != nil {
			t.Errorf("%s: %v", use, err)
		}
	}
	b, err := pki.FirstBundle([]byte(r.doc.FirstBundle), start)
	if err != nil {
		t.Fatal(err)
	}
	if b.Version != 1 || len(b.Keys) != 4 {
		t.Errorf("first bundle: version %d with %d keys", b.Version, len(b.Keys))
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, want 0600", f.Name(), info.Mode())
		}
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("directory: mode %v, want 0700", info.Mode())
	}
}

func TestMakeChangesNothingWhereThereAreKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if err := Make(dir, MakeOptions{Now: start}); err != nil {
		t.Fatal(err)
	}
	before := read(t, dir)
	refusedWith(t, Make(dir, MakeOptions{Now: start}), "keys_exist")
	if after := read(t, dir); after != before {
		t.Error("the ring changed")
	}
}

func TestMakeLeavesNothingHalfMade(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "keys")
	stale := filepath.Join(parent, ".keys-new-1234")
	if err := os.Mkdir(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, Make(dir, MakeOptions{Now: start, TrustKeyURI: "pkcs11:token=none"}), "key_scheme_unsupported")
	if left, _ := os.ReadDir(parent); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if Exists(dir) {
		t.Error("a ring exists")
	}
}

func TestMakeTakesATrustKeyThatLivesElsewhere(t *testing.T) {
	parent := t.TempDir()
	elsewhere := filepath.Join(parent, "offline.key")
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pki.MarshalKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(elsewhere, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "keys")
	if err := Make(dir, MakeOptions{Now: start, TrustKeyURI: pki.FileURI(elsewhere)}); err != nil {
		t.Fatal(err)
	}
	want, _ := pki.KeyID(key.Public())
	r, err := openKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.keys(pki.UseTrust)[0]; got.ID != want || got.URI != pki.FileURI(elsewhere) {
		t.Errorf("trust key %s at %s", got.ID, got.URI)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "trust-*")); len(found) != 0 {
		t.Errorf("a copy was made: %v", found)
	}
}

func TestARingWithAnotherKeyInPlaceIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if err := Make(dir, MakeOptions{Now: start}); err != nil {
		t.Fatal(err)
	}
	task, _ := filepath.Glob(filepath.Join(dir, "task-*.key"))
	statement, _ := filepath.Glob(filepath.Join(dir, "statement-*.key"))
	if err := os.Rename(statement[0], task[0]); err != nil {
		t.Fatal(err)
	}
	r, err := openKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.signer(r.keys(pki.UseTask)[0])
	refusedWith(t, err, "key_mismatch")
}

func TestADamagedRingIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "unknown member": `{"keys":[],"first_bundle":"","more":1}`, "large": strings.Repeat(" ", maxRing+1),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ringFile), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := openKeyring(dir)
			refusedWith(t, err, "keys_unreadable")
		})
	}
	_, err := openKeyring(t.TempDir())
	refusedWith(t, err, "keys_missing")
}

func read(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, ringFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func refusedWith(t *testing.T, err error, code string) {
	t.Helper()
	var e *broker.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want the code %s", err, code)
	}
}
