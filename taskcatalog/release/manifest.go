package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// The media types of a release and of its parts.
const (
	MediaManifest  = "application/vnd.oci.image.manifest.v1+json"
	MediaArtifact  = "application/vnd.hostler.agent.v1"
	MediaStatement = "application/vnd.hostler.agent.statement.v1+json"
	MediaLayer     = "application/vnd.hostler.agent.binary.v1+gzip"
)

// MaxManifest and MaxLayer bound a manifest and a packed program, in bytes.
const (
	MaxManifest = 16 << 10
	MaxLayer    = MaxBinary
)

// Part is an OCI descriptor of the statement or the layer.
type Part struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"` // sha256:…
	Size      int64  `json:"size"`
}

// manifest has its fields in the order of the OCI image specification.
type manifest struct {
	SchemaVersion int    `json:"schemaVersion"`
	MediaType     string `json:"mediaType"`
	ArtifactType  string `json:"artifactType"`
	Config        Part   `json:"config"`
	Layers        []Part `json:"layers"`
}

// Manifest names the parts of a release. A Manifest from Open is signed.
type Manifest struct {
	Digest    string // of the manifest, and therefore of the release
	Statement Part
	Layer     Part
	KeyID     string // the release key with the valid signature
}

// Digest returns the digest of bytes as OCI writes it.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ValidDigest reports whether d is a digest as Digest writes it.
func ValidDigest(d string) bool {
	digits, ok := strings.CutPrefix(d, "sha256:")
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

func encodeManifest(statement, layer Part) ([]byte, error) {
	return taskcatalog.Encode(manifest{2, MediaManifest, MediaArtifact, statement, []Part{layer}})
}

// ReadManifest reads a manifest for its publisher. ReadManifest does not check signatures. Code:
// release_manifest_invalid.
func ReadManifest(raw []byte) (*Manifest, error) { return parseManifest(raw) }

// parseManifest reads the output of encodeManifest, and nothing else.
func parseManifest(raw []byte) (*Manifest, error) {
	if len(raw) > MaxManifest {
		return nil, badManifest("it has %d bytes, at most %d", len(raw), MaxManifest)
	}
	var m manifest
	if err := taskcatalog.DecodeStrict(raw, &m); err != nil {
		return nil, badManifest("%v", err)
	}
	switch {
	case m.SchemaVersion != 2 || m.MediaType != MediaManifest || m.ArtifactType != MediaArtifact:
		return nil, badManifest("it is a %s of type %s, not a release of the agent", quote(m.MediaType), quote(m.ArtifactType))
	case len(m.Layers) != 1:
		return nil, badManifest("it has %d layers, not one", len(m.Layers))
	}
	if err := m.Config.check("statement", MediaStatement, MaxStatement); err != nil {
		return nil, err
	}
	if err := m.Layers[0].check("layer", MediaLayer, MaxLayer); err != nil {
		return nil, err
	}
	if own, err := encodeManifest(m.Config, m.Layers[0]); err != nil || !bytes.Equal(own, raw) {
		return nil, badManifest("it is not in its one form")
	}
	return &Manifest{Digest: Digest(raw), Statement: m.Config, Layer: m.Layers[0]}, nil
}

func (p Part) check(name, mediaType string, most int64) error {
	switch {
	case p.MediaType != mediaType:
		return badManifest("its %s is a %s, not a %s", name, quote(p.MediaType), mediaType)
	case !ValidDigest(p.Digest):
		return badManifest("%s is no digest of a %s", quote(p.Digest), name)
	case p.Size < 1 || p.Size > most:
		return badManifest("its %s has %d bytes (at most %d)", name, p.Size, most)
	}
	return nil
}

func badManifest(format string, args ...any) error {
	return refuse(CodeManifestInvalid, "cannot use the release's manifest: "+format, args...)
}
