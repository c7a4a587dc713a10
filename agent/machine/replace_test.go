package machine

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A kill in Publish leaves the work with its last mode: what it has is kept. A file that others may have
// written is not.
func TestTheWorkOfAnAgentThatWasKilledIsKept(t *testing.T) {
	for mode, kept := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o640: false, 0o660: false, 0o666: false, 0o755: false} {
		dir := t.TempDir()
		m, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		work := filepath.Join(dir, "work")
		if err := errors.Join(os.WriteFile(work, []byte("gigabytes"), 0o600), os.Chmod(work, mode)); err != nil {
			t.Fatal(err)
		}
		b, err := m.Below("/")
		if err != nil {
			t.Fatal(err)
		}
		f, err := b.OpenWork("work")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); err != nil || (string(got) == "gigabytes") != kept {
			t.Errorf("a work of mode %04o has %q, %v; kept: %v", mode, got, err, kept)
		}
		if err := errors.Join(f.Close(), b.dir.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}
}
