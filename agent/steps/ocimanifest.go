package steps

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	// manifestName is the file of the manifest in the directory of its artifact. No title begins with a dot.
	manifestName = ".hostler-manifest.json"
	// manifestNext is the file of the manifest of another artifact that takes the place.
	manifestNext  = ".hostler-manifest-next.json"
	manifestTypes = ocispec.MediaTypeImageManifest + ", application/vnd.docker.distribution.manifest.v2+json"
	maxManifest   = 4 << 20
	maxOCIFiles   = 512
)

var (
	ociSource = lazyregexp.New(`^[a-z0-9][a-z0-9.-]*(:[1-9][0-9]{0,4})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$`)
	ociDigest = lazyregexp.New(taskcatalog.StepDigestPattern)
)

// ociFile is a layer with a title.
type ociFile struct {
	name, digest string
	size         int64
}

// ociManifest is what a manifest names.
type ociManifest struct {
	files []ociFile
	bytes int64
}

// readManifest parses a manifest of the digest, and judges what it names: every title is a plain
// name below the directory, and all files together are no more than the permitted bytes. Layers
// without a title are no files.
func readManifest(raw []byte, digest string, most int64) (m ociManifest, err error) {
	refuse := func(format string, args ...any) (ociManifest, error) {
		return ociManifest{}, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "cannot use the manifest %s: "+format, append([]any{digest}, args...)...)
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(raw)); got != digest {
		return m, taskcatalog.Errorf(taskcatalog.CodeDigestMismatch, "the manifest has the digest %s, and the plan names %s", got, digest)
	}
	var parsed ocispec.Manifest
	switch err := json.Unmarshal(raw, &parsed); {
	case err != nil, parsed.SchemaVersion != 2, parsed.MediaType != "" && !strings.Contains(manifestTypes, parsed.MediaType):
		return refuse("it is no manifest of one artifact (of an index, name the manifest of one platform)")
	case len(parsed.Layers) > maxOCIFiles:
		return refuse("it has %d layers, and %d are permitted", len(parsed.Layers), maxOCIFiles)
	}
	seen := map[string]bool{}
	for _, layer := range parsed.Layers {
		name, titled := layer.Annotations[ocispec.AnnotationTitle]
		if !titled {
			continue
		}
		what := taskcatalog.FormFault(taskcatalog.StepArg{Type: taskcatalog.StepName}, taskcatalog.StepValue{Literal: name})
		switch {
		case what != "":
			return ociManifest{}, taskcatalog.Errorf(taskcatalog.CodePathRefused, "cannot write the file %q of the artifact: its name %s",
				taskcatalog.Clean(name, 100), "is none (a relative path; no part of it begins with a dot)")
		case seen[name]:
			return refuse("it has the file %q twice", taskcatalog.Clean(name, 100))
		case !ociDigest.MatchString(string(layer.Digest)) || layer.Size < 0:
			return refuse("the file %q has no digest of the form sha256:…, or no size", taskcatalog.Clean(name, 100))
		case layer.Size > most-m.bytes:
			return ociManifest{}, taskcatalog.Errorf(taskcatalog.CodeArtifactTooBig, "the files of the artifact are more than the %d bytes that the plan permits", most)
		}
		seen[name] = true
		m.bytes += layer.Size
		m.files = append(m.files, ociFile{name, string(layer.Digest), layer.Size})
	}
	if len(m.files) == 0 {
		return refuse("it names no file (layers with the annotation %s)", ocispec.AnnotationTitle)
	}
	return m, nil
}
