package release

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"

	"github.com/hostler/hostler/taskcatalog"
)

// Names of cosign's signatures in a registry.
const (
	MediaPayload        = "application/vnd.dev.cosign.simplesigning.v1+json"
	AnnotationSignature = "dev.cosignproject.cosign/signature"
	payloadType         = "cosign container image signature"
)

// Bounds of what comes beside a release.
const (
	MaxSignatures = 8
	maxPayload    = 4 << 10
	maxSignature  = 256
)

// Signature is one that cosign made: of the payload, which names a manifest. Two kinds
// of payload are signed, which no payload is both of: "simple signing", and since
// version 3 an envelope (see FromBundle).
type Signature struct {
	Payload   []byte `json:"payload" jsonschema:"maxLength=5464"`
	Signature []byte `json:"signature" jsonschema:"maxLength=344"`
}

// Keys are the release keys in force, by id.
type Keys map[string]crypto.PublicKey

// payload is cosign's "simple signing".
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// Payload returns what is signed for a release: its digest, and the repository it is
// meant for, which nobody relies on.
func Payload(digest, repository string) ([]byte, error) {
	var p payload
	p.Critical.Identity.Reference = repository
	p.Critical.Image.Digest = digest
	p.Critical.Type = payloadType
	return taskcatalog.Encode(p)
}

// signer returns the id of a key by which one of the signatures is, of a payload that
// names the digest. A payload is read once its signature holds.
func signer(signatures []Signature, keys Keys, digest string) (string, error) {
	if len(keys) == 0 {
		return "", badSignature("there is no release key in force in the trust bundle (hostler trust add-release-key FILE)")
	}
	if len(signatures) > MaxSignatures {
		return "", badSignature("there are %d, at most %d", len(signatures), MaxSignatures)
	}
	why := badSignature("none of %d is by a release key in force", len(signatures))
	for _, s := range signatures {
		id := s.by(keys)
		if id == "" {
			continue
		}
		switch named, err := signedDigest(s.Payload); {
		case err != nil:
			why = badSignature("what key %s signed cannot be read: %v", id, err)
		case named != digest:
			why = badSignature("what a release key signed is %s, not %s", quote(named), digest)
		default:
			return id, nil
		}
	}
	return "", why
}

// by returns the id of the key that made the signature; empty: none of keys.
func (s Signature) by(keys Keys) string {
	if len(s.Payload) > maxPayload || len(s.Signature) > maxSignature {
		return ""
	}
	sum := sha256.Sum256(s.Payload)
	for id, key := range keys {
		switch k := key.(type) {
		case *ecdsa.PublicKey:
			if ecdsa.VerifyASN1(k, sum[:], s.Signature) {
				return id
			}
		case ed25519.PublicKey:
			// cosign 3 signs a hash (Ed25519ph); before it, and here, it is the payload.
			hash := sha512.Sum512(s.Payload)
			if ed25519.Verify(k, s.Payload, s.Signature) || ed25519.VerifyWithOptions(k, hash[:], s.Signature, &ed25519.Options{Hash: crypto.SHA512}) == nil {
				return id
			}
		}
	}
	return ""
}

func badSignature(format string, args ...any) error {
	return refuse(CodeSignatureInvalid, "cannot believe the release's signature: "+format, args...)
}
