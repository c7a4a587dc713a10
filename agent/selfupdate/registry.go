package selfupdate

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Registry is a repository of an OCI registry.
type Registry struct{ repo *remote.Repository }

// NewRegistry returns the registry of a repository. It opens no connection. A nil credential means
// that anyone may pull.
func NewRegistry(source taskcatalog.ReleaseSource, credential *taskcatalog.OCIPullCredential) (*Registry, error) {
	repo, err := remote.NewRepository(source.Repository)
	if err != nil {
		return nil, taskcatalog.Errorf(CodeSourceRefused, "cannot use the repository %s: %v", taskcatalog.Clean(source.Repository, 200),
			err)
	}
	// The caller counts the tries, so this client does not retry by itself.
	client := &auth.Client{Client: &http.Client{Transport: http.DefaultTransport}, Header: http.Header{"User-Agent": {"hostler-agent"}}}
	repo.PlainHTTP, repo.Client = source.PlainHTTP, client
	if credential != nil {
		repo.Client = &bearer{client, credential}
	}
	return &Registry{repo}, nil
}

// bearer sends a token with each request to the registry, instead of first asking the registry for
// its token endpoint. The token is not sent to the target of a redirect.
type bearer struct {
	*auth.Client
	credential *taskcatalog.OCIPullCredential
}

// Do implements remote.Client.
func (b *bearer) Do(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.credential.Token)
	return b.Client.Do(req)
}

// Open implements Source.
func (r *Registry) Open(ctx context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
	var from interface {
		Fetch(context.Context, ocispec.Descriptor) (io.ReadCloser, error)
	} = r.repo.Blobs()
	if part.MediaType == release.MediaManifest {
		from = r.repo.Manifests()
	}
	body, err := from.Fetch(ctx, ocispec.Descriptor{MediaType: part.MediaType, Digest: digest.Digest(part.Digest), Size: part.Size})
	if err != nil {
		// Fetch has no distinct error for a part that is truncated in the registry.
		if size, ok := r.sizeOf(ctx, part); ok && size != part.Size {
			return nil,
				taskcatalog.Errorf(CodeSourceRefused,
					"cannot fetch the release: the registry has %d bytes under the digest %s, whose size is %d (push the release again)",
					size, part.Digest, part.Size)
		}
		return nil, refusedBy(err)
	}
	if seeker, ok := body.(io.Seeker); ok && offset > 0 { // by a range of the next request
		_, err = seeker.Seek(offset, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, body, offset)
	}
	if err != nil {
		_ = body.Close()
		return nil, maskedError(err)
	}
	return maskedBody{body, body}, nil
}

// sizeOf asks the registry for the stored size of a part. An answer that does not name the part's
// digest is ignored: it may be the page of a proxy.
func (r *Registry) sizeOf(ctx context.Context, part release.Part) (size int64, ok bool) {
	kind, scheme := "blobs", "https"
	if part.MediaType == release.MediaManifest {
		kind = "manifests"
	}
	if r.repo.PlainHTTP {
		scheme = "http"
	}
	at := r.repo.Reference
	ctx = auth.AppendRepositoryScope(ctx, at, auth.ActionPull)
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, scheme+"://"+at.Host()+"/v2/"+at.Repository+"/"+kind+"/"+part.Digest, nil)
	if err != nil {
		return 0, false
	}
	req.Header.Set("Accept", part.MediaType)
	res, err := r.repo.Client.Do(req)
	if err != nil {
		return 0, false
	}
	named := res.Header.Get("Docker-Content-Digest") == part.Digest
	return res.ContentLength, res.Body.Close() == nil && res.StatusCode == http.StatusOK && named && res.ContentLength >= 0
}

// refusedBy turns a lasting refusal into CodeSourceRefused; other errors may be retried.
func refusedBy(err error) error {
	answer, ok := errors.AsType[*errcode.ErrorResponse](err)
	gone := errors.Is(err, errdef.ErrNotFound) || errors.Is(err, auth.ErrBasicCredentialNotFound)
	if gone || ok && answer.StatusCode >= 400 && answer.StatusCode < 500 && answer.StatusCode != http.StatusTooManyRequests &&
		answer.StatusCode != http.StatusRequestTimeout {
		return taskcatalog.Errorf(CodeSourceRefused, "cannot fetch the release: the registry %s", cause(err))
	}
	return maskedError(err)
}
