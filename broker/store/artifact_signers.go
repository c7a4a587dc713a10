package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// maxArtifactSigners bounds the signers: each plan with an artifact reads them all.
const maxArtifactSigners = 64

const signerColumns = `name, source, public_key, issuer, subject, subject_pattern, trusted_root, set_by, reason, set_at`

func scanSigner(row sqlkit.Row) (s broker.ArtifactSigner, err error) {
	err = row.Scan(&s.Name, &s.Source, &s.Key, &s.Issuer, &s.Subject, &s.SubjectPattern, &s.TrustedRoot, &s.SetBy, &s.Reason,
		sqlkit.ScanMicros(&s.SetAt))
	return s, err
}

// ArtifactSigners lists the signers, ordered by name.
func (db *DB) ArtifactSigners(ctx context.Context) ([]broker.ArtifactSigner, error) {
	return sqlkit.Collect(ctx, db.reader(), scanSigner, `SELECT `+signerColumns+` FROM artifact_signers ORDER BY name`)
}

// ArtifactSignerTrusts lists the signers in short, ordered by name: each look at a running operation with an
// artifact reads them all.
func (db *DB) ArtifactSignerTrusts(ctx context.Context) ([]broker.SignerTrust, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (s broker.SignerTrust, err error) {
		return s, row.Scan(&s.Name, &s.Source, &s.Trust, &s.Root)
	}, `SELECT name, source, trust, root FROM artifact_signers ORDER BY name`)
}

func (t *tx) artifactSigner(ctx context.Context, name string) (broker.ArtifactSigner, error) {
	s, err := scanSigner(t.QueryRowContext(ctx, `SELECT `+signerColumns+` FROM artifact_signers WHERE name = $1`+t.ForUpdate(), name))
	if errors.Is(err, sql.ErrNoRows) {
		return s, broker.Errorf(broker.NotFound, "artifact_signer_not_found", "there is no artifact signer %q (see hostler artifact-signer list)",
			taskcatalog.Clean(name, 64))
	}
	return s, err
}

// otherSigners are all signers but the named one. All stay locked: two removals at the same moment would each count
// on the other's signer.
func (t *tx) otherSigners(ctx context.Context, name string) ([]broker.ArtifactSigner, error) {
	all, err := sqlkit.Collect(ctx, t, scanSigner, `SELECT `+signerColumns+` FROM artifact_signers ORDER BY name`+t.ForUpdate())
	return slices.DeleteFunc(all, func(s broker.ArtifactSigner) bool { return s.Name == name }), err
}

// PutArtifactSigner sets a signer, audited, in place of the former one of the name. If the former one is of another
// source, judge decides on its removal from there, with the new one among the rest. Codes:
// too_many_artifact_signers, and those of judge.
func (db *DB) PutArtifactSigner(
	ctx context.Context, actor broker.Actor, s broker.ArtifactSigner, judge func(context.Context, SignerRemoval) error,
) (kept broker.ArtifactSigner, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{Actor: actor.Name, Action: "artifact_signer.set", Subject: "signer/" + s.Name, Reason: s.Reason}
		rest, err := t.otherSigners(ctx, s.Name)
		if err != nil {
			return err
		}
		had, err := t.artifactSigner(ctx, s.Name)
		switch {
		case err == nil:
			e.Before = signerAudit(had)
			if had.Source != s.Source {
				if err := judge(ctx, SignerRemoval{Signer: had, Rest: append(rest, s), t: t}); err != nil {
					return err
				}
			}
		case broker.AsError(err).Kind != broker.NotFound:
			return err
		default:
			var n int
			if err := t.QueryRowContext(ctx, `SELECT count(*) FROM artifact_signers`).Scan(&n); err != nil {
				return err
			}
			if n >= maxArtifactSigners {
				return broker.Errorf(broker.Refused, "too_many_artifact_signers",
					"cannot set artifact signer %s: there are %d, as many as there may be (remove one: hostler help artifact-signer remove)", s.Name, n)
			}
		}
		kept, err = scanSigner(t.QueryRowContext(ctx, `INSERT INTO artifact_signers (`+signerColumns+
			`, trust, root) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
			ON CONFLICT (name) DO UPDATE SET source = excluded.source, public_key = excluded.public_key, issuer = excluded.issuer,
			subject = excluded.subject, subject_pattern = excluded.subject_pattern, trusted_root = excluded.trusted_root,
			set_by = excluded.set_by, reason = excluded.reason, set_at = excluded.set_at, trust = excluded.trust, root = excluded.root
			RETURNING `+signerColumns,
			s.Name, s.Source, s.Key, s.Issuer, s.Subject, s.SubjectPattern, s.TrustedRoot, actor.Name, s.Reason, sqlkit.Micros(t.now),
			s.Trust(), s.Root()))
		if err != nil {
			return err
		}
		e.After = signerAudit(kept)
		return t.audit(ctx, e)
	})
	return kept, err
}

// SignerRemoval is what the removal of a signer from its source is judged by, in the transaction that removes it.
type SignerRemoval struct {
	Signer broker.ArtifactSigner
	Rest   []broker.ArtifactSigner // the other signers: none of them is removed or changed meanwhile

	t *tx
}

// Definitions are all definitions, with their content.
func (r SignerRemoval) Definitions(ctx context.Context) ([]broker.OperationDefinition, error) {
	return sqlkit.Collect(ctx, r.t, scanDefinition, `SELECT `+definitionColumns+` FROM operation_definitions ORDER BY id`)
}

// GlobalPolicy is the policy of an operation of no organisation.
func (r SignerRemoval) GlobalPolicy(ctx context.Context, operation string) (e broker.EffectiveOperationPolicy, err error) {
	return effectiveOperationPolicy(ctx, r.t, broker.Place{}, operation)
}

// RemoveArtifactSigner deletes a signer, audited, unless judge refuses that. Code: artifact_signer_not_found.
func (db *DB) RemoveArtifactSigner(
	ctx context.Context, actor broker.Actor, name, reason string, judge func(context.Context, SignerRemoval) error,
) (had broker.ArtifactSigner, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		rest, err := t.otherSigners(ctx, name)
		if err != nil {
			return err
		}
		if had, err = t.artifactSigner(ctx, name); err != nil {
			return err
		}
		if err := judge(ctx, SignerRemoval{Signer: had, Rest: rest, t: t}); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM artifact_signers WHERE name = $1`, name); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "artifact_signer.remove", Subject: "signer/" + name, Reason: reason, Before: signerAudit(had),
		})
	})
	return had, err
}

func signerAudit(s broker.ArtifactSigner) json.RawMessage {
	return small("source", s.Source, "issuer", s.Issuer, "subject", s.Subject, "subject_pattern", s.SubjectPattern, "trust", s.Trust(),
		"trusted_root", s.Root())
}
