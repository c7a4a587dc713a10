package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// saveFacts stores a node's report on its hardware. nil, from a node that did not look, changes
// nothing.
func (t *tx) saveFacts(ctx context.Context, nodeID string, f *taskcatalog.Facts) error {
	if f == nil {
		return nil
	}
	_, err := t.ExecContext(ctx, `INSERT INTO node_facts (node_id, facts, reported_at) VALUES ($1, $2, $3)
		ON CONFLICT (node_id) DO UPDATE SET facts = excluded.facts, reported_at = excluded.reported_at`, nodeID, sqlkit.JSON(f), sqlkit.Micros(t.now))
	if err != nil {
		return err
	}
	if err := t.saveChassis(ctx, nodeID, *f, t.now); err != nil {
		return err
	}
	return t.compareDevices(ctx, nodeID, f)
}

// Facts returns a node's last reported facts, and the time of that report. Code facts_unknown if
// the node never reported any.
func (db *DB) Facts(ctx context.Context, nodeID string) (f taskcatalog.Facts, reportedAt time.Time, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT facts, reported_at FROM node_facts WHERE node_id = $1`, nodeID).Scan(sqlkit.ScanJSON(&f),
		sqlkit.ScanMicros(&reportedAt))
	if errors.Is(err, sql.ErrNoRows) {
		return f, reportedAt, broker.Errorf(broker.NotFound, "facts_unknown",
			"node %s has not reported any facts (its agent reports them when it starts)", nodeID)
	}
	return f, reportedAt, err
}
