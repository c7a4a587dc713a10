package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/hostler/hostler/taskcatalog"
)

// The payload types. The signature covers the type, so that a signed document is never accepted as
// another type.
const (
	PayloadTask        = "application/vnd.hostler.task+json"
	PayloadTrustBundle = "application/vnd.hostler.trust-bundle+json"
	PayloadEvidence    = "application/vnd.hostler.evidence+json"
	PayloadInToto      = "application/vnd.in-toto+json"
)

// MaxEnvelope bounds an envelope, in bytes.
const MaxEnvelope = 1 << 20

const (
	maxSignatures = 8   // two during a rotation; room for a botched one
	maxSignature  = 128 // bytes; Ed25519 takes 64, P-256 at most 72
	maxKeyID      = 64
)

// Signer is a private key with the id under which verifiers look it up.
type Signer struct {
	ID  string
	Key crypto.Signer
}

// NewSigner returns key under its KeyID.
func NewSigner(key crypto.Signer) (Signer, error) {
	id, err := KeyID(key.Public())
	if err != nil {
		return Signer{}, err
	}
	return Signer{ID: id, Key: key}, nil
}

// Sign returns a DSSE envelope, as JSON, over payload and its type, with one
// signature per signer.
func Sign(payloadType string, payload []byte, signers ...Signer) ([]byte, error) {
	return signEnvelope(payloadType, payload, ParseEnvelope, signers...)
}

func signEnvelope(payloadType string, payload []byte, parse func([]byte) (*Envelope, error), signers ...Signer) ([]byte, error) {
	if len(signers) == 0 || len(signers) > maxSignatures {
		return nil, refuse(CodeMalformed, "cannot sign %s: %d signers, from 1 to %d are possible", payloadType, len(signers), maxSignatures)
	}
	env := &Envelope{payloadType: payloadType, payload: payload}
	pae := dsse.PAE(payloadType, payload)
	for _, s := range signers {
		sig, err := signBytes(s.Key, pae)
		if err != nil {
			return nil, err
		}
		env.signatures = append(env.signatures, signature{keyID: s.ID, sig: sig})
	}
	raw, err := env.encode()
	if err != nil {
		return nil, refuse(CodeMalformed, "cannot sign %s: %v", payloadType, err)
	}
	if _, err := parse(raw); err != nil {
		return nil, err // never send what nobody would take
	}
	return raw, nil
}

// Envelope is a signed document before verification. The payload is returned only after
// verification, by Verify and the methods of TrustBundle; FirstBundle is the one exception.
type Envelope struct {
	payloadType string
	payload     []byte
	signatures  []signature
	oneForm     bool // for a statement: only the canonical form of the signature is accepted
}

type signature struct {
	keyID string
	sig   []byte
}

// ParseEnvelope parses an envelope without trusting any part of it. Codes: too_large (before
// anything is parsed), malformed.
func ParseEnvelope(raw []byte) (*Envelope, error) { return parseEnvelope(raw, MaxEnvelope) }

func parseEnvelope(raw []byte, most int) (*Envelope, error) {
	if len(raw) > most {
		return nil, refuse(CodeTooLarge, "cannot read envelope: %d bytes, at most %d", len(raw), most)
	}
	var wire dsse.Envelope
	if err := taskcatalog.DecodeStrict(raw, &wire); err != nil {
		return nil, refuse(CodeMalformed, "cannot read envelope: %v", err)
	}
	payload, ok := canonicalBase64(wire.Payload)
	if !ok || wire.PayloadType == "" {
		return nil, refuse(CodeMalformed, "cannot read envelope: it has no payload type, or its payload is not canonical base64")
	}
	if n := len(wire.Signatures); n == 0 || n > maxSignatures {
		return nil, refuse(CodeMalformed, "cannot read envelope: %d signatures, from 1 to %d are possible", n, maxSignatures)
	}
	env := &Envelope{payloadType: wire.PayloadType, payload: payload}
	seen := map[string]bool{}
	for i, s := range wire.Signatures {
		sig, ok := canonicalBase64(s.Sig)
		if !ok || len(sig) == 0 || len(sig) > maxSignature || s.KeyID == "" || len(s.KeyID) > maxKeyID || seen[s.KeyID] {
			return nil,
				refuse(CodeMalformed,
					"cannot read envelope: signature %d has no key id of its own, or is not canonical base64 of a signature", i+1)
		}
		seen[s.KeyID] = true
		env.signatures = append(env.signatures, signature{keyID: s.KeyID, sig: sig})
	}
	return env, nil
}

// Verify returns the payload and the id of the key whose signature holds. One valid signature
// suffices: during a rotation the other keys may be unknown here. Codes: wrong_payload_type,
// unknown_key, bad_signature.
func (e *Envelope) Verify(wantType string, keys func(id string) (crypto.PublicKey, bool)) (payload []byte, keyID string, err error) {
	return e.verify(wantType, func(id string) (crypto.PublicKey, error) {
		if pub, ok := keys(id); ok {
			return pub, nil
		}
		return nil, refuse(CodeUnknownKey, "cannot verify envelope: key %s is not known here", quote(id))
	})
}

// verify is Verify with a lookup that returns the reason for a missing key.
func (e *Envelope) verify(wantType string, lookup func(id string) (crypto.PublicKey, error)) ([]byte, string, error) {
	if e.payloadType != wantType {
		return nil, "", refuse(CodeWrongPayloadType, "cannot verify envelope: it is a %s, not a %s", quote(e.payloadType), wantType)
	}
	var refusal error // the most specific refusal; unknown_key is the least specific
	pae := dsse.PAE(e.payloadType, e.payload)
	for _, s := range e.signatures {
		pub, err := lookup(s.keyID)
		if err == nil {
			if verifyBytes(pub, pae, s.sig) {
				if e.oneForm && !onlyForm(pub, s.sig) {
					return nil, "",
						refuse(CodeNotCanonical, "cannot verify envelope: the signature by key %s is not in the form in which it was made",
							quote(s.keyID))
				}
				return e.payload, s.keyID, nil
			}
			err = refuse(CodeBadSignature, "cannot verify envelope: the signature by key %s does not hold", quote(s.keyID))
		}
		if refusal == nil || taskcatalog.CodeOf(refusal, "") == CodeUnknownKey {
			refusal = err
		}
	}
	return nil, "", refusal
}

// Digest returns "sha256:" and the hex SHA-256 of raw. Evidence names its task envelope in this
// form.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func signBytes(key crypto.Signer, message []byte) ([]byte, error) {
	if err := checkPublic(key.Public()); err != nil {
		return nil, err
	}
	signed, opts := message, crypto.Hash(0) // Ed25519 signs the message itself
	_, isECDSA := key.Public().(*ecdsa.PublicKey)
	if isECDSA {
		sum := sha256.Sum256(message)
		signed, opts = sum[:], crypto.SHA256
	}
	sig, err := key.Sign(rand.Reader, signed, opts)
	if err != nil {
		return nil, refuse(CodeKeyUnreadable, "cannot sign: the key does not answer: %v", err)
	}
	if isECDSA {
		return lowerHalf(sig)
	}
	return sig, nil
}

func verifyBytes(pub crypto.PublicKey, message, sig []byte) bool {
	if checkPublic(pub) != nil {
		return false
	}
	switch k := pub.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, sig)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		return ecdsa.VerifyASN1(k, sum[:], sig)
	}
	return false
}

// canonicalBase64 decodes s and reports whether encoding the result gives s again. Go's decoder
// skips line breaks, and outside strict mode also ignores the last bits.
func canonicalBase64(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(s)
	return b, err == nil && base64.StdEncoding.EncodeToString(b) == s
}
