package pki_test

import (
	"crypto"
	"crypto/sha256"
	"flag"
	"testing"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var update = flag.Bool("update", false, "write the golden vectors and the fuzz corpus anew")

// wantCode fails unless err is a refusal with this code; "" wants no error.
func wantCode(t *testing.T, err error, code taskcatalog.Code) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Fatalf("refused with %q: %v", taskcatalog.CodeOf(err, "no code"), err)
		}
		return
	}
	if err == nil {
		t.Fatalf("accepted, want a refusal with %q", code)
	}
	if got := taskcatalog.CodeOf(err, "no code"); got != code {
		t.Fatalf("refused with %q, want %q: %v", got, code, err)
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// zeroes is a source without randomness; counter never repeats.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type counter struct{ n byte }

func (c *counter) Read(p []byte) (int, error) {
	for i := 0; i < len(p); {
		c.n++
		sum := sha256.Sum256([]byte{c.n})
		i += copy(p[i:], sum[:])
	}
	return len(p), nil
}

func keyOf(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	return must[crypto.Signer](t)(pki.GenerateKey(kind))
}
