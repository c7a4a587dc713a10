package selfupdate

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/hostler/hostler/agent/registry"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Registry is a repository of an OCI registry with releases.
type Registry struct{ repo *registry.Repository }

// NewRegistry returns the registry of a repository. It opens no connection. A nil credential means
// that anyone may pull.
func NewRegistry(source taskcatalog.ReleaseSource, credential *taskcatalog.OCIPullCredential) (*Registry, error) {
	// The caller counts the tries, so this client does not retry by itself.
	o := registry.Options{Name: source.Repository, PlainHTTP: source.PlainHTTP, HTTP: &http.Client{Transport: http.DefaultTransport}}
	if credential != nil {
		o.Token = func() string { return credential.Token }
	}
	repo, err := registry.New(o)
	if err != nil {
		return nil, taskcatalog.Errorf(CodeSourceRefused, "cannot use the repository %s: %v", taskcatalog.Clean(source.Repository, 200),
			err)
	}
	return &Registry{repo}, nil
}

// Open implements Source. A lasting refusal is CodeSourceRefused; other errors may be retried.
func (r *Registry) Open(ctx context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
	d := ocispec.Descriptor{MediaType: part.MediaType, Digest: digest.Digest(part.Digest), Size: part.Size}
	body, err := r.repo.Open(ctx, d, offset)
	if cut, ok := errors.AsType[*registry.CutError](err); ok {
		return nil, taskcatalog.Errorf(CodeSourceRefused,
			"cannot fetch the release: the registry has %d bytes under the digest %s, whose size is %d (push the release again)",
			cut.Has, part.Digest, part.Size)
	}
	if no, ok := errors.AsType[*registry.RefusedError](err); ok {
		return nil, taskcatalog.Errorf(CodeSourceRefused, "cannot fetch the release: %v", no)
	}
	return body, err
}
