package adminapi

import (
	"context"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	// maxPackage bounds an agent package, in bytes.
	maxPackage = 256 << 20
	// uploadTime bounds the time of one upload.
	uploadTime = 30 * time.Minute
	// defaultArch is the architecture of machines for which nobody named another.
	defaultArch = "amd64"
)

var (
	packageForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.+~_-]{0,150}_(amd64|arm64)\.deb$`)
	versionForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.+~:-]{0,63}$`)
)

func (a *API) listReleases(ctx context.Context, in *PageInput) (*api.AgentReleaseList, error) {
	all, err := a.c.DB.Packages(ctx)
	if err != nil {
		return nil, err
	}
	signed, floor, err := a.signedReleases(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		signed = append(signed, a.releaseResource(p))
	}
	out := &api.AgentReleaseList{Items: newestFirst(signed), Floor: floor}
	return out, cut(*in, &out.Items, &out.Next, func(r api.AgentRelease) string { return r.Digest })
}

type publishInput struct {
	Digest   string `path:"digest" minLength:"64" maxLength:"71" doc:"hex SHA-256 of the package"`
	Version  string `query:"version" maxLength:"64" required:"true"`
	Arch     string `query:"arch" enum:"amd64,arm64" doc:"must match the file name, if one is given"`
	Filename string `query:"filename" maxLength:"160" required:"true" doc:"NAME_VERSION_ARCH.deb"`

	hc huma.Context
}

// Resolve keeps the request: its body is streamed, never held in memory.
func (in *publishInput) Resolve(hc huma.Context) []error {
	in.hc = hc
	return nil
}

// publishRelease stores a package by its digest. An upload with a different digest, or one that
// breaks off, leaves nothing behind.
func (a *API) publishRelease(ctx context.Context, in *publishInput) (*api.AgentRelease, error) {
	digest := strings.TrimPrefix(in.Digest, "sha256:")
	sum, err := hex.DecodeString(digest)
	named := packageForm.FindStringSubmatch(in.Filename)
	switch {
	case err != nil || len(sum) != 32 || strings.ToLower(digest) != digest:
		return nil, badRelease("digest %q is not a hex SHA-256", in.Digest)
	case named == nil:
		return nil, badRelease("file name %q is not NAME_VERSION_ARCH.deb with amd64 or arm64", in.Filename)
	case in.Arch != "" && in.Arch != named[1]:
		return nil, badRelease("the file name is for another architecture than %s", in.Arch)
	case !versionForm.MatchString(in.Version):
		return nil, badRelease("version %q is not a valid version", in.Version)
	}
	_ = in.hc.SetReadDeadline(a.c.Now().Add(uploadTime))
	p, err := a.c.DB.PutPackage(ctx, callerOf(ctx).actor(), store.Package{
		Digest: "sha256:" + digest, Name: in.Filename, Version: in.Version,
	}, &bounded{from: in.hc.BodyReader(), left: maxPackage})
	if err != nil {
		return nil, err
	}
	out := a.releaseResource(p)
	return &out, nil
}

func badRelease(format, value string) error {
	return broker.Errorf(broker.Invalid, "agent_release_invalid", "cannot publish agent release: "+format, taskcatalog.Clean(value, 160))
}

// bounded is a reader with a size limit; reads past the limit fail.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, broker.Errorf(broker.Invalid, "too_large", "cannot publish agent release: the package is larger than %d bytes",
			maxPackage)
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	return n, err
}

func archOf(p store.Package) string {
	if named := packageForm.FindStringSubmatch(p.Name); named != nil {
		return named[1]
	}
	return ""
}

func (a *API) releaseResource(p store.Package) api.AgentRelease {
	return api.AgentRelease{
		Kind: "package", Digest: p.Digest, Version: p.Version, Arch: archOf(p), Filename: p.Name, Size: p.Size,
		UploadedAt: p.PublishedAt, UploadedBy: p.PublishedBy, URL: a.partURL(p.Digest),
	}
}
