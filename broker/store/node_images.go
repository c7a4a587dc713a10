package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// RecordImage records the image that MAAS has installed on a node's machine, for an enrolment: the
// present one, or the next one, whose agent comes with the image. An agent that enrols again later
// runs on an image that is not known. A repeated call changes nothing more. Code: node_not_found.
func (db *DB) RecordImage(ctx context.Context, actor broker.Actor, nodeID string, epoch int64, i broker.NodeImage) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		was, err := nodeImage(ctx, t, nodeID)
		if err != nil {
			return err
		}
		rows, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO node_images (node_id, image, epoch, run_id, installed_at)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT (node_id) DO UPDATE SET image = excluded.image, epoch = excluded.epoch,
			run_id = excluded.run_id, installed_at = excluded.installed_at
			WHERE node_images.image <> excluded.image OR node_images.epoch <> excluded.epoch OR node_images.run_id <> excluded.run_id`,
			nodeID, i.Name, epoch, i.RunID, sqlkit.Micros(t.now)))
		if err != nil || rows == 0 {
			return err
		}
		// The agent may have enrolled, and its baseline be taken, before the run sees the end of the installation.
		if n.Epoch == epoch {
			if err := t.noteImageBaseline(ctx, n, n.EnrolledAt); err != nil {
				return err
			}
		}
		t.hint(HintNode, nodeID)
		e := entry(actor, "node.image", nodeID)
		e.CorrelationID, e.Before, e.After = i.RunID, small("image", was.Name), small("image", i.Name, "epoch", epoch)
		return t.audit(ctx, e)
	})
}

// noteImageBaseline notes the node's baseline as that of the image that runs, if the baseline was taken
// since a time.
func (t *tx) noteImageBaseline(ctx context.Context, n broker.Node, since time.Time) error {
	_, err := t.ExecContext(ctx, `INSERT INTO node_image_baselines (node_id, image, digest)
		SELECT i.node_id, i.image, b.digest FROM node_images i JOIN baselines b ON b.digest = $1
		WHERE i.node_id = $2 AND i.epoch = $3 AND i.image <> '' AND b.created_at >= $4
		ON CONFLICT (node_id, image) DO UPDATE SET digest = excluded.digest`, n.BaselineDigest, n.ID, n.Epoch, sqlkit.Micros(since))
	return err
}

// forgetImage forgets the image of a machine that MAAS has back.
func (t *tx) forgetImage(ctx context.Context, nodeID string) error {
	_, err := t.ExecContext(ctx, `UPDATE node_images SET image = '' WHERE node_id = $1`, nodeID)
	return err
}

// NodeImage reads the image of a node's present enrolment; without a name if it is not known.
func (db *DB) NodeImage(ctx context.Context, nodeID string) (broker.NodeImage, error) {
	return nodeImage(ctx, db.reader(), nodeID)
}

func nodeImage(ctx context.Context, r sqlkit.Runner, nodeID string) (i broker.NodeImage, err error) {
	err = r.QueryRowContext(ctx, `SELECT COALESCE(i.image, ''),
			COALESCE((SELECT MIN(b.image) FROM node_image_baselines b WHERE b.node_id = n.id AND b.digest = n.baseline_digest), ''),
			COALESCE((SELECT b.digest FROM node_image_baselines b WHERE b.node_id = n.id AND b.image = i.image), '')
		FROM nodes n LEFT JOIN node_images i ON i.node_id = n.id AND i.epoch = n.epoch WHERE n.id = $1`, nodeID).
		Scan(&i.Name, &i.BaselineOf, &i.BaselineDigest)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return i, err
}
