package registry

import (
	"context"
	"errors"
	"io"
	"net/http"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Options say which repository is spoken to, and how.
type Options struct {
	Name      string // REGISTRY/REPOSITORY
	PlainHTTP bool
	HTTP      *http.Client
	// Token returns the bearer token of the next request. Nil: anyone may pull.
	Token func() string
}

// Repository is a repository of an OCI registry.
type Repository struct{ repo *remote.Repository }

// New returns a repository. It opens no connection.
func New(o Options) (*Repository, error) {
	repo, err := remote.NewRepository(o.Name)
	if err != nil {
		return nil, err
	}
	client := &auth.Client{Client: o.HTTP, Header: http.Header{"User-Agent": {"hostler-agent"}}}
	repo.PlainHTTP, repo.Client = o.PlainHTTP, client
	if o.Token != nil {
		repo.Client = &bearer{client, o.Token}
	}
	return &Repository{repo}, nil
}

// bearer sends a token with each request to the registry, instead of first asking the registry for
// its token endpoint. The token is not sent to the target of a redirect.
type bearer struct {
	*auth.Client
	token func() string
}

// Do implements remote.Client.
func (b *bearer) Do(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token())
	return b.Client.Do(req)
}

// RefusedError is a lasting refusal: no further try mends it.
type RefusedError struct{ why string }

func (r *RefusedError) Error() string { return "the registry " + r.why }

// CutError says that the registry itself has a part with another length.
type CutError struct{ Has int64 }

func (c *CutError) Error() string { return "the registry has the part with another length" }

// Open reads what a descriptor names, from an offset on. Errors are a *RefusedError, a *CutError, or
// of the moment.
func (r *Repository) Open(ctx context.Context, d ocispec.Descriptor, offset int64) (io.ReadCloser, error) {
	var from interface {
		Fetch(context.Context, ocispec.Descriptor) (io.ReadCloser, error)
	} = r.repo.Blobs()
	if d.MediaType == ocispec.MediaTypeImageManifest {
		from = r.repo.Manifests()
	}
	body, err := from.Fetch(ctx, d)
	if err != nil {
		// Fetch has no distinct error for a part that is truncated in the registry.
		if size, ok := r.sizeOf(ctx, d); ok && size != d.Size {
			return nil, &CutError{size}
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

// Do sends a request for a part with what the registry wants to see. An error that is not a
// *RefusedError may contain what was sent.
func (r *Repository) Do(req *http.Request) (*http.Response, error) {
	res, err := r.repo.Client.Do(req)
	if refused, ok := errors.AsType[*RefusedError](refusedBy(err)); ok {
		return nil, refused
	}
	return res, err
}

// Request asks for a part: kind is blobs or manifests.
func (r *Repository) Request(ctx context.Context, method, kind, digest string) (*http.Request, error) {
	scheme, at := "https", r.repo.Reference
	if r.repo.PlainHTTP {
		scheme = "http"
	}
	ctx = auth.AppendRepositoryScope(ctx, at, auth.ActionPull)
	return http.NewRequestWithContext(ctx, method, scheme+"://"+at.Host()+"/v2/"+at.Repository+"/"+kind+"/"+digest, nil)
}

// sizeOf asks the registry for the stored size of a part. An answer that does not name the part's
// digest is ignored: it may be the page of a proxy.
func (r *Repository) sizeOf(ctx context.Context, d ocispec.Descriptor) (size int64, ok bool) {
	kind := "blobs"
	if d.MediaType == ocispec.MediaTypeImageManifest {
		kind = "manifests"
	}
	req, err := r.Request(ctx, http.MethodHead, kind, string(d.Digest))
	if err != nil {
		return 0, false
	}
	req.Header.Set("Accept", d.MediaType)
	res, err := r.Do(req)
	if err != nil {
		return 0, false
	}
	named := res.Header.Get("Docker-Content-Digest") == string(d.Digest)
	return res.ContentLength, res.Body.Close() == nil && res.StatusCode == http.StatusOK && named && res.ContentLength >= 0
}

// refusedBy turns a lasting refusal into a RefusedError; other errors may be retried.
func refusedBy(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*errcode.ErrorResponse](err)
	gone := errors.Is(err, errdef.ErrNotFound) || errors.Is(err, auth.ErrBasicCredentialNotFound)
	if gone || ok && answer.StatusCode >= 400 && answer.StatusCode < 500 && answer.StatusCode != http.StatusTooManyRequests &&
		answer.StatusCode != http.StatusRequestTimeout {
		return &RefusedError{cause(err)}
	}
	return maskedError(err)
}
