package artifact

import (
	"context"
	"errors"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Pulled is a release as a registry holds it. Its signatures are not verified.
type Pulled struct {
	Repository string // HOST[:PORT]/REPOSITORY
	Digest     string
	Manifest   []byte
	Statement  []byte
	Signatures []release.Signature
}

// IsReference reports whether a name is a reference to a release in a registry, by digest or by
// tag.
func IsReference(name string) bool {
	ref, err := registry.ParseReference(name)
	return err == nil && ref.Reference != ""
}

// Pull reads a release from a registry: everything but its program, which must exist there. A tag
// is resolved once, and everything else is read by digest. Codes: registry_invalid,
// registry_failed, release_not_found, release_part_missing.
func Pull(ctx context.Context, reference string, plainHTTP bool) (*Pulled, error) {
	ref, err := registry.ParseReference(reference)
	if err != nil || ref.Reference == "" {
		return nil, broker.Errorf(broker.Invalid, "registry_invalid",
			"cannot use %q as a release: name HOST[:PORT]/REPOSITORY@sha256:…, or with a tag in place of the digest",
			taskcatalog.Clean(reference, 300))
	}
	r, err := OpenRegistry(ref.Registry+"/"+ref.Repository, plainHTTP)
	if err != nil {
		return nil, err
	}
	root, err := r.repo.Resolve(ctx, ref.Reference)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, broker.Errorf(broker.NotFound, "release_not_found", "%s has no %s (check that it was pushed: oras manifest fetch %s)",
			r.reference, ref.Reference, reference)
	}
	if err != nil {
		return nil, r.failed("read a release from", err)
	}
	p := &Pulled{Repository: r.reference, Digest: root.Digest.String()}
	if p.Manifest, err = fetch(ctx, r.repo, root, release.MaxManifest); err != nil {
		return nil, r.failed("read a release from", err)
	}
	m, err := release.ReadManifest(p.Manifest)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, string(taskcatalog.CodeOf(err, "artifact_unreadable")), "cannot use %s: %v", reference,
			err)
	}
	if p.Statement, err = fetch(ctx, r.repo, descriptor(m.Statement), release.MaxStatement); err != nil {
		return nil, r.failed("read a release from", err)
	}
	if there, err := r.repo.Blobs().Resolve(ctx, m.Layer.Digest); errors.Is(err, errdef.ErrNotFound) ||
		err == nil && there.Size != m.Layer.Size {
		return nil, broker.Errorf(broker.Refused, "release_part_missing",
			"cannot publish %s: its program %s is missing (push the whole release)", reference, m.Layer.Digest)
	} else if err != nil {
		return nil, r.failed("read a release from", err)
	}
	if p.Signatures, err = r.signatures(ctx, root); err != nil {
		return nil, r.failed("read signatures from", err)
	}
	return p, nil
}

// signatures returns all signatures of a release in the registry, at its tag and as bundles.
func (r *Registry) signatures(ctx context.Context, of ocispec.Descriptor) ([]release.Signature, error) {
	all, err := signatures(ctx, r.repo, of.Digest.String())
	if err != nil {
		return nil, err
	}
	return r.withBundles(ctx, of, all)
}
