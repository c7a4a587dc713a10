package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// operatorColumns takes a token of a member who has ended as revoked: a broker of before 0084 ends a
// member without the member's further tokens.
const operatorColumns = `name, role, sites, created_at, expires_at,
	CASE WHEN revoked_at > 0 THEN revoked_at ELSE COALESCE((SELECT m.ended_at FROM members m WHERE m.id = member_id), 0) END,
	organisation_id, project_id, member_id`

func scanOperator(row sqlkit.Row) (broker.OperatorToken, error) {
	var o broker.OperatorToken
	err := row.Scan(&o.Name, &o.Role, sqlkit.ScanJSON(&o.Sites), sqlkit.ScanMicros(&o.CreatedAt), sqlkit.ScanMicros(&o.ExpiresAt),
		sqlkit.ScanMicros(&o.RevokedAt), &o.Place.OrganisationID, &o.Place.ProjectID, &o.MemberID)
	return o, err
}

// CreateOperatorToken stores a token by its hash. The name is an audit actor and is never reused. A
// token with a member is one more of that member's. Any other token at a tenant's place makes its
// bearer a member there, unless a member of that name is there already. Codes: token_name_taken,
// organisation_not_found, organisation_ended, project_not_found, project_ended, member_not_found,
// member_ended, member_limit, member_role_differs, member_token_limit.
func (db *DB) CreateOperatorToken(ctx context.Context, actor broker.Actor, o broker.OperatorToken, hash string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		var taken int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM operator_tokens WHERE name = $1`, o.Name).Scan(&taken); err != nil {
			return err
		}
		if taken > 0 {
			return broker.Errorf(broker.Refused, "token_name_taken",
				"cannot create token %s: another token has or had that name (choose another name)", o.Name)
		}
		if !o.Place.OfPlatform() {
			m, err := t.memberOf(ctx, actor, o)
			if err != nil {
				return err
			}
			o.MemberID = m.ID
		}
		if _, err := t.ExecContext(ctx,
			`INSERT INTO operator_tokens (name, hash, role, sites, created_at, expires_at, organisation_id, project_id, member_id)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			o.Name, hash, string(o.Role), listText(o.Sites), sqlkit.Micros(t.now), sqlkit.Micros(o.ExpiresAt), o.Place.OrganisationID,
			o.Place.ProjectID, o.MemberID); err != nil {
			return err
		}
		expires := "" // never
		if !o.ExpiresAt.IsZero() {
			expires = o.ExpiresAt.UTC().Format(time.RFC3339)
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "token.create", Subject: "token/" + o.Name,
			After: small("role", o.Role, "sites", o.Sites, "expires_at", expires,
				"organisation_id", o.Place.OrganisationID, "project_id", o.Place.ProjectID, "member_id", o.MemberID),
		})
	})
}

// OperatorByHash finds a token. The caller checks expiry and revocation. Codes: token_unknown.
func (db *DB) OperatorByHash(ctx context.Context, hash string) (broker.OperatorToken, error) {
	o, err := scanOperator(db.reader().QueryRowContext(ctx, `SELECT `+operatorColumns+` FROM operator_tokens WHERE hash = $1`, hash))
	if errors.Is(err, sql.ErrNoRows) {
		return o, broker.Errorf(broker.Unauthorized, "token_unknown",
			"this broker does not know the operator token (create one: hostler-broker token create)")
	}
	return o, err
}

// OperatorTokens lists all tokens, including revoked and expired tokens.
func (db *DB) OperatorTokens(ctx context.Context) ([]broker.OperatorToken, error) {
	return sqlkit.Collect(ctx, db.reader(), scanOperator, `SELECT `+operatorColumns+` FROM operator_tokens ORDER BY name`)
}

// AuditSignIn records who a person is that signs in by OIDC, and by which rule they have their role.
func (db *DB) AuditSignIn(ctx context.Context, o broker.OperatorToken, rule int) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		return t.audit(ctx, broker.AuditEntry{
			Actor: o.Name, Action: "sign_in", Subject: "token/" + o.Name,
			After: small("email", o.Email, "role", o.Role, "sites", o.Sites, "rule", rule,
				"organisation_id", o.Place.OrganisationID, "project_id", o.Place.ProjectID),
		})
	})
}

// RevokeOperatorToken revokes a token. A repeated call changes nothing. Codes: token_not_found.
func (db *DB) RevokeOperatorToken(ctx context.Context, actor broker.Actor, name, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		o, err := scanOperator(t.QueryRowContext(ctx, `SELECT `+operatorColumns+` FROM operator_tokens WHERE name = $1`+t.ForUpdate(),
			name))
		if errors.Is(err, sql.ErrNoRows) {
			return broker.Errorf(broker.NotFound, "token_not_found", "there is no operator token %q (see hostler token list)", name)
		} else if err != nil || !o.RevokedAt.IsZero() {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE operator_tokens SET revoked_at = $1 WHERE name = $2`, sqlkit.Micros(t.now),
			name); err != nil {
			return err
		}
		t.hint(HintToken, name)
		return t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: "token.revoke", Subject: "token/" + name, Reason: reason})
	})
}
