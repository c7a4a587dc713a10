package release

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/hostler/hostler/taskcatalog"
)

// Names in signatures since cosign 3: a Sigstore bundle with an envelope (DSSE) around a statement
// (in-toto) that names the manifest's digest.
const (
	MediaBundle   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	statementType = "application/vnd.in-toto+json"
	statementForm = "https://in-toto.io/Statement/v1"
	envelopeStart = "DSSEv1 "
)

// SignPredicate is the type of a statement that is a signature. The same signer makes other statements.
const SignPredicate = "https://sigstore.dev/cosign/sign/v1"

// attested is the statement as "cosign sign" writes it.
type attested struct {
	Form    string `json:"_type"`
	Subject []struct {
		Digest      map[string]string `json:"digest"`
		Annotations map[string]any    `json:"annotations"`
	} `json:"subject"`
	PredicateType string         `json:"predicateType"`
	Predicate     map[string]any `json:"predicate"`
}

// FromBundle extracts the signature of a release from a bundle. The payload is the signed content
// of the envelope: type and statement, with their lengths. ok is false for any other bundle, such
// as an attestation. FromBundle verifies nothing.
func FromBundle(raw []byte) (s Signature, ok bool) {
	var b struct {
		Envelope struct {
			Payload     []byte `json:"payload"`
			PayloadType string `json:"payloadType"`
			Signatures  []struct {
				Signature []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(raw, &b); err != nil || len(b.Envelope.Signatures) != 1 {
		return Signature{}, false
	}
	s = Signature{Payload: dsse.PAE(b.Envelope.PayloadType, b.Envelope.Payload), Signature: b.Envelope.Signatures[0].Signature}
	_, err := attestedDigest(s.Payload)
	return s, err == nil
}

// attestedDigest returns the digest that an envelope's statement declares as signed. The same key
// also signs other statements of a release ("cosign attest"); those have another predicate type and
// are refused.
func attestedDigest(signed []byte) (string, error) {
	_, body, _ := bytes.Cut(signed, []byte(" "+statementType+" "))
	_, body, _ = bytes.Cut(body, []byte(" "))
	if !bytes.Equal(signed, dsse.PAE(statementType, body)) {
		return "", taskcatalog.Errorf(taskcatalog.CodeMalformed, "it is no envelope of a statement")
	}
	var s attested
	if err := taskcatalog.DecodeStrict(body, &s); err != nil {
		return "", err
	}
	if s.Form != statementForm || s.PredicateType != SignPredicate || len(s.Subject) != 1 || len(s.Subject[0].Digest) != 1 {
		return "", taskcatalog.Errorf(taskcatalog.CodeMalformed, "it is another statement than cosign sign makes")
	}
	return "sha256:" + s.Subject[0].Digest["sha256"], nil
}

// SignedDigest returns the digest in a payload of either kind. The caller has verified the payload's
// signature.
func SignedDigest(signed []byte) (string, error) {
	if strings.HasPrefix(string(signed), envelopeStart) {
		return attestedDigest(signed)
	}
	var p payload
	if err := taskcatalog.DecodeStrict(signed, &p); err != nil {
		return "", err
	}
	if p.Critical.Type != payloadType {
		return "", taskcatalog.Errorf(taskcatalog.CodeMalformed, "it is no %s", payloadType)
	}
	return p.Critical.Image.Digest, nil
}
