package signature

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Release returns the id of a release key that signed an agent release of a digest, as cosign's library judges
// it. The package release judges the same with code of its own. Code: signature_untrusted.
func Release(signatures []release.Signature, keys release.Keys, digest string) (keyID string, err error) {
	var signers []trusted
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		text, err := cryptoutils.MarshalPublicKeyToPEM(keys[id])
		if err != nil {
			return "", err
		}
		t, err := trust(broker.ArtifactSigner{Name: id, Source: "the trust bundle", Key: string(text)})
		if err != nil {
			return "", err
		}
		t.named = cosignsDigest
		signers = append(signers, t)
	}
	if len(signers) == 0 || len(signatures) > release.MaxSignatures {
		return "", broker.Errorf(broker.Refused, CodeUntrusted, "cannot judge the release: there are %d release keys (one is needed) and %d signatures (%d are read)",
			len(signers), len(signatures), release.MaxSignatures)
	}
	var found []Found
	for _, s := range signatures {
		found = append(found, foundOf(s))
	}
	s, err := judge(signers, digest, found)
	return s.Signer, err
}

// cosignsDigest reads a payload as cosign does.
func cosignsDigest(signed []byte) (string, error) {
	var p payload.SimpleContainerImage
	if err := json.Unmarshal(signed, &p); err != nil || p.Critical.Type != payload.CosignSignatureType {
		return "", errForm
	}
	return p.Critical.Image.DockerManifestDigest, nil
}

// foundOf is the signature of a release in the form that a registry had it in.
func foundOf(s release.Signature) Found {
	kind, body, enveloped := envelopeOf(s.Payload)
	if !enveloped {
		return Found{
			Form: taskcatalog.SignatureAtTag, Payload: s.Payload,
			Annotations: map[string]string{release.AnnotationSignature: base64.StdEncoding.EncodeToString(s.Signature)},
		}
	}
	raw, err := json.Marshal(map[string]any{
		"mediaType": release.MediaBundle, "verificationMaterial": map[string]any{"publicKey": map[string]any{}},
		"dsseEnvelope": map[string]any{"payload": body, "payloadType": kind, "signatures": []any{map[string]any{"sig": s.Signature}}},
	})
	if err != nil {
		return Found{Form: taskcatalog.SignatureReferrer}
	}
	return Found{Form: taskcatalog.SignatureReferrer, Bundle: raw}
}

// envelopeOf takes the signed content of an envelope apart: DSSEv1, and twice a length and a text.
func envelopeOf(signed []byte) (kind string, body []byte, ok bool) {
	rest, ok := bytes.CutPrefix(signed, []byte("DSSEv1 "))
	if !ok {
		return "", nil, false
	}
	first, rest, ok := lengthened(rest)
	if !ok || !bytes.HasPrefix(rest, []byte(" ")) {
		return "", nil, false
	}
	body, rest, ok = lengthened(rest[1:])
	return string(first), body, ok && len(rest) == 0
}

// lengthened reads a length, a blank and as many bytes.
func lengthened(raw []byte) (text, rest []byte, ok bool) {
	number, rest, ok := bytes.Cut(raw, []byte(" "))
	n, err := strconv.Atoi(string(number))
	if !ok || err != nil || n < 0 || n > len(rest) {
		return nil, nil, false
	}
	return rest[:n], rest[n:], true
}
