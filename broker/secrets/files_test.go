package secrets

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/broker"
)

func open(t *testing.T, dir string) *Files {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var e *broker.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
}

func TestASecretIsReadWhenUsedAndOverRestarts(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	for _, value := range []string{"first-value", "second-value\nwith lines"} {
		if err := f.Put(t.Context(), "sites/dc1/maas", []byte(value)); err != nil {
			t.Fatal(err)
		}
		for _, reader := range []*Files{f, open(t, dir)} {
			got, err := reader.Get(t.Context(), "sites/dc1/maas")
			if err != nil || string(got) != value {
				t.Fatalf("got %q, %v; want %q", got, err, value)
			}
		}
	}
	if err := f.Delete(t.Context(), "sites/dc1/maas"); err != nil {
		t.Fatal(err)
	}
	if err := f.Delete(t.Context(), "sites/dc1/maas"); err != nil {
		t.Fatalf("deleting what is gone: %v", err)
	}
	_, err := f.Get(t.Context(), "sites/dc1/maas")
	wantCode(t, err, "secret_not_found")
}

// After a power cut only synced data is left. A directory made by a process that was then killed
// may be unsynced.
func TestASecretIsDurableWithEveryDirectoryAboveIt(t *testing.T) {
	f := open(t, t.TempDir())
	if err := f.root.Mkdir("sites", 0o700); err != nil {
		t.Fatal(err)
	}
	var synced []string
	f.sync = func(root *os.Root, dir string) error {
		synced = append(synced, dir)
		return syncDir(root, dir)
	}
	for name, want := range map[string][]string{"sites/dc1/maas": {".", "sites", "sites/dc1"}, "top": {"."}} {
		synced = nil
		if err := f.Put(t.Context(), name, []byte("x")); err != nil {
			t.Fatal(err)
		}
		slices.Sort(synced)
		if !slices.Equal(synced, want) {
			t.Errorf("%s: synced %q, want %q", name, synced, want)
		}
	}
	f.sync = func(*os.Root, string) error { return syscall.EIO }
	wantCode(t, f.Put(t.Context(), "sites/dc2/maas", []byte("x")), "secret_unwritable")
}

func TestNothingOnDiskHoldsTheValue(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if err := f.Put(t.Context(), "a/b", []byte("tell-nobody")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != dir && info.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %v, want 0700", path, info.Mode())
			}
			return nil
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", path, info.Mode())
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte("tell-nobody")) {
			t.Errorf("%s holds the value", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPathsThatLeaveTheDirectoryAreRefused(t *testing.T) {
	f := open(t, t.TempDir())
	for _, p := range []string{
		"", "/", "/etc/x", "..", "../x", "a/../b", "a/./b", "a//b", "a/", ".hidden", "a/.new-x", "A", "a b", "a\x00b", "a\nb",
		"a.age/b", "x.age", strings.Repeat("a", maxPath+1), "a/b/c/d/e/f/g/h/i",
	} {
		wantCode(t, f.Put(t.Context(), p, []byte("v")), "secret_path_invalid")
		_, err := f.Get(t.Context(), p)
		wantCode(t, err, "secret_path_invalid")
		wantCode(t, f.Delete(t.Context(), p), "secret_path_invalid")
	}
}

func TestALinkOutOfTheDirectoryIsNotFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	f := open(t, dir)
	if err := os.Symlink(outside, filepath.Join(dir, "sites")); err != nil {
		t.Fatal(err)
	}
	wantCode(t, f.Put(t.Context(), "sites/maas", []byte("v")), "secret_unwritable")
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("%d files were written outside", len(left))
	}
}

func TestAMovedOrChangedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if err := f.Put(t.Context(), "low", []byte("low-value")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "low.age"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(raw)
	flipped[len(flipped)-1] ^= 1
	for name, content := range map[string][]byte{"moved": raw, "flipped": flipped, "short": raw[:len(raw)-3], "empty": {}, "plain": []byte("low-value")} {
		if err := os.WriteFile(filepath.Join(dir, name+".age"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.Get(t.Context(), name)
		wantCode(t, err, "secret_unreadable")
		if strings.Contains(err.Error(), "low-value") {
			t.Errorf("%s: the error holds the value: %v", name, err)
		}
	}
}

func TestTheKeyIsNotReplacedWhereSecretsAreLeft(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir).Put(t.Context(), "a", []byte("v")); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, identityFile)
	for name, do := range map[string]struct {
		change func() error
		code   string
	}{
		"lost":      {func() error { return os.Remove(key) }, "secrets_key_missing"},
		"not a key": {func() error { return os.WriteFile(key, []byte("AGE-SECRET-KEY-1NO"), 0o600) }, "secrets_key_invalid"},
		"open": {func() error {
			return errors.Join(os.WriteFile(key, []byte("x"), 0o600), os.Chmod(key, 0o644))
		}, "secrets_key_open"},
	} {
		if err := do.change(); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		wantCode(t, err, do.code)
		if strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("%s: the error holds the key", name)
		}
	}
}

func TestAFullDiskLeavesTheOldValue(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if err := f.Put(t.Context(), "a", []byte("old")); err != nil {
		t.Fatal(err)
	}
	// A file size limit makes the write fail as a full disk does, for root too.
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	err := f.Put(t.Context(), "a", []byte("new"))
	if e := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); e != nil {
		t.Fatal(e)
	}
	wantCode(t, err, "secret_unwritable")
	got, err := f.Get(t.Context(), "a")
	if err != nil || string(got) != "old" {
		t.Fatalf("got %q, %v; want the old value", got, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

func TestWhatACrashLeftIsClearedAway(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if err := f.Put(t.Context(), "a/b", []byte("v")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{tempPrefix + "X", "a/" + tempPrefix + "Y"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "a", tempPrefix+"Y")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a file is left: %v", err)
	}
	if got, err := again.Get(t.Context(), "a/b"); err != nil || string(got) != "v" {
		t.Errorf("got %q, %v", got, err)
	}
}
