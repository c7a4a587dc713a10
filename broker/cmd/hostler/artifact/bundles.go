package artifact

import (
	"context"
	"encoding/json"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/hostler/hostler/taskcatalog/release"
)

const maxBundle = 64 << 10

// withBundles adds the bundles of a release to the signatures at its tag, as far as there is room.
// A registry without support for referrers does not hide the signatures at the tag.
func (r *Registry) withBundles(ctx context.Context, of ocispec.Descriptor, all []release.Signature) ([]release.Signature, error) {
	bundles, err := r.bundles(ctx, of, max(release.MaxSignatures-len(all), 0))
	if err != nil && len(all) == 0 {
		return nil, err
	}
	return append(all, bundles...), nil
}

// bundles reads the signatures of a release in the form of "cosign sign" from version 3 on: each is
// the layer of a manifest that refers to the release. The registry's referrers API lists these
// manifests, or a list at the tag sha256-DIGEST does.
func (r *Registry) bundles(ctx context.Context, of ocispec.Descriptor, most int) ([]release.Signature, error) {
	var out []release.Signature
	err := r.repo.Referrers(ctx, of, release.MediaBundle, func(found []ocispec.Descriptor) error {
		for _, d := range found {
			if len(out) == most {
				return nil
			}
			raw, err := fetch(ctx, r.repo, d, maxSignatureManifest)
			if err != nil {
				return err
			}
			var m ocispec.Manifest
			if err := json.Unmarshal(raw, &m); err != nil {
				return err
			}
			at := slices.IndexFunc(m.Layers, func(l ocispec.Descriptor) bool { return l.MediaType == release.MediaBundle })
			if at < 0 {
				continue
			}
			bundle, err := fetch(ctx, r.repo, m.Layers[at], maxBundle)
			if err != nil {
				return err
			}
			if s, ok := release.FromBundle(bundle); ok {
				out = append(out, s)
			}
		}
		return nil
	})
	return out, err
}
