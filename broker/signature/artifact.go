package signature

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

const (
	patience    = 20 * time.Second // for one artifact: somebody waits for the plan
	maxManifest = 512 << 10        // of a manifest, or a list of them
)

// Repository is a repository of a registry, such as registry.Repository.
type Repository interface {
	// Get reads a part: kind is manifests, blobs or referrers. ok is false if there is none, or if it
	// has more bytes than most.
	Get(ctx context.Context, kind, reference string, most int64) (raw []byte, ok bool, err error)
}

// Judge judges artifacts.
type Judge struct {
	Open func(ctx context.Context, repository string) (Repository, error) // REGISTRY/REPOSITORY
	Now  func() time.Time
}

// Artifact returns a signature of an artifact by one signer of each list (see
// broker.ArtifactSignersOf). Codes: signature_no_signer, signature_missing, signature_untrusted,
// artifact_signer_invalid, and those of the registry.
func (j *Judge) Artifact(
	ctx context.Context, lists [][]broker.ArtifactSigner, repository, digest string,
) ([]taskcatalog.ArtifactSignature, error) {
	source := "oci:" + repository
	signers, err := trustAll(lists, source, digest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	from, err := j.Open(ctx, repository)
	if err != nil {
		return nil, err
	}
	found, err := find(ctx, from, digest)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, broker.Errorf(broker.Refused, CodeMissing, "%s@%s has no signature in its registry (sign it: cosign sign)", repository, digest)
	}
	return j.judge(signers, source, digest, found)
}

// judge returns a signature by one signer of each list.
func (j *Judge) judge(signers [][]trusted, source, digest string, found []Found) (out []taskcatalog.ArtifactSignature, err error) {
	for _, list := range signers {
		s, err := judge(list, digest, found)
		if err != nil {
			return nil, err
		}
		s.Source, s.JudgedAt = source, j.Now().UTC().Truncate(time.Second)
		out = append(out, s)
	}
	return out, nil
}

// trustAll reads the signers of a source. Codes: signature_no_signer, artifact_signer_invalid.
func trustAll(lists [][]broker.ArtifactSigner, source, digest string) ([][]trusted, error) {
	if len(lists) == 0 {
		return nil, NoSigner(source, digest)
	}
	signers := make([][]trusted, len(lists))
	for i, list := range lists {
		for _, s := range list {
			t, err := trust(s)
			if err != nil {
				return nil, err
			}
			signers[i] = append(signers[i], t)
		}
	}
	return signers, nil
}

// NoSigner is the refusal of an artifact for which nobody is trusted.
func NoSigner(source, digest string) error {
	return broker.Errorf(broker.Refused, CodeNoSigner, "no signer is set for %s@%s (a platform_admin does: hostler artifact-signer set)",
		source, digest)
}

// find reads the signatures of a digest in both forms, maxFound at most of each.
func find(ctx context.Context, from Repository, digest string) ([]Found, error) {
	tag := strings.Replace(digest, ":", "-", 1)
	at, err := atTag(ctx, from, tag+".sig")
	if err != nil {
		return nil, err
	}
	more, err := referrers(ctx, from, digest, tag)
	return append(at, more...), err
}

// manifest reads a manifest or a list of manifests. What is no such JSON is as if it were not there.
func manifest[M any](ctx context.Context, from Repository, kind, reference string) (m M, ok bool, err error) {
	raw, ok, err := from.Get(ctx, kind, reference, maxManifest)
	if err != nil || !ok {
		return m, false, err
	}
	return m, json.Unmarshal(raw, &m) == nil, nil
}

func atTag(ctx context.Context, from Repository, tag string) (out []Found, err error) {
	m, ok, err := manifest[ocispec.Manifest](ctx, from, "manifests", tag)
	if err != nil || !ok {
		return nil, err
	}
	layers := slices.DeleteFunc(m.Layers, func(l ocispec.Descriptor) bool { // of other tools
		return l.MediaType != release.MediaPayload || l.Annotations[release.AnnotationSignature] == ""
	})
	for _, l := range layers[max(0, len(layers)-maxFound):] { // the newest are last
		f := Found{Form: taskcatalog.SignatureAtTag, Annotations: l.Annotations}
		if f.Payload, _, err = from.Get(ctx, "blobs", string(l.Digest), maxPayload); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// referrers reads bundles. A registry without the API of referrers has their list at a tag.
func referrers(ctx context.Context, from Repository, digest, tag string) (out []Found, err error) {
	list, ok, err := manifest[ocispec.Index](ctx, from, "referrers", digest)
	if err == nil && !ok {
		list, _, err = manifest[ocispec.Index](ctx, from, "manifests", tag)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range list.Manifests {
		if d.ArtifactType != release.MediaBundle || len(out) == maxFound {
			continue
		}
		m, ok, err := manifest[ocispec.Manifest](ctx, from, "manifests", string(d.Digest))
		if err != nil {
			return nil, err
		}
		f := Found{Form: taskcatalog.SignatureReferrer} // without its bundle it is unreadable
		for _, l := range m.Layers {
			if ok && l.MediaType == release.MediaBundle && f.Bundle == nil {
				if f.Bundle, _, err = from.Get(ctx, "blobs", string(l.Digest), maxBundle); err != nil {
					return nil, err
				}
			}
		}
		out = append(out, f)
	}
	return out, nil
}
