package regular

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAPipeThatNobodyWritesToIsRefusedAtOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		if _, err := Read(path, 10); !errors.Is(err, ErrNotRegular) {
			t.Errorf("Read(%s) = %v, want ErrNotRegular", path, err)
		}
	}
}

func TestAFileIsReadUpToItsBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if raw, err := Read(path, 10); err != nil || string(raw) != "0123456789" {
		t.Errorf("Read = %q, %v", raw, err)
	}
	if _, err := Read(path, 9); err == nil {
		t.Error("a file of ten bytes was read up to nine without an error")
	}
}
