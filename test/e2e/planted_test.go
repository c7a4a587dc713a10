//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// planted builds the program that tests leave on a machine, and returns its bytes.
func planted(t testing.TB) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "planted")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", file, "./planted")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build what is planted: %v: %s", err, said)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// tarOf is an archive of one program: the whole disk of a container.
func tarOf(t *testing.T, name string, program []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// module is a kernel module that belongs to no package: the guest's own module dummy, renamed and
// without its signature.
func (s *site) module() []byte {
	s.t.Helper()
	file := s.root("modinfo", "-n", "dummy")
	module, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s.root("base64", file), "\n", ""))
	if err != nil {
		s.t.Fatal(err)
	}
	// The file ends with the signature, its length, and the marker.
	const marker = "~Module signature appended~\n"
	if rest, signed := bytes.CutSuffix(module, []byte(marker)); signed {
		const about = 12
		module = rest[:len(rest)-about-int(binary.BigEndian.Uint32(rest[len(rest)-4:]))]
	}
	return bytes.ReplaceAll(module, []byte("dummy"), []byte("plant"))
}
