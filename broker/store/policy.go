package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// CleanPolicy returns a site's policy, or nil if none is set.
func (db *DB) CleanPolicy(ctx context.Context, site string) (json.RawMessage, error) {
	return cleanPolicy(ctx, db.reader(), site)
}

func cleanPolicy(ctx context.Context, r sqlkit.Runner, site string) (policy json.RawMessage, err error) {
	err = r.QueryRowContext(ctx, `SELECT policy FROM clean_policies WHERE site = $1`, site).Scan(sqlkit.ScanRawJSON(&policy))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return policy, err
}

// SetCleanPolicy replaces a site's policy.
func (db *DB) SetCleanPolicy(ctx context.Context, actor broker.Actor, site string, policy json.RawMessage, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := cleanPolicy(ctx, t, site)
		if err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO clean_policies (site, policy, updated_at) VALUES ($1, $2, $3)
			ON CONFLICT (site) DO UPDATE SET policy = excluded.policy, updated_at = excluded.updated_at`, site, string(policy), sqlkit.Micros(t.now)); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "policy.clean", Subject: "site/" + site, Reason: reason,
			Before: before, After: policy,
		})
	})
}
