package artifact

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"github.com/hostler/hostler/taskcatalog/release"
)

const (
	maxSignatureManifest = 64 << 10
	maxPayload           = 8 << 10
)

// signatureTag is the tag under which cosign keeps the signatures of a digest.
func signatureTag(of string) string { return strings.Replace(of, ":", "-", 1) + ".sig" }

// signatures reads the signatures of a digest, the newest last. No signature is not an error.
func signatures(ctx context.Context, from oras.ReadOnlyTarget, of string) ([]release.Signature, error) {
	d, err := from.Resolve(ctx, signatureTag(of))
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	raw, err := fetch(ctx, from, d, maxSignatureManifest)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	var out []release.Signature
	for _, l := range m.Layers {
		sig, err := base64.StdEncoding.DecodeString(l.Annotations[release.AnnotationSignature])
		if l.MediaType != release.MediaPayload || err != nil || len(sig) == 0 {
			continue // a layer of another tool
		}
		payload, err := fetch(ctx, from, l, maxPayload)
		if err != nil {
			return nil, err
		}
		out = append(out, release.Signature{Payload: payload, Signature: sig})
	}
	return out[max(0, len(out)-release.MaxSignatures):], nil
}

// joined is a, followed by the signatures that only b has.
func joined(a, b []release.Signature) []release.Signature {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.ContainsFunc(out, func(o release.Signature) bool {
			return bytes.Equal(o.Payload, s.Payload) && bytes.Equal(o.Signature, s.Signature)
		}) {
			out = append(out, s)
		}
	}
	return out[max(0, len(out)-release.MaxSignatures):]
}

// putSignatures writes signatures of a digest in cosign's form.
func putSignatures(ctx context.Context, to oras.Target, of string, all []release.Signature) error {
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	image := ocispec.Image{RootFS: ocispec.RootFS{Type: "layers"}}
	for _, s := range all {
		d, err := push(ctx, to, release.MediaPayload, s.Payload)
		if err != nil {
			return err
		}
		d.Annotations = map[string]string{release.AnnotationSignature: base64.StdEncoding.EncodeToString(s.Signature)}
		m.Layers = append(m.Layers, d)
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, d.Digest)
	}
	config, err := json.Marshal(image)
	if err != nil {
		return err
	}
	if m.Config, err = push(ctx, to, ocispec.MediaTypeImageConfig, config); err != nil {
		return err
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = oras.TagBytes(ctx, to, ocispec.MediaTypeImageManifest, raw, signatureTag(of))
	return err
}

// push writes a blob, unless the blob exists.
func push(ctx context.Context, to content.Pusher, mediaType string, raw []byte) (ocispec.Descriptor, error) {
	d, err := oras.PushBytes(ctx, to, mediaType, raw)
	if errors.Is(err, errdef.ErrAlreadyExists) {
		return content.NewDescriptorFromBytes(mediaType, raw), nil
	}
	return d, err
}

// Signatures are the signatures beside the release in its directory.
func (l *Layout) Signatures(ctx context.Context) ([]release.Signature, error) {
	all, err := signatures(ctx, l.store, l.Digest())
	if err != nil {
		return nil, unreadable(l.Dir, err)
	}
	return all, nil
}

// AddSignature adds a signature to the directory of the release.
func (l *Layout) AddSignature(ctx context.Context, s release.Signature) error {
	had, err := l.Signatures(ctx)
	if err != nil {
		return err
	}
	if err := putSignatures(ctx, l.store, l.Digest(), joined(had, []release.Signature{s})); err != nil {
		return unwritable(l.Dir, err)
	}
	return nil
}

func descriptor(p release.Part) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: p.MediaType, Digest: digest.Digest(p.Digest), Size: p.Size}
}
