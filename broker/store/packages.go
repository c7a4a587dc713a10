package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Package is an agent release stored in blocks, so that every replica serves it.
type Package struct {
	Digest      string // sha256:…
	Name        string // file name
	Version     string
	Size        int64
	PublishedBy string
	PublishedAt time.Time
	Part        bool // of a signed release: see AgentRelease
}

// OfVersion reports whether the package contains this version of the agent. The package's version
// may end in a revision of its own and writes - as ~.
func (p Package) OfVersion(agent string) bool {
	of := func(version string) bool { return version == agent || strings.Replace(version, "~", "-", 1) == agent }
	i := strings.LastIndexByte(p.Version, '-')
	return of(p.Version) || i > 0 && strings.Trim(p.Version[i+1:], "0123456789") == "" && of(p.Version[:i])
}

const (
	blockSize = 1 << 20
	// uploadLife is the age after which blocks of an unfinished upload, and parts that no release
	// names, are deleted.
	uploadLife = 24 * time.Hour
)

const packageColumns = `digest, name, version, size, published_by, published_at, part`

func scanPackage(row sqlkit.Row) (Package, error) {
	var p Package
	err := row.Scan(&p.Digest, &p.Name, &p.Version, &p.Size, &p.PublishedBy, sqlkit.ScanMicros(&p.PublishedAt), &p.Part)
	return p, err
}

// PutPackage reads r to its end into the store. The package exists only when complete. If p.Digest
// is set, other content is refused. An existing package stays. Codes: digest_mismatch,
// package_empty.
func (db *DB) PutPackage(ctx context.Context, actor broker.Actor, p Package, r io.Reader) (Package, error) {
	upload := rand.Text()
	digest, size, err := db.putBlocks(ctx, upload, r)
	if err == nil && size == 0 {
		err = broker.Errorf(broker.Invalid, "package_empty", "cannot publish %s: it is empty", p.Name)
	}
	if err == nil && p.Digest != "" && p.Digest != digest {
		err = broker.Errorf(broker.Invalid, "digest_mismatch", "cannot publish %s: its digest is %s, not %s", p.Name, digest, p.Digest)
	}
	if err != nil {
		return Package{}, errors.Join(err, db.dropUpload(context.WithoutCancel(ctx), upload))
	}
	p.Digest, p.Size, p.PublishedBy = digest, size, actor.Name
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		p.PublishedAt = t.now
		n, err := sqlkit.Changed(t.ExecContext(ctx,
			`INSERT INTO packages (digest, upload, name, version, size, published_by, published_at, part)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (digest) DO NOTHING`, digest, upload, p.Name, p.Version, size, actor.Name, sqlkit.Micros(t.now), p.Part))
		if err != nil {
			return err
		}
		if err := t.sweepParts(ctx, digest); err != nil {
			return err
		}
		// Blocks of uploads that never ended, and of this upload if the package existed.
		if _, err := t.ExecContext(ctx,
			`DELETE FROM package_blocks WHERE upload NOT IN (SELECT upload FROM packages) AND (upload = $1 OR at < $2)`,
			upload, sqlkit.Micros(t.now.Add(-uploadLife))); err != nil || n == 0 {
			return err
		}
		if p.Part {
			return nil // the release that names the part is audited
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "release.publish", Subject: "package/" + digest,
			After: small("name", p.Name, "version", p.Version, "size", size),
		})
	})
	if err != nil {
		return Package{}, err
	}
	return db.pkg(ctx, digest)
}

func (db *DB) putBlocks(ctx context.Context, upload string, r io.Reader) (digest string, size int64, err error) {
	hash := sha256.New()
	for n := 0; ; n++ {
		block := make([]byte, blockSize)
		got, err := io.ReadFull(r, block)
		if got > 0 {
			hash.Write(block[:got])
			size += int64(got)
			if err := db.write(ctx, func(ctx context.Context, t *tx) error {
				_, err := t.ExecContext(ctx, `INSERT INTO package_blocks (upload, n, at, data) VALUES ($1, $2, $3, $4)`, upload, n,
					sqlkit.Micros(t.now), block[:got])
				return err
			}); err != nil {
				return "", 0, err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return "sha256:" + hex.EncodeToString(hash.Sum(nil)), size, nil
		case err != nil:
			return "", 0, fmt.Errorf("cannot read the package: %w", err)
		}
	}
}

func (db *DB) dropUpload(ctx context.Context, upload string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `DELETE FROM package_blocks WHERE upload = $1`, upload)
		return err
	})
}

func (db *DB) pkg(ctx context.Context, digest string) (Package, error) {
	p, err := scanPackage(db.reader().QueryRowContext(ctx, `SELECT `+packageColumns+` FROM packages WHERE digest = $1`, digest))
	if errors.Is(err, sql.ErrNoRows) {
		return p, broker.Errorf(broker.NotFound, "package_not_found", "there is no package %q (see hostler agent-release list)", digest)
	}
	return p, err
}

// OpenPackage opens a package for reading, block by block, with ctx. Codes: package_not_found.
func (db *DB) OpenPackage(ctx context.Context, digest string) (Package, io.ReadSeeker, error) {
	p, err := db.pkg(ctx, digest)
	if err != nil {
		return p, nil, err
	}
	var upload string
	if err := db.reader().QueryRowContext(ctx, `SELECT upload FROM packages WHERE digest = $1`, digest).Scan(&upload); err != nil {
		return p, nil, err
	}
	return p, io.NewSectionReader(&blockReader{ctx: ctx, r: db.reader(), upload: upload, n: -1}, 0, p.Size), nil
}

// Packages lists all packages that are not parts of releases, newest first.
func (db *DB) Packages(ctx context.Context) ([]Package, error) {
	return sqlkit.Collect(ctx, db.reader(), scanPackage,
		`SELECT `+packageColumns+` FROM packages WHERE NOT part ORDER BY published_at DESC, digest`)
}

// NewestPackage returns the package for a new machine of an architecture: the last published
// package whose version is neither revoked nor below the floor; nil: none. withheld is the number
// of newer packages passed over.
func (db *DB) NewestPackage(ctx context.Context, arch string) (p *Package, withheld int, err error) {
	all, err := db.Packages(ctx)
	if err != nil {
		return nil, 0, err
	}
	releases, err := db.AgentReleases(ctx, "")
	if err != nil {
		return nil, 0, err
	}
	floor, err := db.ReleaseFloor(ctx)
	if err != nil {
		return nil, 0, err
	}
	for i, p := range all {
		revoked := func(r AgentRelease) bool { return r.Revoked() && p.OfVersion(r.Version) }
		switch {
		case !strings.HasSuffix(p.Name, "_"+arch+".deb"):
		case p.below(floor.Version), slices.ContainsFunc(releases, revoked):
			withheld++
		default:
			return &all[i], withheld, nil
		}
	}
	return nil, withheld, nil
}

// below reports whether the package's version is below the floor. A version that cannot be compared
// counts as below.
func (p Package) below(floor string) bool {
	if floor == "" {
		return false
	}
	version := strings.Replace(p.Version, "~", "-", 1)
	if i := strings.LastIndexByte(version, '-'); i > 0 && strings.Trim(version[i+1:], "0123456789") == "" {
		version = version[:i] // the revision
	}
	return !release.ValidVersion(version) || release.Compare(version, floor) < 0
}

// readSize is how much of a block a reader holds. Any caller may open a package and leave it
// unread, so a reader must stay small.
const readSize = 64 << 10

// blockReader holds a piece of a block at a time. It is for a single goroutine.
type blockReader struct {
	ctx    context.Context
	r      sqlkit.Runner
	upload string
	n      int64 // of the piece, among the pieces of all blocks
	piece  []byte
}

func (b *blockReader) ReadAt(p []byte, off int64) (int, error) {
	if n := off / readSize; n != b.n {
		block, from := n*readSize/blockSize, n*readSize%blockSize
		err := b.r.QueryRowContext(b.ctx, `SELECT substr(data, $3, $4) FROM package_blocks WHERE upload = $1 AND n = $2`, b.upload, block,
			from+1, readSize).Scan(&b.piece)
		if err != nil {
			b.n = -1
			return 0, fmt.Errorf("cannot read block %d of the package: %w", block, err)
		}
		b.n = n
	}
	at := off % readSize
	if at >= int64(len(b.piece)) {
		return 0, io.EOF
	}
	// Short at the end of a piece: the caller reads again.
	return copy(p, b.piece[at:]), nil
}
