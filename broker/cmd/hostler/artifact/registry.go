package artifact

import (
	"context"
	"errors"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Registry is a repository of an OCI registry.
type Registry struct {
	reference string
	repo      *remote.Repository
}

// OpenRegistry opens a repository, HOST[:PORT]/REPOSITORY, without sending any request. The
// credentials for a push are the logins that docker, oras or cosign left on this machine.
func OpenRegistry(reference string, plainHTTP bool) (*Registry, error) {
	repo, err := remote.NewRepository(reference)
	if err != nil || repo.Reference.Reference != "" {
		return nil, broker.Errorf(broker.Invalid, "registry_invalid",
			"cannot use %q as a registry: name HOST[:PORT]/REPOSITORY, without tag or digest", taskcatalog.Clean(reference, 300))
	}
	logins, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "registry_login_unreadable", "cannot read the logins of registries: %v", err)
	}
	repo.PlainHTTP = plainHTTP
	repo.Client = &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache(), Credential: credentials.Credential(logins)}
	return &Registry{reference: reference, repo: repo}, nil
}

// Push copies a release to the registry, tagged with its version, and adds its signatures to the
// existing signatures. Push returns all signatures, with bundles as far as there is room. Nothing
// in the registry is replaced.
func (r *Registry) Push(ctx context.Context, l *Layout) ([]release.Signature, error) {
	there, err := r.repo.Resolve(ctx, l.Version)
	if err == nil && there.Digest != l.root.Digest {
		return nil, broker.Errorf(broker.Refused, "release_version_taken",
			"cannot push %s to %s: tag %s has digest %s there, and the new digest is %s (choose another version)", l.Dir, r.reference,
			l.Version, there.Digest, l.root.Digest)
	}
	if _, err := oras.Copy(ctx, l.store, l.Version, r.repo, l.Version, oras.DefaultCopyOptions); err != nil {
		return nil, r.failed("push to", err)
	}
	remote, err := signatures(ctx, r.repo, l.Digest())
	if err != nil {
		return nil, r.failed("read signatures from", err)
	}
	local, err := l.Signatures(ctx)
	if err != nil {
		return nil, err
	}
	all := joined(remote, local)
	if len(all) > len(remote) {
		if err := putSignatures(ctx, r.repo, l.Digest(), all); err != nil {
			return nil, r.failed("push signatures to", err)
		}
	}
	if all, err = r.withBundles(ctx, l.root, all); err != nil {
		return nil, r.failed("read signatures from", err)
	}
	return all, nil
}

func (r *Registry) failed(what string, err error) error {
	if e := (*broker.Error)(nil); errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return err
	}
	return broker.Errorf(broker.Unavailable, "registry_failed",
		"cannot %s %s: %s (check that the registry answers, and run docker login or oras login; without TLS, use --plain-http)", what,
		r.reference, taskcatalog.Clean(err.Error(), 500))
}
