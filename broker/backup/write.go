package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/trust"
)

const keyTries = 5

// WriteOptions set the data directory and the file of a backup.
type WriteOptions struct {
	DataDir    string
	File       string
	Force      bool // FILE may exist
	Recipients []string
	Version    string
	Now        time.Time
}

// Write writes a backup of the broker in a data directory; the broker may run meanwhile. digest is
// the SHA-256 of the file, in hex. Codes: backup_exists, backup_unwritable, backup_keys_changed,
// recipient_invalid, restore_unfinished, keys_missing, store_unavailable, disk_full.
func Write(ctx context.Context, o WriteOptions) (m Manifest, digest string, err error) {
	if err := Unfinished(o.DataDir); err != nil {
		return m, "", err
	}
	if _, err := os.Lstat(o.File); err == nil && !o.Force {
		return m, "", exists(o.File)
	}
	sweepCopies(o.DataDir) // before another copy, as large as the database, is made
	sweepSealed(filepath.Dir(o.File))
	copied, done, err := newCopy(o.DataDir)
	if err != nil {
		return m, "", unwritable(o.DataDir, err)
	}
	defer done()
	if m, err = collect(ctx, o, copied); err != nil {
		return m, "", err
	}
	step("copied")
	digest, err = o.write(m, copied)
	return m, digest, err
}

// collect copies the files of a backup to a directory, and returns the manifest.
func collect(ctx context.Context, o WriteOptions, to string) (m Manifest, err error) {
	m = Manifest{Format: format, Version: o.Version, TakenAt: o.Now.UTC().Truncate(time.Second)}
	if m.Keys, m.Roots, err = snapshot(ctx, o.DataDir, to); err != nil {
		return m, err
	}
	if m.Schema, err = store.CheckFile(ctx, filepath.Join(to, databaseName)); err != nil {
		return m, err
	}
	from := filepath.Join(o.DataDir, secretsDir)
	if _, err := os.Stat(from); err == nil {
		if err := copyTree(from, filepath.Join(to, secretsDir)); err != nil {
			return m, unwritable(o.DataDir, err)
		}
	}
	m.Files, err = list(to)
	m.Secrets = slices.ContainsFunc(m.Files, func(f File) bool { return strings.HasPrefix(f.Path, secretsDir+"/") })
	return m, err
}

// snapshot copies keys and database so that they match.
func snapshot(ctx context.Context, dataDir, to string) ([]trust.KeyPlace, []string, error) {
	keys, ring := filepath.Join(dataDir, keysDir), filepath.Join(dataDir, keysDir, "keyring.json")
	for range keyTries {
		before, err := os.ReadFile(ring)
		if err != nil {
			return nil, nil, broker.Errorf(broker.Refused, "keys_missing", "cannot back up %s: it has no keys", dataDir)
		}
		for _, name := range []string{keysDir, databaseName} {
			if err := os.RemoveAll(filepath.Join(to, name)); err != nil {
				return nil, nil, unwritable(dataDir, err)
			}
		}
		if err := copyTree(keys, filepath.Join(to, keysDir)); err != nil {
			return nil, nil, unwritable(dataDir, err)
		}
		if err := store.Snapshot(ctx, filepath.Join(dataDir, databaseName), filepath.Join(to, databaseName)); err != nil {
			return nil, nil, err
		}
		after, err := os.ReadFile(ring)
		if err != nil {
			return nil, nil, unwritable(dataDir, err)
		}
		copied, err := os.ReadFile(filepath.Join(to, keysDir, "keyring.json"))
		if err == nil && bytes.Equal(before, after) && bytes.Equal(before, copied) {
			return trust.Inventory(filepath.Join(to, keysDir))
		}
	}
	return nil, nil, broker.Errorf(broker.Unavailable, "backup_keys_changed",
		"cannot back up %s: its keys keep changing (try again when the rotation has ended)", dataDir)
}

// copyTree copies the regular files beneath a directory. A file that disappears meanwhile is left
// out, and so is an unfinished file with a temporary name.
func copyTree(from, to string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, filepath.FromSlash(name)), 0o700)
		case !d.Type().IsRegular() || strings.HasPrefix(d.Name(), tempPrefix):
			return nil
		}
		in, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		out, err := os.OpenFile(filepath.Join(to, filepath.FromSlash(name)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
}

// list lists the files of a copy, the database first.
func list(dir string) (files []File, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		f := File{Path: filepath.ToSlash(rel)}
		if f.Size, f.SHA256, err = hashFile(name); err != nil {
			return err
		}
		files = append(files, f)
		return f.check()
	})
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, err
}

func hashFile(name string) (int64, string, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// write writes the encrypted archive beside FILE, and renames it.
func (o WriteOptions) write(m Manifest, from string) (digest string, err error) {
	out, err := os.CreateTemp(filepath.Dir(o.File), sealPrefix) // mode 0600
	if err != nil {
		return "", unwritable(o.File, err)
	}
	defer func() { _ = os.Remove(out.Name()) }() // no effect after the rename
	sum := sha256.New()
	sealed, err := secrets.Seal(io.MultiWriter(out, sum), o.Recipients)
	if err == nil {
		err = archive(sealed, m, from)
	}
	if err == nil {
		err = sealed.Close()
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return "", unwritable(o.File, err)
	}
	place := os.Rename
	if !o.Force { // a plain rename would replace a file that appeared meanwhile
		place = renameNew
	}
	step("sealed")
	switch err := place(out.Name(), o.File); {
	case errors.Is(err, fs.ErrExist):
		return "", exists(o.File)
	case err != nil:
		return "", unwritable(o.File, err)
	}
	if err := syncDir(filepath.Dir(o.File)); err != nil {
		return "", unwritable(o.File, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// renameNew renames only if the new name does not exist. Some file systems have no such rename
// (NFS), and others no links (FAT).
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return os.Link(from, to)
	}
	return err
}

func archive(w io.Writer, m Manifest, from string) error {
	t := tar.NewWriter(w)
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	header := func(name string, size int64) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: m.TakenAt, Format: tar.FormatPAX}
	}
	if err := t.WriteHeader(header(manifestName, int64(len(raw)))); err != nil {
		return err
	}
	if _, err := t.Write(raw); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := t.WriteHeader(header(f.Path, f.Size)); err != nil {
			return err
		}
		in, err := os.Open(filepath.Join(from, filepath.FromSlash(f.Path)))
		if err != nil {
			return err
		}
		_, err = io.Copy(t, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return t.Close()
}

func exists(file string) error {
	return broker.Errorf(broker.Refused, "backup_exists", "cannot write %s: the file exists already (use another name, or --force)", file)
}

func unwritable(name string, err error) error {
	var own *broker.Error
	if errors.As(err, &own) {
		return err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return broker.Errorf(broker.Unavailable, "disk_full",
			"cannot write beside %s: the disk is full (a backup needs room for a copy of the database in the data directory, and for FILE)",
			path.Base(name))
	}
	return broker.Errorf(broker.Unavailable, "backup_unwritable", "cannot back up or restore %s: %v", name, err)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
