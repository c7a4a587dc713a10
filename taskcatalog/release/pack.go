package release

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
)

// Artifact is a release as stored: each part is stored under its digest.
type Artifact struct {
	Digest    string // of the manifest
	Manifest  []byte
	Statement []byte
	Layer     []byte
}

// Pack makes a release of a program, and fills in Schema and Binary of the statement. The same
// program, statement and Go release give the same digest.
func Pack(program []byte, s Statement) (*Artifact, error) {
	sum := sha256.Sum256(program)
	s.Schema, s.Binary = Schema, Binary{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(program))}
	statement, err := s.Encode()
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	z, err := gzip.NewWriterLevel(&layer, gzip.BestCompression) // no name and no time in its header
	if err == nil {
		_, err = z.Write(program)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, err
	}
	raw, err := encodeManifest(
		Part{MediaStatement, Digest(statement), int64(len(statement))},
		Part{MediaLayer, Digest(layer.Bytes()), int64(layer.Len())})
	if err != nil {
		return nil, err
	}
	return &Artifact{Digest: Digest(raw), Manifest: raw, Statement: statement, Layer: layer.Bytes()}, nil
}

// Unpack writes the program of a release to w. The written bytes count only if Unpack returns nil:
// then the whole layer matches the manifest, and the program matches the statement. Unpack never
// writes more than the statement's size. Codes: release_digest_mismatch, release_binary_mismatch.
func (m *Manifest) Unpack(w io.Writer, layer io.Reader, s *Statement) error {
	packed, program := sha256.New(), sha256.New()
	from := &counting{r: io.TeeReader(io.LimitReader(layer, m.Layer.Size+1), packed)}
	size, unpackErr := unpack(io.MultiWriter(w, program), from, s.Binary.Size)
	var failed *writeError
	if errors.As(unpackErr, &failed) {
		return failed.err
	}
	// Read to the end even if gzip failed: a digest mismatch takes precedence.
	if _, err := io.Copy(io.Discard, from); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(packed.Sum(nil)); got != m.Layer.Digest || from.n != m.Layer.Size {
		return refuse(CodeDigestMismatch, "cannot unpack the release: its layer is %s of %d bytes, and the manifest names %s of %d", got,
			from.n, m.Layer.Digest, m.Layer.Size)
	}
	if unpackErr != nil {
		return refuse(CodeBinaryMismatch, "cannot unpack the release: %v", unpackErr)
	}
	if got := hex.EncodeToString(program.Sum(nil)); got != s.Binary.SHA256 || size != s.Binary.Size {
		return refuse(CodeBinaryMismatch, "cannot unpack the release: its program is %s of %d bytes, and its statement names %s of %d", got,
			size, s.Binary.SHA256, s.Binary.Size)
	}
	return nil
}
