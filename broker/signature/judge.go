package signature

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Codes of refusals.
const (
	CodeMissing   = "signature_missing"   // the registry has no signature of the artifact, or none is given with the file
	CodeUntrusted = "signature_untrusted" // no signature is by a trusted signer, and holds
	CodeNoSigner  = "signature_no_signer" // a signature is required, and no signer is set for the source
	CodeMalformed = "signature_malformed" // what is given as the signature of a file is none
)

// Bounds of what is read for one artifact.
const (
	maxFound   = 16        // signatures that are judged
	maxBundle  = 256 << 10 // a Sigstore bundle, or the annotations of a signature
	maxPayload = 8 << 10
)

// Found is a signature as a registry has it, or as it is given with a file, not verified.
type Found struct {
	Form        string            // taskcatalog.SignatureAtTag, taskcatalog.SignatureReferrer or taskcatalog.SignatureGiven
	Payload     []byte            // at a tag: what is signed
	Annotations map[string]string // at a tag, and given as cosign 2 writes it
	Bundle      []byte            // as referrer, and given as a Sigstore bundle
}

// verdict is what was verified of a signature.
type verdict struct {
	issuer, subject string
	loggedAt        time.Time
}

// judge returns the finding of the first signer whose signature holds. Code: signature_untrusted.
func judge(signers []trusted, digest string, found []Found) (taskcatalog.ArtifactSignature, error) {
	reasons := map[string]bool{}
	hash, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	if err != nil || len(hash) != 32 {
		found, reasons[whySignature] = nil, true
	}
	for _, f := range found {
		b, err := f.bundle(hash)
		if err != nil {
			reasons[whyUnreadable] = true
			continue
		}
		for _, s := range signers {
			v, why := s.verify(b, f, digest, hash)
			if why != "" {
				reasons[why] = true
				continue
			}
			out := taskcatalog.ArtifactSignature{
				Digest: digest, Place: s.Source, Signer: s.Name, Trust: s.Trust(), TrustedRoot: s.Root(), Form: f.Form,
				Issuer: v.issuer, Subject: v.subject,
			}
			if !v.loggedAt.IsZero() {
				at := v.loggedAt.UTC()
				out.SignedAt = &at
			}
			return out, nil
		}
	}
	var all []string
	for _, why := range whys {
		if reasons[why] {
			all = append(all, why)
		}
	}
	return taskcatalog.ArtifactSignature{}, broker.Errorf(broker.Refused, CodeUntrusted,
		"none of %d signatures of %s is by a trusted signer of %s, and holds: %s", len(found), digest, signers[0].Source, strings.Join(all, "; "))
}

// Why a signature does not count. The library's errors are not quoted: they repeat what is signed.
const (
	whyUnreadable  = "one cannot be read, or has a form that is unknown"
	whyNoLog       = "one has no entry of a trusted log that is valid and fits the signature"
	whyNoTime      = "one has no trusted time"
	whyCertificate = "one has a certificate that the trusted root did not vouch for at that time"
	whyLogged      = "one has a certificate that no trusted log of certificates has"
	whySignature   = "one does not match the artifact and the signer's key"
	whyWhole       = "one needs the whole file, which the broker does not have (an Ed25519 key signs a file with cosign attest-blob)"
	whyIdentity    = "one is by another identity"
	whyKind        = "one is by a key where an identity is trusted, or the other way round"
	whyStatement   = "one states something else than a signature"
)

var whys = []string{
	whyUnreadable, whyNoLog, whyNoTime, whyCertificate, whyLogged, whySignature, whyWhole, whyIdentity, whyKind, whyStatement,
}

// stages are how the library's errors begin.
var stages = []struct{ begins, why string }{
	{"failed to verify log inclusion", whyNoLog},
	{"failed to verify timestamps", whyNoTime},
	{"failed to verify leaf certificate", whyCertificate},
	{"failed to verify signed certificate timestamp", whyLogged},
	{"failed to get signature verifier", whyKind},
	{"expected key signature", whyKind},
	{"can't verify certificate identities", whyKind},
	{"failed to verify signature", whySignature},
	{"failed to verify certificate identity", whyIdentity},
}

// verify reports what holds of a signature; why is empty if it is the signer's, of the digest.
func (t trusted) verify(b *bundle.Bundle, f Found, digest string, hash []byte) (v verdict, why string) {
	defer func() {
		if recover() != nil {
			v, why = verdict{}, whyUnreadable
		}
	}()
	stamps, err := b.Timestamps()
	if err != nil {
		return v, whyUnreadable
	}
	for _, o := range t.options {
		// A log without times of its own (Rekor 2) has entries that need a timestamp.
		o.UseSignedTimestamps = t.stamps && len(stamps) > 0 && !o.IgnoreTlog
		artifact := verify.WithArtifactDigest("sha256", hash)
		if f.Form == taskcatalog.SignatureAtTag {
			artifact = verify.WithArtifact(bytes.NewReader(f.Payload))
		}
		result, err := cosign.VerifyNewBundle(context.Background(), &o, artifact, b)
		if err != nil {
			why = whyOf(err)
			continue
		}
		return t.verdict(result, f, digest)
	}
	if why == whySignature && f.Form == taskcatalog.SignatureGiven && t.whole && b.GetMessageSignature() != nil {
		why = whyWhole
	}
	return v, why
}

func whyOf(err error) string {
	if none := (*verify.ErrNoMatchingCertificateIdentity)(nil); errors.As(err, &none) {
		return whyIdentity
	}
	for _, s := range stages {
		if strings.HasPrefix(err.Error(), s.begins) {
			return s.why
		}
	}
	return whyUnreadable
}

// verdict reads what was signed: it must name the digest, and be a signature.
func (t trusted) verdict(r *verify.VerificationResult, f Found, digest string) (v verdict, why string) {
	if f.Form == taskcatalog.SignatureAtTag {
		if named, err := t.named(f.Payload); err != nil {
			return v, whyStatement
		} else if named != digest {
			return v, whySignature
		}
	} else if r.Statement != nil || f.Form != taskcatalog.SignatureGiven { // without a statement, the digest itself is signed
		if r.Statement.GetPredicateType() != release.SignPredicate {
			return v, whyStatement
		}
	}
	if r.Signature != nil && r.Signature.Certificate != nil {
		v.issuer = taskcatalog.Clean(r.Signature.Certificate.Issuer, 1024)
		v.subject = taskcatalog.Clean(r.Signature.Certificate.SubjectAlternativeName, 1024)
	}
	for _, stamp := range r.VerifiedTimestamps {
		v.loggedAt = stamp.Timestamp
	}
	return v, ""
}
