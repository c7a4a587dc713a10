package release

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

// Sign signs a release as "cosign sign --key" does. The repository is the future location of the
// release, for people; empty: none yet.
func Sign(digest, repository string, key crypto.Signer) (Signature, error) {
	body, err := Payload(digest, repository)
	if err != nil {
		return Signature{}, err
	}
	signed, hash := body, crypto.Hash(0)
	switch k := key.Public().(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return Signature{}, fmt.Errorf("cannot sign with a key on %s: use P-256 or Ed25519", k.Params().Name)
		}
		sum := sha256.Sum256(body)
		signed, hash = sum[:], crypto.SHA256
	case ed25519.PublicKey:
	default:
		return Signature{}, fmt.Errorf("cannot sign with a key of type %T: use P-256 or Ed25519", k)
	}
	raw, err := key.Sign(rand.Reader, signed, hash)
	return Signature{Payload: body, Signature: raw}, err
}
