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

// Bounds of the signatures of a release.
const (
	MaxSignatures = 8
	maxPayload    = 4 << 10
	maxSignature  = 256
)

// Signature is a cosign signature of a payload that names a manifest. There are two kinds of
// payload: "simple signing", and since cosign 3 an envelope (see FromBundle). No payload is of both
// kinds.
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

// Payload returns the signed payload of a release: its digest, and its intended repository. Nothing
// relies on the repository.
func Payload(digest, repository string) ([]byte, error) {
	var p payload
	p.Critical.Identity.Reference = repository
	p.Critical.Image.Digest = digest
	p.Critical.Type = payloadType
	return taskcatalog.Encode(p)
}

// signer returns the id of a key that signed a payload with the digest. A payload is read only
// after its signature holds.
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
		switch named, err := SignedDigest(s.Payload); {
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
			// cosign 3 signs a hash (Ed25519ph); earlier versions and Sign sign the payload.
			hash := sha512.Sum512(s.Payload)
			if ed25519.Verify(k, s.Payload, s.Signature) || ed25519.VerifyWithOptions(k, hash[:], s.Signature,
				&ed25519.Options{Hash: crypto.SHA512}) == nil {
				return id
			}
		}
	}
	return ""
}

func badSignature(format string, args ...any) error {
	return refuse(CodeSignatureInvalid, "cannot believe the release's signature: "+format, args...)
}
