package store

import (
	"context"
	"os"
)

// ProbeWrite reports why the database cannot be written; nil: it can. A database that is
// read-only, or whose disk is full, still answers what is only read.
func (db *DB) ProbeWrite(ctx context.Context) error {
	if err := db.room(); err != nil {
		return err
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE write_probe SET at = $1 WHERE one = 1`, micros(t.now))
		return err
	})
}

// probeRoom is how much of the disk must be free: a row that is written again finds its
// room in the log that is there, and the next transaction does not.
const probeRoom = 64 << 10

// room reports that nothing more can be kept beside the database file.
func (e *sqliteEngine) room() error {
	name := e.path + ".room"
	err := os.WriteFile(name, make([]byte, probeRoom), 0o600)
	if gone := os.Remove(name); err == nil {
		err = gone
	}
	return sqliteError(err, e.path)
}

func (e *postgresEngine) room() error { return nil } // its disk is another machine's: the row tells
