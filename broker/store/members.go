package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

const memberColumns = `id, subject, organisation_id, project_id, role, created_at, ended_at`

func scanMember(row sqlkit.Row) (m broker.Member, err error) {
	err = row.Scan(&m.ID, &m.Subject, &m.Place.OrganisationID, &m.Place.ProjectID, &m.Role, sqlkit.ScanMicros(&m.CreatedAt),
		sqlkit.ScanMicros(&m.EndedAt))
	return m, err
}

// Member finds a member by its id among the members at a place or below it. Code: member_not_found.
func (db *DB) Member(ctx context.Context, within broker.Place, id string) (broker.Member, error) {
	var w sqlkit.Where
	w.Add("id = ?", id)
	w.Equal("organisation_id", within.OrganisationID)
	w.Equal("project_id", within.ProjectID)
	m, err := scanMember(db.reader().QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members`+w.String(), w.Args...))
	if errors.Is(err, sql.ErrNoRows) {
		return m, memberNotFound(id)
	}
	return m, err
}

func memberNotFound(id string) error {
	return broker.Errorf(broker.NotFound, "member_not_found", "there is no member %q (see hostler member list)", taskcatalog.Clean(id, 64))
}

// Members returns a page of members, and the cursor of the next page.
func (db *DB) Members(ctx context.Context, p TenantPage) ([]broker.Member, string, error) {
	return pageOf(ctx, db, scanMember, func(m broker.Member) string { return m.ID },
		`SELECT `+memberColumns+` FROM members`, p.where("organisation_id", "project_id"), p.Limit)
}

// liveMember locks a member against its end until the transaction ends. Codes: member_not_found,
// member_ended.
func (t *tx) liveMember(ctx context.Context, id, lock string) (broker.Member, error) {
	m, err := scanMember(t.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members WHERE id = $1`+lock, id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return m, memberNotFound(id)
	case err == nil && !m.EndedAt.IsZero():
		return m, broker.Errorf(broker.Refused, "member_ended", "cannot change member %s: the member has ended", m.Subject)
	}
	return m, err
}

// AddMember stores a new member of a live organisation or project. Codes: organisation_not_found,
// organisation_ended, project_not_found, project_ended, member_exists.
func (db *DB) AddMember(ctx context.Context, actor broker.Actor, m broker.Member) (made broker.Member, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		made, err = t.addMember(ctx, actor, m)
		return err
	})
	return made, err
}

func (t *tx) addMember(ctx context.Context, actor broker.Actor, m broker.Member) (made broker.Member, err error) {
	if _, err := t.liveOrganisation(ctx, m.Place.OrganisationID, t.ForKeyShare()); err != nil {
		return made, err
	}
	if m.Place.ProjectID != "" {
		if p, err := t.liveProject(ctx, m.Place.ProjectID, t.ForKeyShare()); err != nil {
			return made, err
		} else if p.OrganisationID != m.Place.OrganisationID {
			return made, projectNotFound(m.Place.ProjectID)
		}
	}
	n, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO members (id, subject, organisation_id, project_id, role, created_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
		m.ID, m.Subject, m.Place.OrganisationID, m.Place.ProjectID, string(m.Role), sqlkit.Micros(t.now)))
	if err != nil {
		return made, err
	}
	if n == 0 {
		return made, broker.Errorf(broker.Refused, "member_exists",
			"cannot add member %s: a live member of that name is there (end that member first, to change its role)", m.Subject)
	}
	made = m
	made.CreatedAt = t.now
	return made, t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: "member.add", Subject: "member/" + m.ID,
		After: small("subject", m.Subject, "role", m.Role, "organisation_id", m.Place.OrganisationID, "project_id", m.Place.ProjectID),
	})
}

// bearerIsMember makes the bearer of a tenant's token a member at the token's place, or finds that
// member. Code: member_role_differs.
func (t *tx) bearerIsMember(ctx context.Context, actor broker.Actor, o broker.OperatorToken) error {
	m, err := scanMember(t.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members
		WHERE organisation_id = $1 AND project_id = $2 AND subject = $3 AND ended_at = 0`+t.ForUpdate(),
		o.Place.OrganisationID, o.Place.ProjectID, o.Name))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err := t.addMember(ctx, actor, broker.Member{
			ID: broker.NewTenantID(broker.MemberPrefix, t.now), Subject: o.Name, Place: o.Place, Role: o.Role,
		})
		return err
	case err == nil && m.Role != o.Role:
		return broker.Errorf(broker.Refused, "member_role_differs",
			"cannot create token %s with role %s: member %s has role %s (use that role, or end the member first)", o.Name, o.Role, m.ID, m.Role)
	}
	return err
}

// endToken revokes the token of a member, whose name is the member's subject.
func (t *tx) endToken(ctx context.Context, actor broker.Actor, m broker.Member, reason string) error {
	n, err := sqlkit.Changed(t.ExecContext(ctx, `UPDATE operator_tokens SET revoked_at = $1
		WHERE name = $2 AND organisation_id = $3 AND project_id = $4 AND revoked_at = 0`,
		sqlkit.Micros(t.now), m.Subject, m.Place.OrganisationID, m.Place.ProjectID))
	if err != nil || n == 0 {
		return err
	}
	t.hint(HintToken, m.Subject)
	return t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: "token.revoke", Subject: "token/" + m.Subject, Reason: reason})
}

// EndMember ends a member, the member's keys and token. Ending a member again changes nothing. Code:
// member_not_found.
func (db *DB) EndMember(ctx context.Context, actor broker.Actor, id, reason string) (m broker.Member, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		m, err = t.liveMember(ctx, id, t.ForUpdate())
		if err != nil {
			if !m.EndedAt.IsZero() {
				return nil
			}
			return err
		}
		m.EndedAt = t.now
		if err := t.endToken(ctx, actor, m, reason); err != nil {
			return err
		}
		for _, end := range []string{
			`UPDATE ssh_keys SET ended_at = $1 WHERE member_id = $2 AND ended_at = 0`,
			`UPDATE members SET ended_at = $1 WHERE id = $2`,
		} {
			if _, err := t.ExecContext(ctx, end, sqlkit.Micros(t.now), id); err != nil {
				return err
			}
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "member.end", Subject: "member/" + id, Reason: reason,
			Before: small("subject", m.Subject, "role", m.Role),
		})
	})
	return m, err
}
