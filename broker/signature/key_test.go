package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

func pemOf(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func tagOf(s release.Signature) Found {
	return Found{Form: taskcatalog.SignatureAtTag, Payload: s.Payload, Annotations: map[string]string{release.AnnotationSignature: base64.StdEncoding.EncodeToString(s.Signature)}}
}

func TestAKeysSignatureIsBelieved(t *testing.T) {
	p256 := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	public, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w, swapped := newWorld(t), "sha256:"+strings.Repeat("cd", 32)
	hashed := releasetest.Sign(t, digest, ed) // as cosign 3 does
	sum := sha512.Sum512(hashed.Payload)
	hashed.Signature = must(ed.Sign(rand.Reader, sum[:], crypto.SHA512))(t)
	bundle := func(of string) Found {
		return Found{Form: taskcatalog.SignatureReferrer, Bundle: releasetest.Bundle(t, of, p256)}
	}
	changed := tagOf(releasetest.Sign(t, digest, p256))
	changed.Payload = bytes.ReplaceAll(changed.Payload, []byte("cd"), []byte("ab"))
	changed.Payload = bytes.Replace(changed.Payload, []byte("ab"), []byte("cd"), 1)
	for name, c := range map[string]struct {
		key           any
		good, swapped []Found
	}{
		"P-256":   {p256.Public(), []Found{tagOf(releasetest.Sign(t, digest, p256)), bundle(digest)}, []Found{tagOf(releasetest.Sign(t, swapped, p256)), changed, bundle(swapped)}},
		"Ed25519": {public, []Found{tagOf(releasetest.Sign(t, digest, ed)), tagOf(hashed)}, []Found{tagOf(releasetest.Sign(t, swapped, ed))}},
	} {
		s := broker.ArtifactSigner{Name: "team", Source: "oci:registry.example", Key: pemOf(t, c.key)}
		if err := CheckSigner(s); err != nil {
			t.Fatal(err)
		}
		for _, f := range c.swapped {
			_, err = judged(s, f)
			refused(t, name+": swapped", err, CodeUntrusted, whySignature)
		}
		_, err = judged(s, referrer(t, w.signed()))
		refused(t, name+": an identity", err, CodeUntrusted, whyKind)
		logs, other := s, s
		logs.TrustedRoot = w.signer.TrustedRoot
		other.Key = pemOf(t, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t).Public())
		for _, f := range c.good {
			if got, err := judged(s, f); err != nil || got.Issuer+got.Subject != "" || got.Form != f.Form || got.SignedAt != nil {
				t.Errorf("%s %s: %+v, %v", name, f.Form, got, err)
			}
			_, err = judged(w.signer, f)
			refused(t, name+": an identity is trusted", err, CodeUntrusted, whyNoLog)
			_, err = judged(logs, f)
			refused(t, name+": a log is wanted", err, CodeUntrusted, whyNoLog)
			_, err = judged(other, f)
			refused(t, name+": another key", err, CodeUntrusted, whySignature)
		}
	}
}

func TestASignerThatCouldVerifyNothingIsRefused(t *testing.T) {
	w := newWorld(t)
	big := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	key := func(text string) func(*broker.ArtifactSigner) {
		return func(s *broker.ArtifactSigner) { s.Issuer, s.Subject, s.Key = "", "", text }
	}
	for name, change := range map[string]func(*broker.ArtifactSigner){
		"no PEM":        key("key"),
		"another curve": key(pemOf(t, big.Public())),
		"a private key": key("-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n"),
		"no key in it":  key("-----BEGIN PUBLIC KEY-----\nMA==\n-----END PUBLIC KEY-----\n"),
		"no root":       func(s *broker.ArtifactSigner) { s.TrustedRoot = "{}" },
		"a root with no log": func(s *broker.ArtifactSigner) {
			s.TrustedRoot = `{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`
		},
		"incomplete": func(s *broker.ArtifactSigner) { s.Subject = "" },
	} {
		s := w.signer
		change(&s)
		refused(t, name, CheckSigner(s), "artifact_signer_invalid", "")
	}
}
