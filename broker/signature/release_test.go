package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

// signedText signs a payload as it is.
func signedText(t *testing.T, text string, key crypto.Signer) release.Signature {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	return release.Signature{Payload: []byte(text), Signature: must(key.Sign(rand.Reader, sum[:], crypto.SHA256))(t)}
}

// bundled is the signature in a bundle as the client of a publisher reads it.
func bundled(t *testing.T, raw []byte) release.Signature {
	t.Helper()
	s, ok := release.FromBundle(raw)
	if !ok {
		t.Fatal("it is no bundle of a signature")
	}
	return s
}

func TestBothVerifiersJudgeAReleaseAlike(t *testing.T) {
	p256, theirs := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	manifest := []byte("no manifest") // our own verifier reads it once a signature holds
	of := release.Digest(manifest)
	keys := release.Keys{"p": p256.Public(), "e": ed.Public()}
	swapped := "sha256:" + strings.Repeat("cd", 32)
	good, goodEd := releasetest.Sign(t, of, p256), releasetest.Sign(t, of, ed)
	hashed, enveloped := goodEd, bundled(t, releasetest.Bundle(t, of, p256))
	sum := sha512.Sum512(hashed.Payload)
	hashed.Signature = must(ed.Sign(rand.Reader, sum[:], crypto.SHA512))(t)
	whole, hashedEnvelope := enveloped, enveloped
	whole.Signature = ed25519.Sign(ed, enveloped.Payload)
	sum = sha512.Sum512(enveloped.Payload)
	hashedEnvelope.Signature = must(ed.Sign(rand.Reader, sum[:], crypto.SHA512))(t)
	cut, moved := enveloped, good
	cut.Payload = cut.Payload[:len(cut.Payload)-1]
	moved.Payload = releasetest.Sign(t, swapped, p256).Payload
	scan := strings.Replace(string(enveloped.Payload), "cosign/sign/v1", "cosign/scan/v", 1)
	for name, c := range map[string]struct {
		signatures []release.Signature
		by         string // empty: both refuse
	}{
		"P-256":                   {[]release.Signature{good}, "p"},
		"P-256, a bundle":         {[]release.Signature{enveloped}, "p"},
		"Ed25519":                 {[]release.Signature{goodEd}, "e"},
		"Ed25519 of a hash":       {[]release.Signature{hashed}, "e"},
		"Ed25519, a bundle":       {[]release.Signature{whole}, "e"},
		"Ed25519, a hashed one":   {[]release.Signature{hashedEnvelope}, "e"},
		"after others":            {[]release.Signature{{}, releasetest.Sign(t, of, theirs), cut, enveloped}, "p"},
		"two keys":                {[]release.Signature{goodEd, good}, "e"},
		"none":                    {nil, ""},
		"by another key":          {[]release.Signature{releasetest.Sign(t, of, theirs)}, ""},
		"of another release":      {[]release.Signature{releasetest.Sign(t, swapped, p256)}, ""},
		"of another, in a bundle": {[]release.Signature{bundled(t, releasetest.Bundle(t, swapped, p256))}, ""},
		"a payload of another":    {[]release.Signature{moved}, ""},
		"an envelope that is cut": {[]release.Signature{cut}, ""},
		"a scan":                  {[]release.Signature{signedText(t, scan, p256)}, ""},
		"no payload of cosign":    {[]release.Signature{signedText(t, `{"critical":{"image":{"docker-manifest-digest":"`+of+`"},"type":"x"}}`, p256)}, ""},
		"too many":                {append(make([]release.Signature, release.MaxSignatures), good), ""},
	} {
		id, err := Release(c.signatures, keys, of)
		if id != c.by || (err == nil) != (c.by != "") || err != nil && broker.AsError(err).Code != CodeUntrusted {
			t.Errorf("%s: cosign's says %q, %v", name, id, err)
		}
		own := release.CodeSignatureInvalid
		if c.by != "" {
			own = release.CodeManifestInvalid
		}
		if _, err := release.Open(manifest, c.signatures, keys, of); taskcatalog.CodeOf(err, "") != own {
			t.Errorf("%s: Hostler's own says %v", name, err)
		}
	}
	if _, err := Release([]release.Signature{good}, release.Keys{}, digest); broker.AsError(err).Code != CodeUntrusted {
		t.Errorf("no key: %v", err)
	}
}

// Whatever a release key has signed: what nodes believe, cosign's library believes as well.
func FuzzRelease(f *testing.F) {
	t := &testing.T{}
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	manifest := []byte("no manifest")
	of, keys := release.Digest(manifest), release.Keys{"k": key.Public()}
	f.Add(string(releasetest.Sign(t, of, key).Payload))
	f.Add(string(bundled(t, releasetest.Bundle(t, of, key)).Payload))
	f.Fuzz(func(t *testing.T, payload string) {
		all := []release.Signature{signedText(t, payload, key)}
		_, own := release.Open(manifest, all, keys, of)
		id, err := Release(all, keys, of)
		if taskcatalog.CodeOf(own, "") == release.CodeManifestInvalid && (err != nil || id != "k") {
			t.Errorf("Hostler's own accepts what cosign's refuses: %v", err)
		}
		if err != nil && broker.AsError(err).Code != CodeUntrusted {
			t.Errorf("%v", err)
		}
	})
}
