package pki_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func TestEnrollTokenDoesNotShowItself(t *testing.T) {
	token := must[pki.EnrollToken](t)(pki.NewEnrollToken(rand.Reader))
	secret := token.Reveal()
	if !strings.HasPrefix(secret, "hsn_") || len(secret) != 47 {
		t.Fatalf("token has another form, %d bytes long", len(secret))
	}
	inside := struct {
		Token pki.EnrollToken
		Map   map[string]any
	}{token, map[string]any{"token": token}}
	shown := []string{string(must[[]byte](t)(json.Marshal(inside))), string(must[[]byte](t)(taskcatalog.Encode(inside))), token.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%c", "%t", "%10.3s"} {
		shown = append(shown, fmt.Sprintf(verb, token), fmt.Sprintf(verb, inside), fmt.Sprintf(verb, &inside))
	}
	for _, text := range shown {
		if strings.Contains(text, secret[4:]) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", secret[4:])) {
			t.Errorf("the token shows in %q", text)
		}
	}
}

func TestTokenMatchesItsHashOnly(t *testing.T) {
	token := must[pki.EnrollToken](t)(pki.NewEnrollToken(rand.Reader)).Reveal()
	other := must[pki.EnrollToken](t)(pki.NewEnrollToken(rand.Reader)).Reveal()
	hash := pki.HashToken(token)
	if !pki.TokenMatches(hash, token) {
		t.Error("the token does not match its hash")
	}
	for name, attack := range map[string][2]string{
		"another token": {hash, other}, "no token": {hash, ""}, "the hash itself": {hash, hash},
		"an empty hash": {"", token}, "empty and empty": {"", ""}, "a longer token": {hash, token + "A"}, "upper case": {strings.ToUpper(hash), token},
	} {
		if pki.TokenMatches(attack[0], attack[1]) {
			t.Errorf("%s matches", name)
		}
	}
	if _, err := pki.NewEnrollToken(strings.NewReader("short")); err == nil {
		t.Error("a token was made without randomness")
	}
}

func TestSignerOpensFromItsFile(t *testing.T) {
	key := keyOf(t, pki.Ed25519)
	path := filepath.Join(t.TempDir(), "a key#1?.pem")
	if err := os.WriteFile(path, must[[]byte](t)(pki.MarshalKey(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := pki.OpenSigner(pki.FileURI(path))
	wantCode(t, err, "")
	if must[string](t)(pki.KeyID(opened.Public())) != must[string](t)(pki.KeyID(key.Public())) {
		t.Error("another key was opened")
	}
}

func TestKeyURIIsRefusedWithoutQuotingIt(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, raw []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, raw, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return pki.FileURI(path)
	}
	good := must[[]byte](t)(pki.MarshalKey(keyOf(t, pki.P256)))
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, attack := range map[string]struct {
		uri  string
		code taskcatalog.Code
	}{
		"PKCS#11":             {"pkcs11:token=hsm;object=task?pin-value=hunter2", pki.CodeKeyScheme},
		"a cloud KMS":         {"awskms:///alias/hunter2", pki.CodeKeyScheme},
		"another cloud KMS":   {"gcpkms://projects/hunter2", pki.CodeKeyScheme},
		"an unknown scheme":   {"http://hunter2/key", pki.CodeKeyScheme},
		"a bare path":         {"/etc/hunter2", pki.CodeMalformed},
		"nothing":             {"", pki.CodeMalformed},
		"no URI":              {"file:%zzhunter2", pki.CodeMalformed},
		"a relative path":     {"file:hunter2.pem", pki.CodeMalformed},
		"a host":              {"file://hunter2/key.pem", pki.CodeMalformed},
		"a missing file":      {pki.FileURI(filepath.Join(dir, "missing")), pki.CodeKeyUnreadable},
		"a folder":            {pki.FileURI(dir), pki.CodeKeyUnreadable},
		"a pipe":              {pki.FileURI(fifo), pki.CodeKeyUnreadable},
		"a file for everyone": {write("open.pem", good, 0o644), pki.CodeKeyUnreadable},
		"no key":              {write("text.pem", []byte("hunter2"), 0o600), pki.CodeMalformed},
		"a large file":        {write("large.pem", make([]byte, 1<<20), 0o600), pki.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pki.OpenSigner(attack.uri)
			wantCode(t, err, attack.code)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error quotes the URI or the file: %v", err)
			}
		})
	}
}
