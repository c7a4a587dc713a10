package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// The most that there may be at the same time.
const (
	maxMembers      = 1000 // of an organisation, with those of its projects
	maxMemberTokens = 8    // of a member
)

const memberColumns = `id, subject, organisation_id, project_id, role, created_at, ended_at, denied_at, end_reason`

func scanMember(row sqlkit.Row) (m broker.Member, err error) {
	err = row.Scan(&m.ID, &m.Subject, &m.Place.OrganisationID, &m.Place.ProjectID, &m.Role, sqlkit.ScanMicros(&m.CreatedAt),
		sqlkit.ScanMicros(&m.EndedAt), sqlkit.ScanMicros(&m.DeniedAt), &m.EndReason)
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

// Members returns a page of members, and the cursor of the next page. A denied person is on it although
// the member has ended.
func (db *DB) Members(ctx context.Context, p TenantPage) ([]broker.Member, string, error) {
	all := p
	all.Ended = true
	w := all.where("organisation_id", "project_id")
	if !p.Ended {
		w.Add("(ended_at = 0 OR denied_at > 0)")
	}
	return pageOf(ctx, db, scanMember, func(m broker.Member) string { return m.ID }, `SELECT `+memberColumns+` FROM members`, w, p.Limit)
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

// AddMember stores a new member of a live organisation or project, and lifts a denial of that person at
// that place. Codes: organisation_not_found, organisation_ended, project_not_found, project_ended,
// member_exists, member_limit, person_denied.
func (db *DB) AddMember(ctx context.Context, actor broker.Actor, m broker.Member) (made broker.Member, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		made, err = t.addMember(ctx, actor, m)
		return err
	})
	return made, err
}

func (t *tx) addMember(ctx context.Context, actor broker.Actor, m broker.Member) (made broker.Member, err error) {
	o, err := t.livePlace(ctx, m.Place)
	if err != nil {
		return made, err
	}
	if err := t.liftFor(ctx, actor, m); err != nil {
		return made, err
	}
	var live int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM members WHERE organisation_id = $1 AND ended_at = 0`, o.ID).Scan(&live); err != nil {
		return made, err
	}
	if live >= maxMembers {
		return made, broker.Errorf(broker.Refused, "member_limit", "cannot add member %s: organisation %s has %d members (end some first)",
			m.Subject, o.Name, live)
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

// livePlace locks the organisation of a place, so that its members are counted one change after another,
// and keeps the place from ending. Codes: organisation_not_found, organisation_ended, project_not_found,
// project_ended.
func (t *tx) livePlace(ctx context.Context, at broker.Place) (broker.Organisation, error) {
	o, err := t.liveOrganisation(ctx, at.OrganisationID, t.ForUpdate())
	if err != nil || at.ProjectID == "" {
		return o, err
	}
	p, err := t.liveProject(ctx, at.ProjectID, t.ForKeyShare())
	if err == nil && p.OrganisationID != at.OrganisationID {
		err = projectNotFound(at.ProjectID)
	}
	return o, err
}

// memberOf returns the member of a tenant's token: the named one, the one of the token's name, or a
// new one of that name. Codes: member_not_found, member_ended, member_role_differs, member_token_limit
// and those of addMember.
func (t *tx) memberOf(ctx context.Context, actor broker.Actor, o broker.OperatorToken) (m broker.Member, err error) {
	if o.MemberID != "" {
		if m, err = t.liveMember(ctx, o.MemberID, t.ForUpdate()); err != nil {
			return m, err
		}
		if m.Place != o.Place {
			return m, memberNotFound(o.MemberID)
		}
	} else {
		m, err = scanMember(t.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members
			WHERE organisation_id = $1 AND project_id = $2 AND subject = $3 AND ended_at = 0`+t.ForUpdate(),
			o.Place.OrganisationID, o.Place.ProjectID, o.Name))
		if errors.Is(err, sql.ErrNoRows) {
			return t.addMember(ctx, actor, broker.Member{
				ID: broker.NewTenantID(broker.MemberPrefix, t.now), Subject: o.Name, Place: o.Place, Role: o.Role,
			})
		} else if err != nil {
			return m, err
		}
	}
	if m.Role != o.Role {
		return m, broker.Errorf(broker.Refused, "member_role_differs",
			"cannot create token %s with role %s: member %s has role %s (use that role, or end the member first)", o.Name, o.Role, m.ID, m.Role)
	}
	tokens, err := t.tokensOf(ctx, m)
	live := slices.DeleteFunc(tokens, func(o broker.OperatorToken) bool { return !o.ExpiresAt.IsZero() && !t.now.Before(o.ExpiresAt) })
	if err == nil && len(live) >= maxMemberTokens {
		return m, broker.Errorf(broker.Refused, "member_token_limit",
			"cannot create token %s: member %s has %d tokens (revoke one first)", o.Name, m.ID, len(live))
	}
	return m, err
}

// tokensOf returns a member's tokens that are not revoked. A token that a broker of before 0084 made
// names no member: it is of the member of its name, unless another member of that name lives.
func (t *tx) tokensOf(ctx context.Context, m broker.Member) ([]broker.OperatorToken, error) {
	return sqlkit.Collect(ctx, t, scanOperator, `SELECT `+operatorColumns+` FROM operator_tokens WHERE revoked_at = 0
		AND (member_id = $1 OR member_id = '' AND name = $2 AND organisation_id = $3 AND project_id = $4
			AND NOT EXISTS (SELECT 1 FROM members WHERE subject = $2 AND organisation_id = $3 AND project_id = $4
				AND ended_at = 0 AND id <> $1))
		ORDER BY name`+t.ForUpdate(), m.ID, m.Subject, m.Place.OrganisationID, m.Place.ProjectID)
}

// endTokens revokes a member's tokens.
func (t *tx) endTokens(ctx context.Context, actor broker.Actor, m broker.Member, reason string) error {
	tokens, err := t.tokensOf(ctx, m)
	if err != nil {
		return err
	}
	for _, o := range tokens {
		if _, err := t.ExecContext(ctx, `UPDATE operator_tokens SET revoked_at = $1 WHERE name = $2`, sqlkit.Micros(t.now), o.Name); err != nil {
			return err
		}
		t.hint(HintToken, o.Name)
		if err := t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: "token.revoke", Subject: "token/" + o.Name, Reason: reason}); err != nil {
			return err
		}
	}
	return nil
}

// EndMember ends a member, the member's keys and tokens, and denies a person who signs in. Ending a member
// again ends only tokens that a broker of the release before made since then. Code: member_not_found.
func (db *DB) EndMember(ctx context.Context, actor broker.Actor, id, reason string) (m broker.Member, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		m, err = t.liveMember(ctx, id, "")
		if err == nil && m.SignedIn() {
			m, err = t.deny(ctx, actor, m, reason)
			return err
		}
		m, err = t.endMember(ctx, actor, id, reason)
		return err
	})
	return m, err
}

// endMember ends a member, the member's keys and tokens.
func (t *tx) endMember(ctx context.Context, actor broker.Actor, id, reason string) (broker.Member, error) {
	m, err := t.liveMember(ctx, id, t.ForUpdate())
	if err != nil {
		if !m.EndedAt.IsZero() {
			return m, t.endTokens(ctx, actor, m, reason)
		}
		return m, err
	}
	if err := t.endTokens(ctx, actor, m, reason); err != nil {
		return m, err
	}
	m.EndedAt, m.EndReason = t.now, reason
	if _, err := t.ExecContext(ctx, `UPDATE ssh_keys SET ended_at = $1 WHERE member_id = $2 AND ended_at = 0`, sqlkit.Micros(t.now), id); err != nil {
		return m, err
	}
	if _, err := t.ExecContext(ctx, `UPDATE members SET ended_at = $1, end_reason = $2 WHERE id = $3`, sqlkit.Micros(t.now), reason, id); err != nil {
		return m, err
	}
	return m, t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: "member.end", Subject: "member/" + id, Reason: reason,
		Before: small("subject", m.Subject, "role", m.Role),
	})
}
