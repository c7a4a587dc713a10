package artifact

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Layout is a directory with one release.
type Layout struct {
	Dir      string
	Version  string
	Manifest []byte

	store *oci.Store
	root  ocispec.Descriptor
}

// Digest is the digest of the release.
func (l *Layout) Digest() string { return l.root.Digest.String() }

// IsLayout reports whether a path is a directory in the form that Write makes.
func IsLayout(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ocispec.ImageLayoutFile))
	return err == nil
}

// Write makes a directory of a release. An existing layout is replaced; anything else is left
// alone.
func Write(ctx context.Context, dir string, a *release.Artifact, version string) (err error) {
	if found, err := os.ReadDir(dir); err == nil && len(found) > 0 && !IsLayout(dir) {
		return broker.Errorf(broker.Refused, "artifact_in_the_way",
			"cannot write %s: the directory holds something other than an OCI layout (use another directory)", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unwritable(dir, err)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return unwritable(dir, err)
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-new-*")
	if err != nil {
		return unwritable(dir, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := fill(ctx, tmp, a, version); err != nil {
		return unwritable(dir, err)
	}
	old := tmp + "-old"
	defer func() { _ = os.RemoveAll(old) }()
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unwritable(dir, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return unwritable(dir, errors.Join(err, os.Rename(old, dir)))
	}
	return nil
}

func fill(ctx context.Context, dir string, a *release.Artifact, version string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	store, err := oci.NewWithContext(ctx, dir)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		media string
		bytes []byte
	}{{release.MediaStatement, a.Statement}, {release.MediaLayer, a.Layer}} {
		if _, err := oras.PushBytes(ctx, store, part.media, part.bytes); err != nil {
			return err
		}
	}
	_, err = oras.TagBytes(ctx, store, release.MediaManifest, a.Manifest, version)
	return err
}

// Read opens a directory with one release. Read does not check signatures.
func Read(ctx context.Context, dir string) (*Layout, error) {
	if !IsLayout(dir) {
		return nil, broker.Errorf(broker.Invalid, "artifact_unreadable",
			"cannot read %s: it is no OCI layout (make one with hostler agent-release pack)", dir)
	}
	store, err := oci.NewWithContext(ctx, dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	l := &Layout{Dir: dir, store: store}
	err = store.Tags(ctx, "", func(tags []string) error {
		for _, t := range tags {
			switch {
			case strings.HasPrefix(t, "sha256-"):
			case l.Version != "":
				return errors.New("it holds several releases")
			default:
				l.Version = t
			}
		}
		return nil
	})
	if err == nil && l.Version == "" {
		err = errors.New("it holds no release")
	}
	if err == nil {
		l.root, err = store.Resolve(ctx, l.Version)
	}
	if err == nil {
		l.Manifest, err = fetch(ctx, store, l.root, release.MaxManifest)
	}
	if err != nil {
		return nil, unreadable(dir, err)
	}
	return l, nil
}

// Part reads one whole part named by the manifest.
func (l *Layout) Part(ctx context.Context, p release.Part, most int64) ([]byte, error) {
	raw, err := fetch(ctx, l.store, descriptor(p), most)
	if err != nil {
		return nil, unreadable(l.Dir, err)
	}
	return raw, nil
}

// fetch reads the content of a descriptor, up to a limit, and checks its digest.
func fetch(ctx context.Context, from content.Fetcher, d ocispec.Descriptor, most int64) ([]byte, error) {
	if d.Size < 0 || d.Size > most {
		return nil, errors.New("a part of it is too large")
	}
	return content.FetchAll(ctx, from, d)
}

func unwritable(dir string, err error) error {
	return broker.Errorf(broker.Invalid, "artifact_unwritable", "cannot write %s: %v", dir, err)
}

func unreadable(where string, err error) error {
	if e := (*broker.Error)(nil); errors.As(err, &e) {
		return err
	}
	return broker.Errorf(broker.Invalid, "artifact_unreadable", "cannot read %s: %v", where, err)
}
