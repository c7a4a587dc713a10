package signature

import (
	"fmt"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

func TestAnIdentitysSignatureIsBelieved(t *testing.T) {
	w := newWorld(t)
	without := func(b *protobundle.Bundle) *protobundle.Bundle {
		b.VerificationMaterial.TimestampVerificationData = nil
		return b
	}
	untimed := w.signer
	untimed.TrustedRoot = w.root(false, false)
	pattern := w.signer
	pattern.Subject, pattern.SubjectPattern = "", `https://git\.example/team/.+@refs/heads/main`
	unstamped := w.tagged(digest)
	delete(unstamped.Annotations, annotationTimestamp)
	for name, c := range map[string]struct {
		by    broker.ArtifactSigner
		found Found
	}{
		"a bundle":                       {w.signer, referrer(t, w.signed())},
		"by a pattern":                   {pattern, referrer(t, w.signed())},
		"with the log's time":            {w.signer, referrer(t, without(w.signed()))},
		"a timestamp that nobody trusts": {untimed, referrer(t, w.signed())},
		"at a tag":                       {w.signer, w.tagged(digest)},
		"at a tag, with the log's time":  {w.signer, unstamped},
	} {
		got, err := judged(c.by, c.found)
		if err != nil || got.Signer != "team" || got.Place != c.by.Source || got.Trust != c.by.Trust() || got.TrustedRoot != c.by.Root() || got.Digest != digest || got.Form != c.found.Form ||
			got.Issuer != issuer || got.Subject != subject || got.SignedAt == nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Each attack has the signature of somebody, and is refused for its own reason.
func TestASignatureThatDoesNotHoldIsRefused(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	swapped := "sha256:" + strings.Repeat("cd", 32)
	now := soon()
	change := func(b *protobundle.Bundle, change func(*protobundle.Bundle)) Found {
		change(b)
		return referrer(t, b)
	}
	elsewhere := w.signed()
	tag := func(f Found, key, value string) Found {
		f.Annotations[key] = value
		return f
	}
	for name, c := range map[string]struct {
		found Found
		why   string
	}{
		"of another artifact":          {referrer(t, w.attest(subject, issuer, swapped, release.SignPredicate, now)), whySignature},
		"by another identity":          {referrer(t, w.attest("https://git.example/evil", issuer, digest, release.SignPredicate, now)), whyIdentity},
		"by a longer identity":         {referrer(t, w.attest(subject+"-fork", issuer, digest, release.SignPredicate, now)), whyIdentity},
		"by a shorter identity":        {referrer(t, w.attest(subject[:len(subject)-1], issuer, digest, release.SignPredicate, now)), whyIdentity},
		"from another issuer":          {referrer(t, w.attest(subject, issuer+".evil", digest, release.SignPredicate, now)), whyIdentity},
		"by another authority":         {referrer(t, other.signed()), whyNoLog},
		"an attestation":               {referrer(t, w.attest(subject, issuer, digest, "https://slsa.dev/provenance/v1", now)), whyStatement},
		"logged after the certificate": {change(w.attest(subject, issuer, digest, release.SignPredicate, now.Add(30*time.Minute)), unstamp), whyNoLog},
		"neither logged nor stamped": {change(w.signed(), func(b *protobundle.Bundle) {
			unstamp(b)
			b.VerificationMaterial.TlogEntries = nil
		}), whyNoLog},
		"stamped and not logged": {change(w.signed(), func(b *protobundle.Bundle) { b.VerificationMaterial.TlogEntries = nil }), whyNoLog},
		"with the entry of another signature": {change(w.signed(), func(b *protobundle.Bundle) {
			b.VerificationMaterial.TlogEntries = elsewhere.VerificationMaterial.TlogEntries
		}), whyNoLog},
		"with the stamp of another signature": {change(w.signed(), func(b *protobundle.Bundle) {
			b.VerificationMaterial.TimestampVerificationData = elsewhere.VerificationMaterial.TimestampVerificationData
		}), whyNoTime},
		"with a changed statement": {change(w.signed(), func(b *protobundle.Bundle) {
			b.GetDsseEnvelope().Payload = statement(swapped, release.SignPredicate)
		}), whyNoLog},
		"with a key": {change(w.signed(), func(b *protobundle.Bundle) {
			b.VerificationMaterial.Content = &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{}}
		}), ""},
		"of a form to come":                  {change(w.signed(), func(b *protobundle.Bundle) { b.MediaType = strings.Replace(b.MediaType, "v0.3", "v0.4", 1) }), whyUnreadable},
		"no JSON":                            {Found{Form: taskcatalog.SignatureReferrer, Bundle: []byte("{")}, whyUnreadable},
		"nothing":                            {Found{Form: taskcatalog.SignatureReferrer}, whyUnreadable},
		"too large":                          {Found{Form: taskcatalog.SignatureReferrer, Bundle: append(referrer(t, w.signed()).Bundle, make([]byte, maxBundle)...)}, whyUnreadable},
		"at a tag, of another":               {w.tagged(swapped), whySignature},
		"at a tag, without a certificate":    {tag(w.tagged(digest), annotationCertificate, ""), ""},
		"at a tag, with another's log entry": {tag(w.tagged(digest), annotationLog, w.tagged(digest).Annotations[annotationLog]), whyNoLog},
		"at a tag, without a log entry":      {tag(w.tagged(digest), annotationLog, ""), whyNoLog},
		"at a tag, an empty log entry":       {tag(w.tagged(digest), annotationLog, "{}"), whyUnreadable},
		"at a tag, another's stamp":          {tag(w.tagged(digest), annotationTimestamp, w.tagged(digest).Annotations[annotationTimestamp]), whyNoTime},
		"at a tag, a changed payload": {func() Found {
			f := w.tagged(digest)
			f.Payload = append(f.Payload, ' ')
			return f
		}(), ""},
		"at a tag, a long annotation": {tag(w.tagged(digest), "more", strings.Repeat("x", maxBundle)), whyUnreadable},
	} {
		_, err := judged(w.signer, c.found)
		refused(t, name, err, CodeUntrusted, c.why)
		if strings.Contains(fmt.Sprint(err), "git.example") {
			t.Errorf("%s: the error repeats what was sent: %v", name, err)
		}
	}
	mixed := &world{T: t, VirtualSigstore: w.VirtualSigstore, authorities: other.FulcioCertificateAuthorities()}
	unknown := w.signer
	unknown.TrustedRoot = mixed.root(true, false)
	_, err := judged(unknown, referrer(t, w.signed()))
	refused(t, "an authority that nobody trusts", err, CodeUntrusted, whyCertificate)
	logs := w.signer
	logs.TrustedRoot = w.root(true, true)
	_, err = judged(logs, referrer(t, w.signed()))
	refused(t, "a certificate in no log", err, CodeUntrusted, whyLogged)
	if got, err := judged(w.signer, Found{Form: taskcatalog.SignatureReferrer}, referrer(t, other.signed()), referrer(t, w.signed())); err != nil || got.Subject != subject {
		t.Errorf("beside others: %+v, %v", got, err)
	}
}

func unstamp(b *protobundle.Bundle) { b.VerificationMaterial.TimestampVerificationData = nil }
