package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
)

// Rotation is the replacement of one key or root by another.
type Rotation struct {
	Use        string // task, trust, statement, root …
	OldID      string
	NewID      string
	Version    int64 // of the bundle that every node must confirm
	StartedAt  time.Time
	FinishedAt time.Time // zero: nodes are still to confirm it
	LeftBehind []string  // nodes it was finished without
}

// SaveBundle keeps a trust bundle's envelope. The same once more changes
// nothing. Codes: trust_version_not_newer.
func (db *DB) SaveBundle(ctx context.Context, actor broker.Actor, version int64, envelope []byte, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		latest, has, err := latestBundle(ctx, t)
		if err != nil {
			return err
		}
		if latest == version && string(has) == string(envelope) {
			return nil
		}
		if version <= latest {
			return broker.Errorf(broker.Refused, "trust_version_not_newer", "cannot keep trust bundle version %d: version %d is in force", version, latest)
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO trust_bundles (version, envelope, created_at) VALUES ($1, $2, $3)`, version, envelope, micros(t.now)); err != nil {
			return err
		}
		id := strconv.FormatInt(version, 10)
		t.hint(HintTrust, id)
		return t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: "trust.bundle", Subject: "trust/" + id, Reason: reason})
	})
}

// Bundle reads a version's envelope. Codes: trust_version_unknown.
func (db *DB) Bundle(ctx context.Context, version int64) (envelope []byte, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT envelope FROM trust_bundles WHERE version = $1`, version).Scan(&envelope)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, broker.Errorf(broker.NotFound, "trust_version_unknown", "there is no trust bundle version %d", version)
	}
	return envelope, err
}

// LatestBundle is the one in force; version 0 where there is none yet.
func (db *DB) LatestBundle(ctx context.Context) (version int64, envelope []byte, err error) {
	return latestBundle(ctx, db.reader())
}

func latestBundle(ctx context.Context, r runner) (version int64, envelope []byte, err error) {
	err = r.QueryRowContext(ctx, `SELECT version, envelope FROM trust_bundles ORDER BY version DESC LIMIT 1`).Scan(&version, &envelope)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil, nil
	}
	return version, envelope, err
}

const rotationColumns = `key_use, version, old_id, new_id, started_at, finished_at, left_behind`

func scanRotation(row interface{ Scan(...any) error }) (Rotation, error) {
	var r Rotation
	err := row.Scan(&r.Use, &r.Version, &r.OldID, &r.NewID, at(&r.StartedAt), at(&r.FinishedAt), doc(&r.LeftBehind))
	return r, err
}

// StartRotation opens a rotation, one at a time per use. Codes: rotation_open.
func (db *DB) StartRotation(ctx context.Context, actor broker.Actor, r Rotation, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		var open int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM trust_rotations WHERE key_use = $1 AND finished_at = 0`, r.Use).Scan(&open); err != nil {
			return err
		}
		if open > 0 {
			return broker.Errorf(broker.Refused, "rotation_open", "cannot rotate the %s key: a rotation is not finished yet (see hostler trust show)", r.Use)
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO trust_rotations (key_use, version, old_id, new_id, started_at) VALUES ($1, $2, $3, $4, $5)`,
			r.Use, r.Version, r.OldID, r.NewID, micros(t.now)); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "trust.rotate", Subject: "key/" + r.Use, Reason: reason,
			Before: small("key", r.OldID), After: small("key", r.NewID, "version", r.Version),
		})
	})
}

// Rotations lists all, open ones last.
func (db *DB) Rotations(ctx context.Context) ([]Rotation, error) {
	return collect(ctx, db.reader(), scanRotation, `SELECT `+rotationColumns+` FROM trust_rotations ORDER BY finished_at = 0, started_at, key_use`)
}

// FinishRotation closes the open rotation of a use, naming whom it leaves
// behind. Codes: rotation_none.
func (db *DB) FinishRotation(ctx context.Context, actor broker.Actor, use string, leftBehind []string, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := changed(t.ExecContext(ctx, `UPDATE trust_rotations SET finished_at = $1, left_behind = $2 WHERE key_use = $3 AND finished_at = 0`,
			micros(t.now), listText(leftBehind), use))
		if err != nil {
			return err
		}
		if n == 0 {
			return broker.Errorf(broker.Refused, "rotation_none", "cannot finish the rotation of the %s key: none is open", use)
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "trust.rotation_finished", Subject: "key/" + use, Reason: reason, After: small("left_behind", leftBehind),
		})
	})
}
