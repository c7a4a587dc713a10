package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
)

// The kinds of keys that GenerateKey makes.
const (
	Ed25519 = "ed25519"
	P256    = "p256"
)

// maxPEM bounds every PEM document: keys, requests and chains are far smaller.
const maxPEM = 64 << 10

var pemBegin = []byte("-----BEGIN ")

// GenerateKey returns a new private key of kind Ed25519 or P256.
func GenerateKey(kind string) (crypto.Signer, error) {
	switch kind {
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case P256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	return nil, refuse(CodeKeyType, "cannot make a key of kind %s: use %s or %s", quote(kind), Ed25519, P256)
}

// MarshalKey returns a private key as PKCS#8 in PEM. The result is a secret.
func MarshalKey(key crypto.Signer) ([]byte, error) {
	if err := checkPublic(key.Public()); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, refuse(CodeKeyType, "cannot write private key: it does not leave where it is kept")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ParseKey reads the output of MarshalKey. Its errors never quote the input.
func ParseKey(raw []byte) (crypto.Signer, error) {
	der, err := onePEM(raw, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, refuse(CodeMalformed, "cannot read private key: it is not PKCS#8")
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, refuse(CodeKeyType, "cannot use private key: it does not sign (use Ed25519 or P-256)")
	}
	if err := checkPublic(key.Public()); err != nil {
		return nil, err
	}
	return key, nil
}

// ParsePublicKey reads a public key in PEM, as cosign and openssl write it.
func ParsePublicKey(raw []byte) (crypto.PublicKey, error) {
	der, err := onePEM(raw, "PUBLIC KEY")
	if err != nil {
		return nil, err
	}
	return parsePublic(der)
}

// PublicKeyDigest returns "sha256:" and the hex SHA-256 of the key's SPKI DER.
func PublicKeyDigest(pub crypto.PublicKey) (string, error) {
	der, err := marshalPublic(pub)
	if err != nil {
		return "", err
	}
	return Digest(der), nil
}

// KeyID returns the name of a key in envelopes and bundles: the first 16 hex digits of the SHA-256
// of its SPKI DER. A KeyID serves to look up a key and proves nothing.
func KeyID(pub crypto.PublicKey) (string, error) {
	der, err := marshalPublic(pub)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:8]), nil
}

func marshalPublic(pub crypto.PublicKey) ([]byte, error) {
	if err := checkPublic(pub); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, refuse(CodeKeyType, "cannot encode public key: %v", err)
	}
	return der, nil
}

func parsePublic(der []byte) (crypto.PublicKey, error) {
	pub, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, refuse(CodeMalformed, "cannot read public key: it is not SubjectPublicKeyInfo")
	}
	canonical, err := marshalPublic(pub)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(canonical, der) {
		return nil, refuse(CodeMalformed, "cannot read public key: it is not in canonical form")
	}
	return pub, nil
}

// checkPublic refuses every kind of key that is not Ed25519 or P-256.
func checkPublic(pub crypto.PublicKey) error {
	switch k := pub.(type) {
	case ed25519.PublicKey:
		if len(k) == ed25519.PublicKeySize {
			return nil
		}
	case *ecdsa.PublicKey:
		if k != nil && k.Curve == elliptic.P256() {
			return nil
		}
	}
	return refuse(CodeKeyType, "cannot use a key of type %T: use Ed25519 or P-256", pub)
}

// samePublic reports whether a and b are one key.
func samePublic(a, b crypto.PublicKey) bool {
	x, errX := marshalPublic(a)
	y, errY := marshalPublic(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// onePEM returns the body of a document with exactly one PEM block of this type and nothing else.
// pem.Decode alone silently skips text around a block.
func onePEM(raw []byte, kind string) ([]byte, error) {
	if len(raw) > maxPEM {
		return nil, refuse(CodeTooLarge, "cannot read %s: %d bytes, at most %d", kind, len(raw), maxPEM)
	}
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != kind || len(block.Headers) != 0 || len(bytes.TrimSpace(rest)) != 0 ||
		!bytes.HasPrefix(raw, pemBegin) || bytes.Count(raw, pemBegin) != 1 {
		return nil, refuse(CodeMalformed, "cannot read %s: it is not exactly one PEM block of that type", kind)
	}
	return block.Bytes, nil
}
