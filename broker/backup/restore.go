package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	// LockName is the file by which a process locks a data directory for itself.
	LockName  = "broker.lock"
	markName  = "restore.unfinished"
	stageName = ".restoring"
)

// Unfinished refuses a data directory with an unfinished restore. Code: restore_unfinished.
func Unfinished(dataDir string) error {
	if _, err := os.Lstat(filepath.Join(dataDir, markName)); err == nil {
		return broker.Errorf(broker.Refused, "restore_unfinished",
			"cannot use data directory %s: a restore into this directory was interrupted (run hostler-broker restore again)", dataDir)
	}
	return nil
}

// RestoreOptions set the backup to restore and the place.
type RestoreOptions struct {
	File     string
	DataDir  string // locked by the caller
	Identity string // file with age identities
	// RootSHA256 is the fingerprint of the CA that nodes pin; empty: any.
	RootSHA256 string
	Now        time.Time
	Actor      broker.Actor
}

// step is called before each change of the data directory, and after each part of a backup. Tests
// end the process there.
var step = func(string) {}

// Restore makes a data directory from a backup, with a held database. Codes: data_dir_not_empty,
// backup_damaged, backup_too_new, backup_other_ca, schema_too_new, key_mismatch, and those of
// secrets.Unseal.
func Restore(ctx context.Context, o RestoreOptions) (m Manifest, v store.Voided, err error) {
	in, err := os.Open(o.File)
	if err != nil {
		return m, v, broker.Errorf(broker.NotFound, "backup_unreadable", "cannot restore: %v", err)
	}
	defer func() { _ = in.Close() }()
	sum := sha256.New()
	opened, err := secrets.Unseal(io.TeeReader(in, sum), o.Identity)
	if err != nil {
		return m, v, err
	}
	if err := begin(o.DataDir); err != nil {
		return m, v, err
	}
	stage := filepath.Join(o.DataDir, stageName)
	undo := func(err error) error { // removes every trace of the restore
		if left := errors.Join(removeRestored(o.DataDir), os.Remove(filepath.Join(o.DataDir, markName))); left != nil {
			return errors.Join(err, left)
		}
		return err
	}
	if m, err = unpack(opened, stage); err != nil {
		return m, v, undo(unwritable(o.DataDir, err))
	}
	step("unpacked")
	if err := check(ctx, stage, &m, o); err != nil {
		return m, v, undo(err)
	}
	step("checked")
	source := "backup " + hex.EncodeToString(sum.Sum(nil)) + " of " + m.TakenAt.Format(time.RFC3339)
	if v, err = hold(ctx, stage, m, source, o); err != nil {
		return m, v, undo(err)
	}
	step("held")
	if err := install(o.DataDir, stage); err != nil {
		return m, v, unwritable(o.DataDir, err)
	}
	return m, v, nil
}

// begin marks a directory that is empty, or that an earlier restore has marked: the files in a
// marked directory belong to the earlier restore.
func begin(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unwritable(dir, err)
	}
	if Unfinished(dir) == nil {
		for _, e := range entries {
			if e.Name() != LockName && e.Name() != "lost+found" {
				return broker.Errorf(broker.Refused, "data_dir_not_empty",
					"cannot restore into %s: %s is there (restore into an empty directory, and keep the old directory elsewhere)", dir,
					taskcatalog.Clean(e.Name(), 80))
			}
		}
		step("begin")
		mark, err := os.OpenFile(filepath.Join(dir, markName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = errors.Join(mark.Sync(), mark.Close(), syncDir(dir))
		}
		if err != nil {
			return unwritable(dir, err)
		}
	}
	step("marked")
	if err := removeRestored(dir); err != nil {
		return unwritable(dir, err)
	}
	if err := os.Mkdir(filepath.Join(dir, stageName), 0o700); err != nil {
		return unwritable(dir, err)
	}
	return nil
}

// removeRestored removes the files of a restore from the directory.
func removeRestored(dir string) error {
	for _, name := range []string{databaseName, databaseName + "-wal", databaseName + "-shm", secretsDir, keysDir, stageName} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// unpack writes the archive's files into an empty directory: exactly the files of the manifest, in
// the manifest's order, with its sizes and digests, and nothing after them.
func unpack(r io.Reader, dir string) (m Manifest, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, err
	}
	defer func() { _ = root.Close() }()
	t := tar.NewReader(r)
	h, err := next(t)
	if err != nil {
		return m, err
	}
	if h.Name != manifestName || h.Size > maxManifest {
		return m, damaged("the file does not begin with the manifest")
	}
	raw, err := io.ReadAll(t)
	if err != nil {
		return m, damaged("%v", err)
	}
	if m, err = readManifest(raw); err != nil {
		return m, err
	}
	for _, f := range m.Files {
		h, err := next(t)
		if err != nil {
			return m, err
		}
		if h.Name != f.Path || h.Size != f.Size {
			return m, damaged("%s is where %s of %d bytes should be", taskcatalog.Clean(h.Name, 200), f.Path, f.Size)
		}
		step("unpack " + f.Path)
		if err := put(root, f, t); err != nil {
			return m, err
		}
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return m, damaged("the file contains more than its manifest lists")
	}
	// The end of the archive is not the end of the file, and only the end of the file proves that
	// it is whole.
	for rest := make([]byte, 4096); ; {
		n, err := r.Read(rest)
		if slices.ContainsFunc(rest[:n], func(b byte) bool { return b != 0 }) {
			return m, damaged("data follows the end of the file")
		}
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return m, damaged("%v", err)
		}
	}
}

func next(t *tar.Reader) (*tar.Header, error) {
	h, err := t.Next()
	if err != nil {
		return nil, damaged("the file ends early, or was changed")
	}
	if h.Typeflag != tar.TypeReg {
		return nil, damaged("%s is not a file", taskcatalog.Clean(h.Name, 200))
	}
	return h, nil
}

func put(root *os.Root, f File, r io.Reader) error {
	if dir := path.Dir(f.Path); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	out, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	from := &source{r: r}
	n, err := io.Copy(io.MultiWriter(out, h), from)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		if from.err != nil {
			return damaged("the file ends within %s, or was changed there", f.Path)
		}
		return err
	}
	if n != f.Size || hex.EncodeToString(h.Sum(nil)) != strings.ToLower(f.SHA256) {
		return damaged("%s differs from the manifest", f.Path)
	}
	return nil
}

// source distinguishes an error of the archive from an error of the disk.
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

// install renames the prepared files into place, the database last.
func install(dir, stage string) error {
	if err := syncTree(stage); err != nil {
		return err
	}
	for _, name := range []string{secretsDir, keysDir, databaseName} {
		step("install " + name)
		err := os.Rename(filepath.Join(stage, name), filepath.Join(dir, name))
		if err != nil && (name != secretsDir || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	step("installed")
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(stage); err != nil {
		return err
	}
	step("unmark")
	if err := os.Remove(filepath.Join(dir, markName)); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncTree makes the names beneath a directory durable; the files are durable already.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncDir(name)
	})
}
