package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Leftover is a node whose secrets could not be removed when the node left.
type Leftover struct {
	NodeID, Hostname, Site string
	Since                  time.Time
}

// NoteSecretsLeft records that a node's secrets wait for removal, or that they are removed.
func (db *DB) NoteSecretsLeft(ctx context.Context, actor broker.Actor, nodeID string, left bool) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		since, only := sqlkit.Micros(t.now), `secrets_left_at = 0`
		if !left {
			since, only = 0, `secrets_left_at > 0`
		}
		moved, err := sqlkit.Changed(t.ExecContext(ctx, `UPDATE nodes SET secrets_left_at = $1 WHERE id = $2 AND `+only, since, nodeID))
		if err != nil || moved == 0 {
			return err
		}
		e := entry(actor, "node.secrets_left", nodeID)
		e.After = small("left", left)
		return t.audit(ctx, e)
	})
}

// SecretsLeft lists the leftovers, oldest first. sites nil: all.
func (db *DB) SecretsLeft(ctx context.Context, sites []string) ([]Leftover, error) {
	var w sqlkit.Where
	w.Add("secrets_left_at > 0")
	if sites != nil {
		sqlkit.In(&w, "site", sites)
	}
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (l Leftover, err error) {
		err = row.Scan(&l.NodeID, &l.Hostname, &l.Site, sqlkit.ScanMicros(&l.Since))
		return l, err
	}, `SELECT id, hostname, site, secrets_left_at FROM nodes`+w.String()+` ORDER BY secrets_left_at, id`, w.Args...)
}
