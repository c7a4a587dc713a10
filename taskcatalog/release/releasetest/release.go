// Package releasetest makes signed releases of the agent for tests, genuine ones and forged ones.
package releasetest

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/hostler/hostler/taskcatalog/release"
)

// Signed is a release with a signature.
type Signed struct {
	*release.Artifact
	Signatures []release.Signature
}

// Statement returns a true statement of a version, without the program; Pack fills in the program.
func Statement(version string) release.Statement {
	return release.Statement{
		Version: version, Commit: "0123456789ab", OS: release.OS, Arch: release.Arch,
		StateSchema: release.State, Protocol: release.Protocol, BuiltAt: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
	}
}

// Make packs a program under a statement and signs it.
func Make(t testing.TB, program []byte, s release.Statement, key crypto.Signer) Signed {
	t.Helper()
	a, err := release.Pack(program, s)
	if err != nil {
		t.Fatal(err)
	}
	return Signed{a, []release.Signature{Sign(t, a.Digest, key)}}
}

// Sign signs a digest.
func Sign(t testing.TB, digest string, key crypto.Signer) release.Signature {
	t.Helper()
	s, err := release.Sign(digest, "registry.example/hostler-agent", key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Bundle signs a digest with a P-256 key as "cosign sign" does since version 3.
func Bundle(t testing.TB, digest string, key crypto.Signer) []byte {
	t.Helper()
	const kind = "application/vnd.in-toto+json"
	statement := fmt.Appendf(nil,
		`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q},"annotations":{}}],"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}`, strings.TrimPrefix(digest, "sha256:"))
	sum := sha256.Sum256(dsse.PAE(kind, statement))
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{
		"mediaType": release.MediaBundle, "verificationMaterial": map[string]any{"publicKey": map[string]any{}},
		"dsseEnvelope": map[string]any{"payload": statement, "payloadType": kind, "signatures": []any{map[string]any{"sig": sig}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
