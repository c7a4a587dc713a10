package store

import (
	"context"
	"database/sql"
	"os"

	"github.com/hostler/hostler/broker"
)

// Snapshot writes the state of the SQLite database at path from, at one moment, to the new file to.
// Snapshot may run beside a running broker: writers go on. The schema is unchanged. Codes:
// disk_full, store_unavailable.
func Snapshot(ctx context.Context, from, to string) (err error) {
	defer func() { err = sqliteError(err, from) }()
	if _, err := os.Stat(from); err != nil {
		return err
	}
	// SQLite would create the file with the umask's mode.
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

// CheckFile reads the schema version of a SQLite database that no process has open, and runs
// SQLite's integrity check. Code: store_unavailable.
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
