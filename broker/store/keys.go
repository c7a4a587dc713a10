package store

import (
	"context"

	"github.com/hostler/hostler/broker"
)

// BindKeys ties the database to a broker's keys: ids and fingerprints by name.
// The first to come are recorded; after that a broker with others is refused.
// Codes: key_mismatch.
func (db *DB) BindKeys(ctx context.Context, keys map[string]string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		for _, name := range sortedKeys(keys) {
			if _, err := t.ExecContext(ctx, `INSERT INTO bound_keys (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, keys[name]); err != nil {
				return err
			}
		}
		bound, err := boundKeys(ctx, t)
		if err != nil {
			return err
		}
		for _, name := range sortedKeys(keys) {
			if bound[name] != keys[name] {
				return broker.Errorf(broker.Refused, "key_mismatch", "cannot use this database: it belongs to a broker whose %s is %s, and this one's is %s (give every replica the same keys)", name, bound[name], keys[name])
			}
		}
		return nil
	})
}

// RebindKeys replaces some of the bound keys: a rotation.
func (db *DB) RebindKeys(ctx context.Context, actor broker.Actor, keys map[string]string, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		for _, name := range sortedKeys(keys) {
			if _, err := t.ExecContext(ctx, `INSERT INTO bound_keys (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, keys[name]); err != nil {
				return err
			}
		}
		return t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: "trust.rebind", Subject: "key/broker", Reason: reason, After: []byte(text(keys))})
	})
}

// BoundKeys is what BindKeys has recorded; empty before the first time.
func (db *DB) BoundKeys(ctx context.Context) (map[string]string, error) {
	return boundKeys(ctx, db.reader())
}

func boundKeys(ctx context.Context, r runner) (map[string]string, error) {
	rows, err := r.QueryContext(ctx, `SELECT name, value FROM bound_keys`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err says it
	keys := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		keys[name] = value
	}
	return keys, rows.Err()
}
