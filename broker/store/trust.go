package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// SaveBundle stores a trust bundle's envelope. An identical bundle changes nothing. Codes:
// trust_version_not_newer.
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
			return broker.Errorf(broker.Refused, "trust_version_not_newer", "cannot store trust bundle version %d: version %d is in force",
				version, latest)
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO trust_bundles (version, envelope, created_at) VALUES ($1, $2, $3)`, version, envelope,
			sqlkit.Micros(t.now)); err != nil {
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

// LatestBundle returns the bundle in force; version 0: none yet.
func (db *DB) LatestBundle(ctx context.Context) (version int64, envelope []byte, err error) {
	return latestBundle(ctx, db.reader())
}

func latestBundle(ctx context.Context, r sqlkit.Runner) (version int64, envelope []byte, err error) {
	err = r.QueryRowContext(ctx, `SELECT version, envelope FROM trust_bundles ORDER BY version DESC LIMIT 1`).Scan(&version, &envelope)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil, nil
	}
	return version, envelope, err
}
