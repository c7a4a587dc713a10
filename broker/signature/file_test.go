package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

const fileSource = "s3:models/llama/weights.gguf"

var (
	weights     = []byte("weights of a model")
	weightsHash = sha256.Sum256(weights)
	weightsSum  = "sha256:" + hex.EncodeToString(weightsHash[:])
)

// message makes a bundle as cosign sign-blob does.
func (w *world) message(by, from string, content []byte, at time.Time) *protobundle.Bundle {
	w.Helper()
	e, err := w.SignAtTime(by, from, content, at)
	if err != nil {
		w.Fatal(err)
	}
	signed, err := e.SignatureContent()
	if err != nil {
		w.Fatal(err)
	}
	b := &protobundle.Bundle{MediaType: release.MediaBundle, VerificationMaterial: w.material(e)}
	entry := b.VerificationMaterial.TlogEntries[0]
	entry.KindVersion.Kind = "hashedrekord"
	proof := must(w.GetInclusionProof(entry.CanonicalizedBody))(w.T)
	entry.InclusionProof = &protorekor.InclusionProof{
		LogIndex: *proof.LogIndex, TreeSize: *proof.TreeSize, RootHash: must(hex.DecodeString(*proof.RootHash))(w.T),
		Checkpoint: &protorekor.Checkpoint{Envelope: *proof.Checkpoint},
	}
	sum := sha256.Sum256(content)
	b.Content = messageOf(sum[:], signed.Signature())
	return b
}

func messageOf(hash, sig []byte) *protobundle.Bundle_MessageSignature {
	return &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
		MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: hash}, Signature: sig,
	}}
}

// keyed makes a bundle as cosign sign-blob --key does.
func keyed(t *testing.T, content []byte, key crypto.Signer) (bundle, sig string) {
	t.Helper()
	hash, opts := sha256.Sum256(content), crypto.SignerOpts(crypto.SHA256)
	signed := hash[:]
	if _, whole := key.Public().(ed25519.PublicKey); whole {
		signed, opts = content, crypto.Hash(0)
	}
	raw := must(key.Sign(rand.Reader, signed, opts))(t)
	b := &protobundle.Bundle{
		MediaType: release.MediaBundle, Content: messageOf(hash[:], raw),
		VerificationMaterial: &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "k"}}},
	}
	return string(referrer(t, b).Bundle), base64.StdEncoding.EncodeToString(raw)
}

// vouched is a bundle as cosign attest-blob --key makes it with an Ed25519 key.
func vouched(t *testing.T, of string, key ed25519.PrivateKey) string {
	t.Helper()
	const kind = "application/vnd.in-toto+json"
	body := statement(of, release.SignPredicate)
	return string(referrer(t, &protobundle.Bundle{
		MediaType:            release.MediaBundle,
		VerificationMaterial: &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{}}},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: body, PayloadType: kind, Signatures: []*protodsse.Signature{{Sig: ed25519.Sign(key, dsse.PAE(kind, body))}},
		}},
	}).Bundle)
}

// cosign2 is a bundle as cosign 2 writes it.
func cosign2(t *testing.T, sig, certificate string, log json.RawMessage) string {
	t.Helper()
	return text(t, earlier{Signature: sig, Certificate: base64.StdEncoding.EncodeToString([]byte(certificate)), Log: log})
}

// identitys is a bundle of cosign 2 by the world's identity.
func (w *world) identitys(content []byte) string {
	w.Helper()
	b := w.message(subject, issuer, content, soon())
	entry := b.VerificationMaterial.TlogEntries[0]
	var l logged
	l.SignedEntryTimestamp = entry.InclusionPromise.SignedEntryTimestamp
	l.Payload.Body, l.Payload.IntegratedTime, l.Payload.LogIndex = entry.CanonicalizedBody, entry.IntegratedTime, entry.LogIndex
	l.Payload.LogID = hex.EncodeToString(entry.LogId.KeyId)
	return cosign2(w.T, base64.StdEncoding.EncodeToString(b.GetMessageSignature().Signature), pemCertificate(b), json.RawMessage(text(w.T, l)))
}

func pemCertificate(b *protobundle.Bundle) string {
	return "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(b.VerificationMaterial.GetCertificate().RawBytes) + "\n-----END CERTIFICATE-----\n"
}

func judgeFile(given string, lists ...[]broker.ArtifactSigner) ([]taskcatalog.ArtifactSignature, error) {
	j := &Judge{Now: func() time.Time { return time.Unix(1800000000, 0) }}
	return j.File(lists, fileSource, weightsSum, given)
}

// filesSigner is the world's identity for files.
func (w *world) filesSigner() broker.ArtifactSigner {
	s := w.signer
	s.Source = "s3:models"
	return s
}

func keySigner(t *testing.T, key crypto.PublicKey) broker.ArtifactSigner {
	return broker.ArtifactSigner{Name: "key", Source: "s3:models/llama", Key: pemOf(t, key)}
}

func TestAFilesSignatureIsBelieved(t *testing.T) {
	w := newWorld(t)
	p256 := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	bundle, sig := keyed(t, weights, p256)
	key, identity := keySigner(t, p256.Public()), w.filesSigner()
	for name, c := range map[string]struct {
		by    broker.ArtifactSigner
		given string
	}{
		"a bundle":                       {identity, string(referrer(t, w.message(subject, issuer, weights, soon())).Bundle)},
		"a statement":                    {identity, string(referrer(t, w.attest(subject, issuer, weightsSum, release.SignPredicate, soon())).Bundle)},
		"of cosign 2":                    {identity, w.identitys(weights)},
		"by a key":                       {key, bundle},
		"by a key, alone":                {key, sig + "\n"},
		"by a key, of cosign 2":          {key, cosign2(t, sig, key.Key, nil)},
		"by a key, a statement":          {key, string(releasetest.Bundle(t, weightsSum, p256))},
		"by an Ed25519 key, a statement": {keySigner(t, ed.Public()), vouched(t, weightsSum, ed)},
		"after others":                   {key, "{}\n" + string(releasetest.Bundle(t, digest, p256)) + "\n\n" + bundle},
	} {
		got, err := judgeFile(c.given, []broker.ArtifactSigner{c.by})
		if err != nil || len(got) != 1 || got[0].Source != fileSource || got[0].Digest != weightsSum || got[0].Form != taskcatalog.SignatureGiven ||
			got[0].Signer != c.by.Name || got[0].Trust != c.by.Trust() || got[0].Place != c.by.Source || got[0].JudgedAt.Unix() != 1800000000 ||
			c.by.Key == "" && (got[0].Subject != subject || got[0].Issuer != issuer || got[0].SignedAt == nil) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	both := bundle + string(referrer(t, w.message(subject, issuer, weights, soon())).Bundle)
	if got, err := judgeFile(both, []broker.ArtifactSigner{identity}, []broker.ArtifactSigner{key}); err != nil || len(got) != 2 || got[0].Signer != "team" || got[1].Signer != "key" {
		t.Errorf("both places: %+v, %v", got, err)
	}
	_, err = judgeFile(bundle, []broker.ArtifactSigner{identity}, []broker.ArtifactSigner{key})
	refused(t, "one place of two", err, CodeUntrusted, "of s3:models, and")
}

// Each attack is refused, with the code and for the reason that is its own.
func TestAFilesSignatureThatDoesNotHoldIsRefused(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	p256, theirs := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	bundle, sig := keyed(t, weights, p256)
	swapped, swappedSig := keyed(t, []byte("other weights"), p256)
	foreign, foreignSig := keyed(t, weights, theirs)
	whole, _ := keyed(t, weights, ed)
	change := func(b *protobundle.Bundle, changes ...func(*protobundle.Bundle)) string {
		for _, change := range changes {
			change(b)
		}
		return string(referrer(t, b).Bundle)
	}
	mine := func() *protobundle.Bundle { return w.message(subject, issuer, weights, soon()) }
	unlogged := func(b *protobundle.Bundle) { b.VerificationMaterial.TlogEntries = nil }
	twice := w.attest(subject, issuer, weightsSum, release.SignPredicate, soon())
	twice.GetDsseEnvelope().Signatures = append([]*protodsse.Signature{{Sig: []byte("x")}}, twice.GetDsseEnvelope().Signatures...)
	key, identity := keySigner(t, p256.Public()), w.filesSigner()
	for name, c := range map[string]struct {
		by              broker.ArtifactSigner
		given, code, is string
	}{
		"unsigned":                     {key, "", CodeMissing, "cosign sign-blob"},
		"blank":                        {key, " \n", CodeMissing, ""},
		"by another key":               {key, foreign, CodeUntrusted, whySignature},
		"by another key, alone":        {key, foreignSig, CodeUntrusted, whySignature},
		"by another key, of cosign 2":  {key, cosign2(t, foreignSig, key.Key, nil), CodeUntrusted, whySignature},
		"of another file":              {key, swapped, CodeUntrusted, whySignature},
		"of another file, alone":       {key, swappedSig, CodeUntrusted, whySignature},
		"of another file, renamed":     {key, strings.Replace(swapped, hashOf("other weights"), base64.StdEncoding.EncodeToString(weightsHash[:]), 1), CodeUntrusted, whySignature},
		"of another file, an identity": {identity, change(w.message(subject, issuer, []byte("other weights"), soon())), CodeUntrusted, whySignature},
		"a statement of another":       {identity, change(w.attest(subject, issuer, digest, release.SignPredicate, soon())), CodeUntrusted, whySignature},
		"a statement of a scan":        {identity, change(w.attest(subject, issuer, weightsSum, "https://slsa.dev/provenance/v1", soon())), CodeUntrusted, whyStatement},
		"by another identity":          {identity, change(w.message("https://git.example/evil", issuer, weights, soon())), CodeUntrusted, whyIdentity},
		"from another issuer":          {identity, change(w.message(subject, issuer+".evil", weights, soon())), CodeUntrusted, whyIdentity},
		"by another authority":         {identity, change(other.message(subject, issuer, weights, soon())), CodeUntrusted, whyNoLog},
		"expired, without proof":       {identity, change(mine(), unlogged, unstamp), CodeUntrusted, whyNoLog},
		"stamped and not logged":       {identity, change(mine(), unlogged), CodeUntrusted, whyNoLog},
		"logged after the certificate": {identity, change(w.message(subject, issuer, weights, soon().Add(30*time.Minute)), unstamp), CodeUntrusted, whyNoLog},
		"with the entry of another": {identity, change(mine(), func(b *protobundle.Bundle) {
			b.VerificationMaterial.TlogEntries = mine().VerificationMaterial.TlogEntries
		}), CodeUntrusted, whyNoLog},
		"of cosign 2, without a log":    {identity, strings.Replace(w.identitys(weights), `"rekorBundle":`, `"none":`, 1), CodeUntrusted, whyNoLog},
		"of cosign 2, of another file":  {identity, w.identitys([]byte("other weights")), CodeUntrusted, ""},
		"a key for an identity":         {identity, bundle, CodeUntrusted, whyNoLog},
		"an identity for a key":         {key, change(mine()), CodeUntrusted, whyKind},
		"an Ed25519 key of the content": {keySigner(t, ed.Public()), whole, CodeUntrusted, whyWhole},
		"an envelope of two signatures": {identity, change(twice), CodeUntrusted, ""},
		"of a form to come":             {key, strings.Replace(bundle, "v0.3", "v0.4", 1), CodeUntrusted, whyUnreadable},
		"an empty bundle":               {key, "{}", CodeUntrusted, whyUnreadable},
		"of cosign 2, no certificate":   {key, `{"base64Signature":"` + sig + `","cert":"?"}`, CodeUntrusted, whyUnreadable},
		"no JSON":                       {key, "{", CodeMalformed, "one bundle after another"},
		"followed by no bundle":         {key, bundle + "[]", CodeMalformed, "one bundle after another"},
		"neither JSON nor base64":       {key, "who signs?", CodeMalformed, "neither a bundle"},
		"many bundles":                  {key, strings.Repeat(swapped, maxFound) + bundle, CodeMalformed, "more than 16"},
		"too large":                     {key, bundle + strings.Repeat(" ", taskcatalog.MaxStepSignature), CodeMalformed, "more than 64 KiB"},
	} {
		_, err := judgeFile(c.given, []broker.ArtifactSigner{c.by})
		refused(t, name, err, c.code, c.is)
		if strings.Contains(fmt.Sprint(err), "git.example") || strings.Contains(fmt.Sprint(err), "who signs") {
			t.Errorf("%s: the error repeats what was given: %v", name, err)
		}
	}
	_, err = judgeFile(bundle)
	refused(t, "no signer", err, CodeNoSigner, fileSource)
	odd := key
	odd.Key = "no PEM"
	_, err = judgeFile(bundle, []broker.ArtifactSigner{odd})
	refused(t, "a signer that cannot be read", err, "artifact_signer_invalid", "")
}

// hashOf is a digest as a bundle has it.
func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Whatever is given with a file: nobody has signed the file, and nothing panics.
func FuzzGiven(f *testing.F) {
	t := &testing.T{}
	w := newWorld(t)
	p256 := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	other := []byte("other weights")
	bundle, sig := keyed(t, other, p256)
	f.Add(bundle)
	f.Add(sig)
	f.Add(cosign2(t, sig, pemOf(t, p256.Public()), nil))
	f.Add(w.identitys(other))
	f.Add(string(referrer(t, w.message(subject, issuer, other, soon())).Bundle) + string(releasetest.Bundle(t, digest, p256)))
	signers := []broker.ArtifactSigner{w.filesSigner(), keySigner(t, p256.Public())}
	f.Fuzz(func(t *testing.T, given string) {
		got, err := judgeFile(given, signers)
		if code := broker.AsError(err).Code; err == nil || code != CodeMissing && code != CodeMalformed && code != CodeUntrusted {
			t.Errorf("%+v %v", got, err)
		}
	})
}
