package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

const registryColumns = `registry, username, plain_http, vault_path, generation, set_by, reason, set_at`

func scanRegistry(row sqlkit.Row) (c broker.RegistryCredential, err error) {
	err = row.Scan(&c.Registry, &c.Username, &c.PlainHTTP, &c.VaultPath, &c.Generation, &c.SetBy, &c.Reason, sqlkit.ScanMicros(&c.SetAt))
	return c, err
}

// RegistryCredentials lists the stored records, ordered by registry.
func (db *DB) RegistryCredentials(ctx context.Context) ([]broker.RegistryCredential, error) {
	return sqlkit.Collect(ctx, db.reader(), scanRegistry, `SELECT `+registryColumns+` FROM registry_credentials ORDER BY registry`)
}

// RegistryCredential finds the record of a registry. Code: registry_credential_not_found.
func (db *DB) RegistryCredential(ctx context.Context, registry string) (broker.RegistryCredential, error) {
	return registryCredential(ctx, db.reader(), registry, "")
}

func registryCredential(ctx context.Context, r sqlkit.Runner, registry, lock string) (broker.RegistryCredential, error) {
	c, err := scanRegistry(r.QueryRowContext(ctx, `SELECT `+registryColumns+` FROM registry_credentials WHERE registry = $1`+lock,
		registry))
	if errors.Is(err, sql.ErrNoRows) {
		return c, broker.Errorf(broker.NotFound, "registry_credential_not_found",
			"there is no credential of registry %q (see hostler registry-credential list)", taskcatalog.Clean(registry, 300))
	}
	return c, err
}

// PutRegistryCredential stores the record of an account, audited, replacing the previous record;
// the caller stores the account itself at the record's path.
func (db *DB) PutRegistryCredential(
	ctx context.Context, actor broker.Actor, c broker.RegistryCredential,
) (kept broker.RegistryCredential, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{Actor: actor.Name, Action: "registry_credential.set", Subject: "registry/" + c.Registry, Reason: c.Reason}
		switch had, err := registryCredential(ctx, t, c.Registry, t.ForUpdate()); {
		case err == nil:
			e.Before = registryAudit(had)
		case broker.AsError(err).Kind != broker.NotFound:
			return err
		}
		var err error
		kept, err = scanRegistry(t.QueryRowContext(ctx, `INSERT INTO registry_credentials (`+registryColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (registry) DO UPDATE SET username = excluded.username, plain_http = excluded.plain_http, generation = excluded.generation, set_by = excluded.set_by, reason = excluded.reason, set_at = excluded.set_at
			RETURNING `+
			registryColumns, c.Registry, c.Username, c.PlainHTTP, broker.RegistryCredentialPath(c.Registry), c.Generation, actor.Name,
			c.Reason, sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		e.After = registryAudit(kept)
		return t.audit(ctx, e)
	})
	return kept, err
}

// RemoveRegistryCredential deletes a record, audited; the caller deletes the account. Code:
// registry_credential_not_found.
func (db *DB) RemoveRegistryCredential(
	ctx context.Context, actor broker.Actor, registry, reason string,
) (had broker.RegistryCredential, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if had, err = registryCredential(ctx, t, registry, t.ForUpdate()); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM registry_credentials WHERE registry = $1`, registry); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "registry_credential.remove", Subject: "registry/" + registry,
			Reason: reason, Before: registryAudit(had),
		})
	})
	return had, err
}

func registryAudit(c broker.RegistryCredential) json.RawMessage {
	return small("username", c.Username, "plain_http", c.PlainHTTP)
}
