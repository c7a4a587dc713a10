package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// SaveBaseline stores a baseline by its digest and makes it the node's baseline.
func (db *DB) SaveBaseline(ctx context.Context, actor broker.Actor, nodeID, digest string, baseline []byte, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		return t.saveBaseline(ctx, actor, nodeID, digest, baseline, reason)
	})
}

// AcceptedBaseline is a person's decision to accept a node's baseline.
type AcceptedBaseline struct {
	Digest, By, Reason string
	At                 time.Time
}

// AcceptBaseline is SaveBaseline by a person; the decision is kept for the node's certificates.
func (db *DB) AcceptBaseline(ctx context.Context, actor broker.Actor, nodeID, digest string, baseline []byte, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil || n.BaselineDigest == digest {
			return err
		}
		if _, err := t.ExecContext(ctx,
			`INSERT INTO accepted_baselines (node_id, digest, accepted_by, reason, accepted_at) VALUES ($1, $2, $3, $4, $5)`,
			nodeID, digest, actor.Name, reason, sqlkit.Micros(t.now)); err != nil {
			return err
		}
		return t.saveBaseline(ctx, actor, nodeID, digest, baseline, reason)
	})
}

// AcceptedBaselines returns a node's accepted baselines, oldest first.
func (db *DB) AcceptedBaselines(ctx context.Context, nodeID string) ([]AcceptedBaseline, error) {
	scan := func(row sqlkit.Row) (a AcceptedBaseline, err error) {
		err = row.Scan(&a.Digest, &a.By, &a.Reason, sqlkit.ScanMicros(&a.At))
		return a, err
	}
	return sqlkit.Collect(ctx, db.reader(), scan,
		`SELECT digest, accepted_by, reason, accepted_at FROM accepted_baselines WHERE node_id = $1 ORDER BY accepted_at`, nodeID)
}

func (t *tx) saveBaseline(ctx context.Context, actor broker.Actor, nodeID, digest string, baseline []byte, reason string) error {
	n, err := node(ctx, t, nodeID, t.ForUpdate())
	if err != nil || n.BaselineDigest == digest {
		return err
	}
	if _, err := t.ExecContext(ctx, `INSERT INTO baselines (digest, baseline, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET created_at = excluded.created_at`, // else DropBaselines may miss the new use
		digest, string(baseline), sqlkit.Micros(t.now)); err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, `UPDATE nodes SET baseline_digest = $1, updated_at = $2 WHERE id = $3`, digest, sqlkit.Micros(t.now),
		nodeID); err != nil {
		return err
	}
	e := entry(actor, "node.baseline", nodeID)
	e.Reason, e.Before, e.After = reason, small("baseline", n.BaselineDigest), small("baseline", digest)
	n.BaselineDigest = digest
	if err := t.noteImageBaseline(ctx, n, time.Time{}); err != nil {
		return err
	}
	return t.audit(ctx, e)
}

// DropBaselines deletes baselines taken before a time that no node has any more: no code reads
// these baselines again, and the tasks that cleaned by them contain the signed copy. It deletes at
// most limit baselines, and returns their number.
func (db *DB) DropBaselines(ctx context.Context, before time.Time, limit int) (dropped int64, err error) {
	const old = `created_at < $1 AND digest NOT IN (SELECT baseline_digest FROM nodes)
		AND digest NOT IN (SELECT digest FROM node_image_baselines)`
	digests, err := sqlkit.Collect(ctx, db.reader(), scanText, `SELECT digest FROM baselines WHERE `+old+` ORDER BY created_at LIMIT $2`,
		sqlkit.Micros(before), limit)
	if err != nil || len(digests) == 0 {
		return 0, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		dropped = 0
		for _, digest := range digests {
			n, err := sqlkit.Changed(t.ExecContext(ctx, `DELETE FROM baselines WHERE digest = $2 AND `+old, sqlkit.Micros(before), digest))
			if err != nil {
				return err
			}
			dropped += n
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: "system", Action: "baseline.dropped", Subject: "baselines",
			After: small("baselines", dropped, "taken_before", before.UTC().Format(time.RFC3339)),
		})
	})
	return dropped, err
}

// Baseline reads a baseline by its digest. Codes: baseline_not_found.
func (db *DB) Baseline(ctx context.Context, digest string) ([]byte, error) {
	var raw string
	err := db.reader().QueryRowContext(ctx, `SELECT baseline FROM baselines WHERE digest = $1`, digest).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, broker.Errorf(broker.NotFound, "baseline_not_found", "there is no baseline %q (take one: hostler node baseline retake)",
			digest)
	}
	return []byte(raw), err
}
