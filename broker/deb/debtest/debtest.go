package debtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"
)

// Part is one member of a package.
type Part struct{ Name, Content string }

// Parts returns the members, in order, of a package that installs the entries.
func Parts(t testing.TB, entries ...tar.Header) []Part {
	t.Helper()
	return []Part{{"debian-binary", "2.0\n"}, {"control.tar.gz", Tar(t, true)}, {"data.tar.gz", Tar(t, true, entries...)}}
}

// Join makes an ar file.
func Join(parts ...Part) []byte {
	out := bytes.NewBufferString("!<arch>\n")
	for _, p := range parts {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", p.Name, 0, 0, 0, "100644", len(p.Content), p.Content)
		if len(p.Content)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// Tar makes a tar file, compressed with gzip if gz is set. The content of each file is in its
// Uname.
func Tar(t testing.TB, gz bool, entries ...tar.Header) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		content := h.Uname
		h.Uname, h.Size = "", int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !gz {
		return out.String()
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// File is the entry of a regular file.
func File(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Uname: content}
}

// Link is the entry of a symbolic link.
func Link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
}

// Dir is the entry of a directory.
func Dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
