package release

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/hostler/hostler/taskcatalog"
)

// What cosign 3.1.3 made with "sign --key", of a manifest with this digest.
const cosigned = "sha256:b5679f2074c251756fb1d46a005d546a9d3ccbfb74a3a982cb835467d77e3b50"

func TestABundleThatCosignMadeIsBelieved(t *testing.T) {
	other := Digest(nil)
	for _, name := range []string{"p256", "ed25519"} {
		raw, key := cosignsOwn(t, name)
		s, ok := FromBundle(raw)
		if !ok {
			t.Fatalf("%s: there is no signature in %s", name, raw)
		}
		if id, err := signer([]Signature{s}, Keys{"k": key}, cosigned); id != "k" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := signer([]Signature{s}, Keys{"k": key}, other); taskcatalog.CodeOf(err, "") != CodeSignatureInvalid {
			t.Errorf("%s: it is believed of another release: %v", name, err)
		}
		changed := s
		changed.Payload = bytes.Replace(s.Payload, []byte(cosigned[7:]), []byte(other[7:]), 1)
		if _, err := signer([]Signature{changed}, Keys{"k": key}, other); taskcatalog.CodeOf(err, "") != CodeSignatureInvalid {
			t.Errorf("%s: it is believed with another payload: %v", name, err)
		}
	}
}

func cosignsOwn(t *testing.T, name string) ([]byte, crypto.PublicKey) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "cosign", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join("testdata", "cosign", name+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(public)
	if block == nil {
		t.Fatalf("%s.pub is no PEM", name)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return raw, key
}

// A release key may sign much: only what says "this was signed", of one digest, is a
// signature of a release. And what is not does not hide one that is.
func TestOnlyWhatCosignSignsIsBelievedOfAnEnvelope(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	keys := Keys{"k": key.Public()}
	d, other := Digest([]byte("a manifest")), Digest(nil)
	says := `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + d[7:] + `"},"annotations":{}}],"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}`
	signed := func(payload []byte) Signature { return Signature{payload, ed25519.Sign(key, payload)} }
	good := signed(dsse.PAE(statementType, []byte(says)))
	if id, err := signer([]Signature{good}, keys, d); id != "k" {
		t.Fatal(err)
	}
	edited := func(old, new string) []byte {
		raw := strings.Replace(says, old, new, 1)
		if raw == says {
			t.Fatalf("%q is not in %s", old, says)
		}
		return dsse.PAE(statementType, []byte(raw))
	}
	for name, payload := range map[string][]byte{
		"an attestation":          edited("https://sigstore.dev/cosign/sign/v1", "https://slsa.dev/provenance/v1"),
		"a statement of old":      edited("Statement/v1", "Statement/v0.1"),
		"of two":                  edited(`"annotations":{}}]`, `"annotations":{}},{"digest":{"sha256":"`+other[7:]+`"}}]`),
		"of none":                 edited(`{"digest":{"sha256":"`+d[7:]+`"},"annotations":{}}`, ``),
		"two digests":             edited(`"digest":{`, `"digest":{"sha512":"`+other[7:]+`",`),
		"a digest twice":          edited(`"digest":{`, `"digest":{"sha256":"`+other[7:]+`",`),
		"a digest of another sum": edited(`"sha256"`, `"sha512"`),
		"in capitals":             edited(`"subject"`, `"Subject"`),
		"something more":          edited(`"predicate"`, `"also":1,"predicate"`),
		"another type":            dsse.PAE("application/json", []byte(says)),
		"without its length":      append([]byte("DSSEv1 28 "+statementType+" "), says...),
		"a wrong length":          bytes.Replace(good.Payload, []byte(" {"), []byte("0 {"), 1),
		"a byte more":             append(bytes.Clone(good.Payload), ' '),
		"nothing":                 []byte("DSSEv1 "),
		"the statement alone":     []byte(says),
	} {
		if _, err := signer([]Signature{signed(payload)}, keys, d); taskcatalog.CodeOf(err, "") != CodeSignatureInvalid {
			t.Errorf("%s is believed: %v", name, err)
		}
		if id, err := signer([]Signature{signed(payload), good}, keys, d); id != "k" {
			t.Errorf("%s hides a signature: %v", name, err)
		}
	}
}

func TestABundleOfSomethingElseIsNoSignature(t *testing.T) {
	raw, _ := cosignsOwn(t, "p256")
	var b map[string]any
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	envelope := b["dsseEnvelope"].(map[string]any)
	one := envelope["signatures"].([]any)[0]
	for name, change := range map[string]func(){
		"two signatures": func() { envelope["signatures"] = []any{one, one} },
		"no signature":   func() { envelope["signatures"] = []any{} },
		"another type":   func() { envelope["signatures"], envelope["payloadType"] = []any{one}, "text/plain" },
		"no envelope":    func() { b["dsseEnvelope"] = nil },
	} {
		change()
		changed, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := FromBundle(changed); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, ok := FromBundle(raw[:len(raw)/2]); ok {
		t.Error("half a bundle has a signature")
	}
}
