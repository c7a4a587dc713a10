package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// maxKeys is how many live keys a member may have: an account of an allocation takes 64.
const maxKeys = 32

const sshKeyColumns = `id, member_id, type, public_key, fingerprint, comment, created_at, ended_at`

func scanSSHKey(row sqlkit.Row) (k broker.SSHKey, err error) {
	err = row.Scan(&k.ID, &k.MemberID, &k.Type, &k.PublicKey, &k.Fingerprint, &k.Comment, sqlkit.ScanMicros(&k.CreatedAt),
		sqlkit.ScanMicros(&k.EndedAt))
	return k, err
}

// SSHKeys returns a page of a member's keys, and the cursor of the next page.
func (db *DB) SSHKeys(ctx context.Context, memberID string, p TenantPage) ([]broker.SSHKey, string, error) {
	w := TenantPage{Ended: p.Ended, After: p.After}.where("", "")
	w.Add("member_id = ?", memberID)
	return pageOf(ctx, db, scanSSHKey, func(k broker.SSHKey) string { return k.ID },
		`SELECT `+sshKeyColumns+` FROM ssh_keys`, w, p.Limit)
}

// AddSSHKey stores a key of a live member. A key that the member has already is returned as it is.
// Codes: member_not_found, member_ended, ssh_key_limit.
func (db *DB) AddSSHKey(ctx context.Context, actor broker.Actor, k broker.SSHKey) (made broker.SSHKey, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		m, err := t.liveMember(ctx, k.MemberID, t.ForUpdate())
		if err != nil {
			return err
		}
		made, err = scanSSHKey(t.QueryRowContext(ctx,
			`SELECT `+sshKeyColumns+` FROM ssh_keys WHERE member_id = $1 AND fingerprint = $2 AND ended_at = 0`, m.ID, k.Fingerprint))
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var live int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM ssh_keys WHERE member_id = $1 AND ended_at = 0`, m.ID).Scan(&live); err != nil {
			return err
		}
		if live >= maxKeys {
			return broker.Errorf(broker.Refused, "ssh_key_limit", "cannot add a key of member %s: the member has %d keys (remove one first)",
				m.Subject, live)
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO ssh_keys (id, member_id, type, public_key, fingerprint, comment, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, k.ID, m.ID, k.Type, k.PublicKey, k.Fingerprint, k.Comment, sqlkit.Micros(t.now)); err != nil {
			return err
		}
		made = k
		made.CreatedAt = t.now
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "ssh_key.add", Subject: "member/" + m.ID, After: small("id", k.ID, "fingerprint", k.Fingerprint),
		})
	})
	return made, err
}

// EndSSHKey ends a key of a member. Ending it again changes nothing. Code: ssh_key_not_found.
func (db *DB) EndSSHKey(ctx context.Context, actor broker.Actor, memberID, id, reason string) (k broker.SSHKey, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		k, err = scanSSHKey(t.QueryRowContext(ctx,
			`SELECT `+sshKeyColumns+` FROM ssh_keys WHERE member_id = $1 AND id = $2`+t.ForUpdate(), memberID, id))
		if errors.Is(err, sql.ErrNoRows) {
			return broker.Errorf(broker.NotFound, "ssh_key_not_found", "the member has no SSH key %q (see hostler key list)",
				taskcatalog.Clean(id, 64))
		} else if err != nil || !k.EndedAt.IsZero() {
			return err
		}
		k.EndedAt = t.now
		if _, err := t.ExecContext(ctx, `UPDATE ssh_keys SET ended_at = $1 WHERE id = $2`, sqlkit.Micros(t.now), id); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "ssh_key.end", Subject: "member/" + memberID, Reason: reason,
			Before: small("id", k.ID, "fingerprint", k.Fingerprint),
		})
	})
	return k, err
}
