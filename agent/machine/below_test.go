package machine

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The agent's unit has UMask=0077, and the users of a service read what is written for it.
func TestDirectoriesAreMadeForEverybodyToRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a file of root's needs root")
	}
	was := syscall.Umask(0o077)
	defer syscall.Umask(was)
	dir := t.TempDir()
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	// A kill has left a directory that was not ready.
	if err := os.MkdirAll(filepath.Join(dir, "etc", temporaryName("demo")), 0o755); err != nil {
		t.Fatal(err)
	}
	// What exists stays as it is.
	if err := os.Mkdir(filepath.Join(dir, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"/etc/demo/conf", "/private/demo"} {
		b, err := m.MakeBelow(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Write("a/b/file", []byte("x"), 0o644, 0, 0); err != nil {
			t.Error(err)
		}
		work, err := b.OpenWork("pulled/by/work")
		if err != nil {
			t.Fatal(err)
		}
		work.Close()
		b.Close()
	}
	for name, want := range map[string]os.FileMode{
		"etc/demo": 0o755, "etc/demo/conf": 0o755, "etc/demo/conf/a": 0o755, "etc/demo/conf/a/b": 0o755, "etc/demo/conf/a/b/file": 0o644,
		"etc/demo/conf/pulled": 0o755, "etc/demo/conf/pulled/by": 0o755, "etc/demo/conf/pulled/by/work": 0o600,
		"private": 0o700, "private/demo": 0o755, "private/demo/a": 0o755,
	} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v: %v", name, st.Mode().Perm(), want, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", ".hostler-new-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
