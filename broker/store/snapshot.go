package store

import (
	"context"
	"database/sql"
	"os"

	"github.com/hostler/hostler/broker"
)

// Snapshot writes the SQLite database at from, as it is at one moment, to a file that
// does not exist yet. It may run beside the broker that has the database: writers go
// on. The schema stays as it is. Codes: disk_full, store_unavailable.
func Snapshot(ctx context.Context, from, to string) (err error) {
	defer func() { err = sqliteError(err, from) }()
	if _, err := os.Stat(from); err != nil {
		return err
	}
	// SQLite would make it with the umask's mode.
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", sqliteDSN(from))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, `VACUUM INTO $1`, to)
	return err
}

// CheckFile reads the schema's version of a SQLite database that nobody has open, and
// has SQLite look whether it is whole. Code: store_unavailable.
func CheckFile(ctx context.Context, path string) (schema int64, err error) {
	db, err := sql.Open("sqlite", sqliteDSN(path))
	if err != nil {
		return 0, sqliteError(err, path)
	}
	defer func() { _ = db.Close() }()
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
		return 0, sqliteError(err, path)
	}
	if verdict != "ok" {
		return 0, broker.Errorf(broker.Unavailable, "store_unavailable", "cannot use database %s: it is damaged: %s", path, verdict)
	}
	err = db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version`).Scan(&schema)
	return schema, sqliteError(err, path)
}
