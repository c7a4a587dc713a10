package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Annotations of a signature at a tag, beside release.AnnotationSignature.
const (
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationLog         = "dev.sigstore.cosign/bundle"
	annotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
	mediaBundleAtTag      = "application/vnd.dev.sigstore.bundle+json;version=0.1"
)

var errForm = errors.New("the form is unknown")

// bundle reads a signature of any form, of an artifact with a SHA-256, as one bundle. It verifies nothing.
func (f Found) bundle(hash []byte) (b *bundle.Bundle, err error) {
	defer func() {
		if recover() != nil {
			b, err = nil, errForm
		}
	}()
	if f.Form == taskcatalog.SignatureAtTag {
		sum := sha256.Sum256(f.Payload)
		return f.annotated(sum[:])
	}
	if f.Form == taskcatalog.SignatureGiven && f.Bundle == nil {
		return f.annotated(hash)
	}
	if len(f.Bundle) > maxBundle {
		return nil, errForm
	}
	b = &bundle.Bundle{}
	if err := b.UnmarshalJSON(f.Bundle); err != nil {
		return nil, err
	}
	ofDigest := f.Form == taskcatalog.SignatureGiven && b.GetMessageSignature() != nil
	if b.MediaType != release.MediaBundle || b.GetDsseEnvelope() == nil && !ofDigest {
		return nil, errForm
	}
	return b, nil
}

// logged is the annotation with the entry of the transparency log.
type logged struct {
	SignedEntryTimestamp []byte
	Payload              struct {
		Body           []byte `json:"body"`
		IntegratedTime int64  `json:"integratedTime"`
		LogIndex       int64  `json:"logIndex"`
		LogID          string `json:"logID"`
	}
}

// annotated makes the bundle of a signature, of a content with a SHA-256, whose parts are annotations.
func (f Found) annotated(hash []byte) (*bundle.Bundle, error) {
	size := 0
	for _, v := range f.Annotations {
		size += len(v)
	}
	sig, err := base64.StdEncoding.DecodeString(f.Annotations[release.AnnotationSignature])
	if err != nil || len(sig) == 0 || size > maxBundle || len(f.Payload) > maxPayload {
		return nil, errForm
	}
	material := &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{}},
	}
	if text := f.Annotations[annotationCertificate]; text != "" {
		block, _ := pem.Decode([]byte(text))
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errForm
		}
		material.Content = &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: &protocommon.X509CertificateChain{
			Certificates: []*protocommon.X509Certificate{{RawBytes: block.Bytes}},
		}}
	}
	if text := f.Annotations[annotationLog]; text != "" {
		entry, err := entryOf(text)
		if err != nil {
			return nil, err
		}
		material.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	}
	if text := f.Annotations[annotationTimestamp]; text != "" {
		var stamp struct{ SignedRFC3161Timestamp []byte }
		if err := json.Unmarshal([]byte(text), &stamp); err != nil {
			return nil, err
		}
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp.SignedRFC3161Timestamp}},
		}
	}
	return bundle.NewBundle(&protobundle.Bundle{
		MediaType: mediaBundleAtTag, VerificationMaterial: material,
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: hash}, Signature: sig,
		}},
	})
}

func entryOf(text string) (*protorekor.TransparencyLogEntry, error) {
	var l logged
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(l.Payload.LogID)
	if err != nil {
		return nil, err
	}
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(l.Payload.Body, &kind); err != nil {
		return nil, err
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex: l.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: id},
		KindVersion:    &protorekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
		IntegratedTime: l.Payload.IntegratedTime, CanonicalizedBody: l.Payload.Body,
		InclusionPromise: &protorekor.InclusionPromise{SignedEntryTimestamp: l.SignedEntryTimestamp},
	}, nil
}
