package store

import (
	"context"
	"os"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// ProbeWrite reports why the database cannot be written; nil: the database can be written. A
// database that is read-only, or whose disk is full, still answers reads.
func (db *DB) ProbeWrite(ctx context.Context) error {
	if err := db.engine.room(); err != nil {
		return err
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE write_probe SET at = $1 WHERE one = 1`, sqlkit.Micros(t.now))
		return err
	})
}

// probeRoom is how much of the disk must be free. Rewriting a row may still fit into the existing
// log when the next transaction does not, so the row alone proves nothing.
const probeRoom = 64 << 10

// room reports that the disk has no room for more beside the database file.
func (e *sqliteEngine) room() error {
	name := e.path + ".room"
	err := os.WriteFile(name, make([]byte, probeRoom), 0o600)
	if gone := os.Remove(name); err == nil {
		err = gone
	}
	return sqliteError(err, e.path)
}

func (e *postgresEngine) room() error { return nil } // the server's disk is on another machine: the probe row shows a full disk
