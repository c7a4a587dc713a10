package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Replica is one process of a broker.
type Replica struct {
	ID   string // unique to the process
	Name string // of its machine, for people
}

// KeyGap lists the keys of the trust bundle in force that a replica lacks.
type KeyGap struct {
	Replica Replica
	Lacks   []string // use and id of each key
	SeenAt  time.Time
}

// TellKeyGap stores the keys that a replica lacks; an empty list deletes the entry. Entries that
// were not renewed for a day are deleted too.
func (db *DB) TellKeyGap(ctx context.Context, r Replica, lacks []string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		if _, err := t.ExecContext(ctx, `DELETE FROM key_gaps WHERE replica = $1 OR seen_at < $2`, r.ID,
			sqlkit.Micros(t.now.Add(-24*time.Hour))); err != nil || len(lacks) == 0 {
			return err
		}
		list, err := json.Marshal(lacks)
		if err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `INSERT INTO key_gaps (replica, name, lacks, seen_at) VALUES ($1, $2, $3, $4)`, r.ID, r.Name,
			string(list), sqlkit.Micros(t.now))
		return err
	})
}

// KeyGaps returns gaps reported after the given time, ordered by the name of the replica's machine.
func (db *DB) KeyGaps(ctx context.Context, after time.Time) ([]KeyGap, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (g KeyGap, err error) {
		var lacks json.RawMessage
		if err := row.Scan(&g.Replica.ID, &g.Replica.Name, sqlkit.ScanRawJSON(&lacks), sqlkit.ScanMicros(&g.SeenAt)); err != nil {
			return g, err
		}
		return g, json.Unmarshal(lacks, &g.Lacks)
	}, `SELECT replica, name, lacks, seen_at FROM key_gaps WHERE seen_at > $1 ORDER BY name, replica`, sqlkit.Micros(after))
}
