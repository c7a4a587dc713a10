package backup

import (
	"encoding/hex"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/taskcatalog"
)

// Names in the archive.
const (
	manifestName = "manifest.json"
	databaseName = "hostler.db"
	keysDir      = "keys"
	secretsDir   = "secrets"
)

// Limits for data that is not verified yet.
const (
	format      = 1
	maxManifest = 64 << 20
	maxFiles    = 500_000
	maxSmall    = 1 << 20 // of a key's file, or a secret's
	maxDepth    = 12
)

// File is one file of a backup.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Manifest describes a backup and lists its files.
type Manifest struct {
	Format  int              `json:"format"`
	Version string           `json:"version"` // of the program that wrote the backup
	Schema  int64            `json:"schema"`
	TakenAt time.Time        `json:"taken_at"`
	Roots   []string         `json:"ca_sha256"` // fingerprints, newest first
	Keys    []trust.KeyPlace `json:"keys"`
	Secrets bool             `json:"secrets"` // the backup includes secrets that are kept in files
	Files   []File           `json:"files"`
}

func readManifest(raw []byte) (m Manifest, err error) {
	if err := taskcatalog.DecodeStrict(raw, &m); err != nil {
		return m, damaged("its manifest cannot be read: %v", err)
	}
	if m.Format != format {
		return m, broker.Errorf(broker.Refused, "backup_too_new",
			"cannot restore: the backup has form %d, and this broker reads form %d (restore the backup with the release that wrote it, %s)",
			m.Format, format, taskcatalog.Clean(m.Version, 64))
	}
	if len(m.Files) > maxFiles {
		return m, damaged("its manifest lists %d files", len(m.Files))
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		if err := f.check(); err != nil {
			return m, err
		}
		if seen[f.Path] {
			return m, damaged("its manifest lists %s twice", f.Path)
		}
		seen[f.Path] = true
	}
	if !seen[databaseName] || !seen[path.Join(keysDir, "keyring.json")] {
		return m, damaged("its manifest lacks the database or the keys")
	}
	return m, nil
}

// check refuses a name that does not belong in a backup. Each name leads to one file beneath the
// directory into which the backup is unpacked.
func (f File) check() error {
	name := taskcatalog.Clean(f.Path, 200)
	parts := strings.Split(f.Path, "/")
	digest, err := hex.DecodeString(f.SHA256)
	switch {
	case err != nil || len(digest) != 32 || f.Size < 0:
		return damaged("%s has no digest, or no size", name)
	case f.Path == databaseName:
		return nil
	case !fs.ValidPath(f.Path) || len(parts) < 2 || len(parts) > maxDepth || strings.ContainsAny(f.Path, "\\\x00"),
		parts[0] != keysDir && parts[0] != secretsDir, parts[0] == keysDir && len(parts) != 2:
		return damaged("%s is not a file of a backup", name)
	case f.Size > maxSmall:
		return damaged("%s has %d bytes", name, f.Size)
	}
	return nil
}

func damaged(form string, args ...any) error {
	return broker.Errorf(broker.Refused, "backup_damaged", "cannot restore: the file is damaged, or is not a backup: "+form, args...)
}
