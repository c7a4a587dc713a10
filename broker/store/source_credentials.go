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

// maxSourceCredentials bounds the accounts on record: minting reads them all.
const maxSourceCredentials = 1000

const sourceColumns = `name, source, endpoint, region, key_id, vault_path, generation, set_by, reason, set_at`

func scanSource(row sqlkit.Row) (c broker.SourceCredential, err error) {
	err = row.Scan(&c.Name, &c.Source, &c.Endpoint, &c.Region, &c.KeyID, &c.VaultPath, &c.Generation, &c.SetBy, &c.Reason,
		sqlkit.ScanMicros(&c.SetAt))
	return c, err
}

// SourceCredentials lists the records, ordered by name.
func (db *DB) SourceCredentials(ctx context.Context) ([]broker.SourceCredential, error) {
	return sqlkit.Collect(ctx, db.reader(), scanSource, `SELECT `+sourceColumns+` FROM source_credentials ORDER BY name`)
}

// SourceCredential finds a record. Code: source_credential_not_found.
func (db *DB) SourceCredential(ctx context.Context, name string) (broker.SourceCredential, error) {
	return sourceCredential(ctx, db.reader(), name, "")
}

func sourceCredential(ctx context.Context, r sqlkit.Runner, name, lock string) (broker.SourceCredential, error) {
	c, err := scanSource(r.QueryRowContext(ctx, `SELECT `+sourceColumns+` FROM source_credentials WHERE name = $1`+lock, name))
	if errors.Is(err, sql.ErrNoRows) {
		return c, broker.Errorf(broker.NotFound, "source_credential_not_found",
			"there is no source credential %q (see hostler source-credential list)", taskcatalog.Clean(name, 64))
	}
	return c, err
}

// PutSourceCredential stores the record of an account, audited, replacing the previous record; the
// caller stores the secret itself at the record's path. Code: too_many_source_credentials.
func (db *DB) PutSourceCredential(
	ctx context.Context, actor broker.Actor, c broker.SourceCredential,
) (kept broker.SourceCredential, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{Actor: actor.Name, Action: "source_credential.set", Subject: "source/" + c.Name, Reason: c.Reason}
		had, err := sourceCredential(ctx, t, c.Name, t.ForUpdate())
		switch {
		case err == nil:
			e.Before = sourceAudit(had)
		case broker.AsError(err).Kind != broker.NotFound:
			return err
		default:
			var n int
			if err := t.QueryRowContext(ctx, `SELECT count(*) FROM source_credentials`).Scan(&n); err != nil {
				return err
			}
			if n >= maxSourceCredentials {
				return broker.Errorf(broker.Refused, "too_many_source_credentials",
					"cannot store source credential %s: there are %d, as many as there may be (remove one: hostler help source-credential remove)",
					c.Name, n)
			}
		}
		kept, err = scanSource(t.QueryRowContext(ctx, `INSERT INTO source_credentials (`+sourceColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (name) DO UPDATE SET source = excluded.source, endpoint = excluded.endpoint, region = excluded.region,
			key_id = excluded.key_id, generation = excluded.generation, set_by = excluded.set_by, reason = excluded.reason, set_at = excluded.set_at
			RETURNING `+sourceColumns,
			c.Name, c.Source, c.Endpoint, c.Region, c.KeyID, broker.SourceCredentialPath(c.Name), c.Generation, actor.Name, c.Reason,
			sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		e.After = sourceAudit(kept)
		return t.audit(ctx, e)
	})
	return kept, err
}

// RemoveSourceCredential deletes a record, audited; the caller deletes the secret. Code:
// source_credential_not_found.
func (db *DB) RemoveSourceCredential(
	ctx context.Context, actor broker.Actor, name, reason string,
) (had broker.SourceCredential, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if had, err = sourceCredential(ctx, t, name, t.ForUpdate()); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM source_credentials WHERE name = $1`, name); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "source_credential.remove", Subject: "source/" + name, Reason: reason, Before: sourceAudit(had),
		})
	})
	return had, err
}

func sourceAudit(c broker.SourceCredential) json.RawMessage {
	return small("source", c.Source, "endpoint", c.Endpoint, "region", c.Region, "key_id", c.KeyID)
}
