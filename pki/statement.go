package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/asn1"
	"encoding/base64"
	"math/big"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/hostler/hostler/taskcatalog"
)

// MaxStatement bounds a statement's envelope, in bytes. A statement carries the evidence of a whole
// turnover, and each piece of evidence fits into a request.
const MaxStatement = 16 << 20

// SignStatement returns the envelope of an in-toto statement in the form that ParseStatement
// accepts.
func SignStatement(payload []byte, signer Signer) ([]byte, error) {
	return signEnvelope(PayloadInToto, payload, ParseStatement, signer)
}

// ParseStatement is ParseEnvelope for statements, which are stored as files and handed on. A
// statement has one signature and exactly one byte form. Any change, even of white space or of the
// order of keys, is refused, so that the digest of the file names the signed content. Codes:
// too_large (before anything is parsed), malformed, not_canonical.
func ParseStatement(raw []byte) (*Envelope, error) {
	env, err := parseEnvelope(raw, MaxStatement)
	if err != nil {
		return nil, err
	}
	if len(env.signatures) != 1 {
		return nil, refuse(CodeMalformed, "cannot read statement: %d signatures, it must have one", len(env.signatures))
	}
	canonical, err := env.encode()
	if err != nil || !bytes.Equal(canonical, raw) {
		return nil,
			refuse(CodeNotCanonical,
				"cannot read statement: it is not in the form in which it was written (take the file as it came, without a line break added)")
	}
	env.oneForm = true
	return env, nil
}

// encode writes the envelope as Sign does.
func (e *Envelope) encode() ([]byte, error) {
	wire := dsse.Envelope{PayloadType: e.payloadType, Payload: base64.StdEncoding.EncodeToString(e.payload)}
	for _, s := range e.signatures {
		wire.Signatures = append(wire.Signatures, dsse.Signature{KeyID: s.keyID, Sig: base64.StdEncoding.EncodeToString(s.sig)})
	}
	return taskcatalog.Encode(wire)
}

// ecdsaSignature is the DER of an ECDSA signature.
type ecdsaSignature struct{ R, S *big.Int }

// lowerHalf returns the signature with the smaller of the two valid values of S. Anybody can
// convert an ECDSA signature into a second valid signature. Where only one form is allowed, the
// signature with the smaller S counts.
func lowerHalf(sig []byte) ([]byte, error) {
	var s ecdsaSignature
	if rest, err := asn1.Unmarshal(sig, &s); err != nil || len(rest) > 0 || s.S == nil {
		return nil, refuse(CodeKeyUnreadable, "cannot sign: the key does not answer with an ECDSA signature")
	}
	order := elliptic.P256().Params().N
	if s.S.Cmp(new(big.Int).Rsh(order, 1)) > 0 {
		s.S = new(big.Int).Sub(order, s.S)
	}
	return asn1.Marshal(s)
}

// onlyForm reports whether sig is in its canonical form. An Ed25519 signature has one form by
// itself.
func onlyForm(pub crypto.PublicKey, sig []byte) bool {
	if _, ok := pub.(*ecdsa.PublicKey); !ok {
		return true
	}
	low, err := lowerHalf(sig)
	return err == nil && bytes.Equal(low, sig)
}
