package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// AgentRelease is a signed and verified release of the agent.
type AgentRelease struct {
	Version    string
	Digest     string // sha256:… of the manifest
	Channel    string
	Reference  string // HOST[:PORT]/REPOSITORY of a registry; empty: this broker stores the parts
	PlainHTTP  bool   // the registry speaks no TLS
	Manifest   []byte
	Statement  []byte
	Signatures []release.Signature
	KeyID      string // of the release key that verified the release

	StatementPart string // sha256:…
	LayerPart     string
	LayerSize     int64

	PublishedBy, RevokedBy string
	RevokedReason          string
	PublishedAt, RevokedAt time.Time // RevokedAt is zero unless revoked
}

// Revoked reports whether the release must not be given to nodes any more.
func (r *AgentRelease) Revoked() bool { return !r.RevokedAt.IsZero() }

const agentReleaseColumns = `version, digest, channel, reference, plain_http, manifest, statement, signatures, key_id, statement_part, layer_part, layer_size,
	published_by, published_at, revoked_by, revoked_reason, revoked_at`

func scanAgentRelease(row sqlkit.Row) (r AgentRelease, err error) {
	err = row.Scan(&r.Version, &r.Digest, &r.Channel, &r.Reference, &r.PlainHTTP, &r.Manifest, &r.Statement, sqlkit.ScanJSON(&r.Signatures),
		&r.KeyID, &r.StatementPart, &r.LayerPart, &r.LayerSize,
		&r.PublishedBy, sqlkit.ScanMicros(&r.PublishedAt), &r.RevokedBy, &r.RevokedReason, sqlkit.ScanMicros(&r.RevokedAt))
	return r, err
}

// PublishRelease stores a release that the caller has verified, audited. Publishing the same
// release again changes only its location, channel and signatures. Codes: release_version_taken,
// release_revoked, release_part_missing.
func (db *DB) PublishRelease(ctx context.Context, actor broker.Actor, r AgentRelease) (kept AgentRelease, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if r.Reference == "" {
			if err := t.hasParts(ctx, r); err != nil {
				return err
			}
		}
		n, err := sqlkit.Changed(t.ExecContext(ctx,
			`INSERT INTO agent_releases (version, digest, channel, reference, plain_http, manifest, statement, signatures, key_id,
			statement_part, layer_part, layer_size, published_by, published_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING`,
			r.Version, r.Digest, r.Channel, r.Reference, r.PlainHTTP, r.Manifest, r.Statement, sqlkit.JSON(r.Signatures), r.KeyID,
			r.StatementPart, r.LayerPart, r.LayerSize, actor.Name, sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		had, err := agentRelease(ctx, t, r.Version, t.ForUpdate())
		switch {
		case err != nil:
			return err
		case had.Digest != r.Digest:
			return broker.Errorf(broker.Refused, "release_version_taken",
				"cannot publish agent release %s: this version is already published with digest %s, and the new digest is %s (choose another version)", r.Version, had.Digest, r.Digest)
		case had.Revoked():
			return broker.Errorf(broker.Refused, string(release.CodeRevoked),
				"cannot publish agent release %s: this version was revoked by %s: %s (choose another version)", r.Version, had.RevokedBy,
				had.RevokedReason)
		}
		if n == 0 {
			if _, err := t.ExecContext(ctx,
				`UPDATE agent_releases SET channel = $2, reference = $3, plain_http = $4, signatures = $5, key_id = $6 WHERE version = $1`,
				r.Version, r.Channel, r.Reference, r.PlainHTTP, sqlkit.JSON(r.Signatures), r.KeyID); err != nil {
				return err
			}
		}
		if kept, err = agentRelease(ctx, t, r.Version, ""); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "release.publish", Subject: "release/" + r.Version,
			After: small("digest", r.Digest, "channel", r.Channel, "reference", r.Reference, "key", r.KeyID),
		})
	})
	return kept, err
}

func (t *tx) hasParts(ctx context.Context, r AgentRelease) error {
	for _, part := range []string{r.Digest, r.StatementPart, r.LayerPart} {
		var there int
		if err := t.QueryRowContext(ctx, `SELECT count(*) FROM packages WHERE digest = $1`, part).Scan(&there); err != nil {
			return err
		}
		if there == 0 {
			return broker.Errorf(broker.Refused, "release_part_missing",
				"cannot publish agent release %s: this broker does not store its part %s (upload the part, or name the registry that has it)", r.Version, part)
		}
	}
	return nil
}

// sweepParts deletes old parts that no release names, and keeps the part just uploaded for another
// uploadLife.
func (t *tx) sweepParts(ctx context.Context, digest string) error {
	if _, err := t.ExecContext(ctx, `UPDATE packages SET published_at = $2 WHERE digest = $1 AND part`, digest,
		sqlkit.Micros(t.now)); err != nil {
		return err
	}
	_, err := t.ExecContext(ctx, `DELETE FROM packages WHERE part AND published_at < $1 AND NOT EXISTS
		(SELECT 1 FROM agent_releases r WHERE packages.digest IN (r.digest, r.statement_part, r.layer_part))`, sqlkit.Micros(t.now.Add(-uploadLife)))
	return err
}

// AgentRelease reads a release. Code: agent_release_unknown.
func (db *DB) AgentRelease(ctx context.Context, version string) (AgentRelease, error) {
	return agentRelease(ctx, db.reader(), version, "")
}

func agentRelease(ctx context.Context, r sqlkit.Runner, version, lock string) (AgentRelease, error) {
	found, err := scanAgentRelease(r.QueryRowContext(ctx, `SELECT `+agentReleaseColumns+` FROM agent_releases WHERE version = $1`+lock,
		version))
	if errors.Is(err, sql.ErrNoRows) {
		return found, broker.Errorf(broker.NotFound, "agent_release_unknown",
			"there is no signed agent release %q (see hostler agent-release list)", taskcatalog.Clean(version, 64))
	}
	return found, err
}

// AgentReleases lists the releases of a channel (empty: all), newest first.
func (db *DB) AgentReleases(ctx context.Context, channel string) ([]AgentRelease, error) {
	return sqlkit.Collect(ctx, db.reader(), scanAgentRelease,
		`SELECT `+agentReleaseColumns+` FROM agent_releases WHERE $1 = '' OR channel = $1 ORDER BY published_at DESC, version`, channel)
}

// RevokeRelease stops a release from being given to nodes, audited. The first revocation stands,
// and is returned. Code: agent_release_unknown.
func (db *DB) RevokeRelease(ctx context.Context, actor broker.Actor, version, reason string) (kept AgentRelease, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := sqlkit.Changed(t.ExecContext(ctx,
			`UPDATE agent_releases SET revoked_by = $2, revoked_reason = $3, revoked_at = $4 WHERE version = $1 AND revoked_at = 0`,
			version, actor.Name, reason, sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		if kept, err = agentRelease(ctx, t, version, ""); err != nil || n == 0 {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "release.revoke", Subject: "release/" + version, Reason: reason,
			After: small("digest", kept.Digest),
		})
	})
	return kept, err
}

// ReleaseFloor is the lowest version that a node gets without a request for a rollback.
type ReleaseFloor struct {
	Version    string // empty: no floor is set
	By, Reason string
	At         time.Time
}

// ReleaseFloor reads the floor.
func (db *DB) ReleaseFloor(ctx context.Context) (ReleaseFloor, error) {
	return releaseFloor(ctx, db.reader())
}

func releaseFloor(ctx context.Context, r sqlkit.Runner) (f ReleaseFloor, err error) {
	err = r.QueryRowContext(ctx, `SELECT version, set_by, reason, set_at FROM agent_release_floor`).Scan(&f.Version, &f.By, &f.Reason,
		sqlkit.ScanMicros(&f.At))
	if errors.Is(err, sql.ErrNoRows) {
		return f, nil
	}
	return f, err
}

// SetReleaseFloor sets the floor, audited with the previous floor.
func (db *DB) SetReleaseFloor(ctx context.Context, actor broker.Actor, version, reason string) (set ReleaseFloor, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := releaseFloor(ctx, t)
		if err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO agent_release_floor (one, version, set_by, reason, set_at) VALUES (1, $1, $2, $3, $4)
			ON CONFLICT (one) DO UPDATE SET version = excluded.version, set_by = excluded.set_by, reason = excluded.reason, set_at = excluded.set_at`,
			version, actor.Name, reason, sqlkit.Micros(t.now)); err != nil {
			return err
		}
		if set, err = releaseFloor(ctx, t); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "release.floor", Subject: "release/" + version, Reason: reason,
			Before: small("version", before.Version), After: small("version", version),
		})
	})
	return set, err
}
