package deb

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// ErrUnreadable is the error for a package whose files cannot be determined.
var ErrUnreadable = errors.New("cannot read the package")

// Limits of an unpacked package.
const (
	maxUnpacked = 1 << 30 // bytes
	maxEntries  = 4096
	maxName     = 255
)

// Files lists the files that a package installs, sorted by path: regular files with mode, owner and
// the first 16 bytes of their SHA-256, symbolic links with their target. An error other than
// ErrUnreadable is an error of r.
func Files(r io.Reader) ([]taskcatalog.BaselineFile, error) {
	from := &source{r: r}
	files, err := list(from)
	if from.err != nil {
		return nil, from.err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return files, nil
}

// source remembers errors of the reader, to distinguish them from errors in the package.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func list(r io.Reader) (files []taskcatalog.BaselineFile, err error) {
	a := archive{r: r}
	if err := a.begin(); err != nil {
		return nil, err
	}
	for i, part := range []struct {
		name string
		read func(content io.Reader, suffix string) error
	}{
		{"debian-binary", isVersion2},
		{"control.tar", func(content io.Reader, _ string) error { _, err := io.Copy(io.Discard, content); return err }},
		{"data.tar", func(content io.Reader, suffix string) (err error) { files, err = unpack(content, suffix); return }},
	} {
		name, content, err := a.next()
		suffix, is := strings.CutPrefix(name, part.name)
		switch {
		case err != nil:
			return nil, err
		case !is || i == 0 && suffix != "":
			return nil, fmt.Errorf("the package has %q in the place of %s", taskcatalog.Clean(name, 16), part.name)
		}
		if err := part.read(content, suffix); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		if err := a.end(content); err != nil {
			return nil, err
		}
	}
	if n, err := io.CopyN(io.Discard, r, 1); n > 0 || !errors.Is(err, io.EOF) {
		return nil, errors.New("data follows the package's files")
	}
	return files, nil
}

func isVersion2(content io.Reader, _ string) error {
	text, err := io.ReadAll(io.LimitReader(content, 16))
	if err == nil && (!strings.HasPrefix(string(text), "2.") || !strings.HasSuffix(string(text), "\n")) {
		err = errors.New("the package's format is not version 2")
	}
	return err
}

// unpack lists the content of data.tar.
func unpack(content io.Reader, suffix string) ([]taskcatalog.BaselineFile, error) {
	switch suffix {
	case "":
	case ".gz":
		z, err := gzip.NewReader(content)
		if err != nil {
			return nil, err
		}
		content = z
	default:
		return nil, fmt.Errorf("the package is compressed as %q (use gzip)", taskcatalog.Clean(suffix, 16))
	}
	all := &io.LimitedReader{R: content, N: maxUnpacked}
	var files []taskcatalog.BaselineFile
	seen := map[string]bool{}
	left := int64(maxUnpacked) // a sparse file is larger than its packed form
	for t, n := tar.NewReader(all), 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		f, listed, err := entry(h, t, &left)
		switch {
		case err != nil:
			return nil, err
		case n >= maxEntries || seen[f.Path]:
			return nil, fmt.Errorf("%q is in the package twice, or the package has more than %d files", f.Path, maxEntries)
		case listed:
			files = append(files, f)
		}
		seen[f.Path] = true
	}
	// Read to the end: the packed stream has its own checksum.
	if _, err := io.Copy(io.Discard, all); err != nil {
		return nil, err
	}
	if all.N <= 0 {
		return nil, fmt.Errorf("the package unpacks to more than %d bytes", maxUnpacked)
	}
	slices.SortFunc(files, func(a, b taskcatalog.BaselineFile) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// entry reads one entry of a tar file; listed is false for a directory. entry subtracts the number
// of bytes read from left.
func entry(h *tar.Header, content io.Reader, left *int64) (f taskcatalog.BaselineFile, listed bool, err error) {
	name := strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), "/")
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	f = taskcatalog.BaselineFile{Path: path.Join("/", name), Mode: uint32(h.Mode & 0o7777), UID: uint32(h.Uid)}
	root := h.Typeflag == tar.TypeDir && name == ""
	if !root && (!fs.ValidPath(name) || name == "." && h.Typeflag != tar.TypeDir) || len(name) > maxName ||
		taskcatalog.Clean(name, maxName) != name || int64(f.UID) != int64(h.Uid) {
		return f, false, fmt.Errorf("%q is not a valid file name, or its owner is invalid", taskcatalog.Clean(h.Name, maxName))
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return f, false, nil
	case tar.TypeSymlink:
		f.Digest, f.Mode = "link:"+h.Linkname, 0
		if h.Linkname == "" || taskcatalog.Clean(h.Linkname, maxName) != h.Linkname {
			return f, false, fmt.Errorf("%q is not a valid target of the link %s", taskcatalog.Clean(h.Linkname, maxName), f.Path)
		}
		return f, true, nil
	case tar.TypeReg:
		sum := sha256.New()
		n, err := io.Copy(sum, io.LimitReader(content, *left))
		if *left -= n; err == nil && *left <= 0 {
			err = fmt.Errorf("the package unpacks to more than %d bytes", maxUnpacked)
		}
		if err != nil {
			return f, false, err
		}
		f.Digest = hex.EncodeToString(sum.Sum(nil)[:16])
		return f, true, nil
	}
	return f, false, fmt.Errorf("%s is neither file, link nor directory", f.Path)
}

// archive reads the members of an ar file in their order.
type archive struct {
	r    io.Reader
	size int64 // of the present member
}

func (a *archive) begin() error {
	const magic = "!<arch>\n"
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(a.r, head); err != nil || string(head) != magic {
		return errors.New("the file is not a Debian package")
	}
	return nil
}

// next returns a member's name and its content; the content must be passed to end.
func (a *archive) next() (name string, content *io.LimitedReader, err error) {
	head := make([]byte, 60)
	if _, err := io.ReadFull(a.r, head); err != nil {
		return "", nil, err
	}
	size, err := strconv.ParseUint(strings.TrimRight(string(head[48:58]), " "), 10, 40)
	if err != nil || string(head[58:]) != "`\n" {
		return "", nil, errors.New("a part of the package has no size")
	}
	a.size = int64(size)
	return strings.TrimSuffix(strings.TrimRight(string(head[:16]), " "), "/"), &io.LimitedReader{R: a.r, N: a.size}, nil
}

// end skips the rest of a member, and its padding.
func (a *archive) end(content *io.LimitedReader) error {
	n := content.N + a.size%2
	if _, err := io.CopyN(io.Discard, a.r, n); err != nil {
		return fmt.Errorf("a part of the package is incomplete: %w", err)
	}
	return nil
}
