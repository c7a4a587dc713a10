package secrets

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"filippo.io/age"

	"github.com/hostler/hostler/broker"
)

const (
	suffix     = ".age"
	tempPrefix = ".new-"
)

// Files stores secrets in files. Files is safe for concurrent use by one process; the broker's lock
// on its data directory keeps other processes out.
type Files struct {
	root *os.Root
	id   *age.HybridIdentity
	mu   sync.RWMutex
	sync func(root *os.Root, dir string) error // makes the names in a directory durable
}

// Open opens the secrets in dir, which must exist, and removes half-written files of a crash.
// Codes: secret_unreadable, secrets_key_open, secrets_key_invalid, secrets_key_missing.
func Open(dir string) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	if err := clearTemps(root); err != nil {
		return nil, errors.Join(unreadable(dir, err), root.Close())
	}
	id, err := openIdentity(root)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Files{root: root, id: id, sync: syncDir}, nil
}

// Close closes the directory.
func (f *Files) Close() error { return f.root.Close() }

// Put implements Keeper. Codes: secret_path_invalid, secret_value_invalid,
// secret_unwritable.
func (f *Files) Put(_ context.Context, name string, value []byte) error {
	return f.put(name, value, (*os.Root).Rename)
}

// Ensure implements Keeper.
func (f *Files) Ensure(ctx context.Context, name string, value []byte) ([]byte, error) {
	there, err := f.Get(ctx, name)
	if broker.AsError(err).Code != "secret_not_found" {
		return there, err
	}
	if err := f.put(name, value, (*os.Root).Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return f.Get(ctx, name)
}

// put writes a secret. place moves the temporary file to its name: a rename replaces an existing
// secret, a link does not (fs.ErrExist).
func (f *Files) put(name string, value []byte, place func(root *os.Root, temp, name string) error) error {
	if err := checkPath(name); err != nil {
		return err
	}
	if err := checkValue(name, value); err != nil {
		return err
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, f.id.Recipient())
	if err != nil {
		return unwritable(name, err)
	}
	if _, err := io.WriteString(w, name+"\n"); err != nil {
		return unwritable(name, err)
	}
	if _, err := w.Write(value); err != nil {
		return unwritable(name, err)
	}
	if err := w.Close(); err != nil {
		return unwritable(name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if dir := path.Dir(name); dir != "." {
		if err := f.root.MkdirAll(dir, 0o700); err != nil {
			return unwritable(name, err)
		}
	}
	if err = writeWhole(f.root, name+suffix, sealed.Bytes(), place); err == nil {
		err = f.syncAbove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return unwritable(name, err)
	}
	return err
}

// syncAbove makes a file's name durable, and the names of its parent directories: the process that
// created a parent may have been killed before it synced the parent.
func (f *Files) syncAbove(name string) error {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if err := f.sync(f.root, dir); err != nil || dir == "." {
			return err
		}
	}
}

// Get implements Keeper. Codes: secret_path_invalid, secret_not_found,
// secret_unreadable.
func (f *Files) Get(_ context.Context, name string) ([]byte, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	sealed, err := f.root.Open(name + suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(name)
	}
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer func() { _ = sealed.Close() }()
	r, err := age.Decrypt(sealed, f.id)
	if err != nil {
		return nil, damaged(name)
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxValue+maxPath+2))
	if err != nil {
		return nil, damaged(name)
	}
	inside, value, found := bytes.Cut(raw, []byte("\n"))
	if !found || string(inside) != name || len(value) > maxValue {
		return nil, damaged(name)
	}
	return value, nil
}

// Delete implements Keeper. Codes: secret_path_invalid, secret_unwritable.
func (f *Files) Delete(_ context.Context, name string) error {
	if err := checkPath(name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.root.Remove(name + suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unwritable(name, err)
	}
	return f.sync(f.root, path.Dir(name))
}

// writeWhole writes content to name beneath root: to a synced temporary file, then placed at name.
// The name is not durable yet.
func writeWhole(root *os.Root, name string, content []byte, place func(root *os.Root, temp, name string) error) (err error) {
	temp := path.Join(path.Dir(name), tempPrefix+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = root.Remove(temp) }() // absent after a rename
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return place(root, temp, name)
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func clearTemps(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), tempPrefix) {
			return root.Remove(name)
		}
		return err
	})
}

func unreadable(name string, err error) error {
	return broker.Errorf(broker.Unavailable, "secret_unreadable", "cannot read secret %s: %v", name, plain(err))
}

func unwritable(name string, err error) error {
	return broker.Errorf(broker.Unavailable, "secret_unwritable", "cannot write secret %s: %v (the earlier value is unchanged)", name,
		plain(err))
}

func damaged(name string) error {
	return broker.Errorf(broker.Refused, "secret_unreadable",
		"cannot read secret %s: its file is damaged, was encrypted to another key, or was moved there (set the secret again)", name)
}

// plain removes the path from a file error: the message already names the secret.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}
