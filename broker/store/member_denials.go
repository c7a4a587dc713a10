package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// maxDenied is the most people that a project, or an organisation without its projects, denies at the same time
// before it denies only people who are its members.
const maxDenied = 1000

// DenyPerson denies a person who signs in at a place and below it, and ends the person's members there. A
// person who is denied there already stays so. A member is denied whatever the number of denials. Codes:
// organisation_not_found, organisation_ended, project_not_found, project_ended, denial_limit.
func (db *DB) DenyPerson(ctx context.Context, actor broker.Actor, m broker.Member, reason string) (denied broker.Member, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		denied, err = t.deny(ctx, actor, m, reason)
		return err
	})
	return denied, err
}

// deny writes the denial into the row of the person's live member at the place; without one it inserts m.
func (t *tx) deny(ctx context.Context, actor broker.Actor, m broker.Member, reason string) (denied broker.Member, err error) {
	if _, err := t.livePlace(ctx, m.Place); err != nil {
		return denied, err
	}
	denied, err = scanMember(t.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members
		WHERE subject = $1 AND organisation_id = $2 AND project_id = $3 AND denied_at > 0`, m.Subject, m.Place.OrganisationID, m.Place.ProjectID))
	already := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return denied, err
	}
	ended, wasMember, err := t.endPerson(ctx, actor, m, reason)
	if err != nil || already {
		return denied, err
	}
	if !wasMember {
		if err := t.roomToDeny(ctx, m); err != nil {
			return denied, err
		}
	}
	if denied = ended; denied.ID == "" {
		denied = m
		denied.Role, denied.CreatedAt, denied.EndedAt, denied.EndReason = "", t.now, t.now, reason
		if _, err := t.ExecContext(ctx, `INSERT INTO members (id, subject, organisation_id, project_id, role, created_at, ended_at, end_reason)
			VALUES ($1, $2, $3, $4, '', $5, $5, $6)`,
			m.ID, m.Subject, m.Place.OrganisationID, m.Place.ProjectID, sqlkit.Micros(t.now), reason); err != nil {
			return denied, err
		}
	}
	denied.DeniedAt = t.now
	if _, err := t.ExecContext(ctx, `UPDATE members SET denied_at = $1 WHERE id = $2`, sqlkit.Micros(t.now), denied.ID); err != nil {
		return denied, err
	}
	t.hint(HintToken, m.Subject)
	return denied, t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: "member.deny", Subject: "member/" + denied.ID, Reason: reason,
		After: small("subject", m.Subject, "organisation_id", m.Place.OrganisationID, "project_id", m.Place.ProjectID),
	})
}

// roomToDeny counts the denials at m's place alone, so that an admin of a project fills no other place.
// Code: denial_limit.
func (t *tx) roomToDeny(ctx context.Context, m broker.Member) error {
	var count int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM members WHERE organisation_id = $1 AND project_id = $2 AND denied_at > 0`,
		m.Place.OrganisationID, m.Place.ProjectID).Scan(&count); err != nil || count < maxDenied {
		return err
	}
	return broker.Errorf(broker.Refused, "denial_limit",
		"cannot deny %s: they are no member of that place, which already denies %d people (lift some denials first: hostler member allow)",
		m.Subject, count)
}

// endPerson ends the live members of m's subject at m's place and below it, and returns the one at the
// place itself; without an ID: there was none. wasMember reports whether there was any.
func (t *tx) endPerson(
	ctx context.Context, actor broker.Actor, m broker.Member, reason string,
) (at broker.Member, wasMember bool, err error) {
	var w sqlkit.Where
	w.Add("subject = ?", m.Subject)
	w.Equal("organisation_id", m.Place.OrganisationID)
	w.Equal("project_id", m.Place.ProjectID)
	w.Add("ended_at = 0")
	live, err := sqlkit.Collect(ctx, t, scanMember, `SELECT `+memberColumns+` FROM members`+w.String()+` ORDER BY id`, w.Args...)
	if err != nil {
		return at, false, err
	}
	for _, one := range live {
		ended, err := t.endMember(ctx, actor, one.ID, reason)
		if err != nil {
			return at, false, err
		}
		if ended.Place == m.Place {
			at = ended
		}
	}
	return at, len(live) > 0, nil
}

// AllowPerson lifts the denial of a member's row. The member stays ended: the rules of the config give the
// person what they give. Allowing again changes nothing. Code: member_not_found.
func (db *DB) AllowPerson(ctx context.Context, actor broker.Actor, id, reason string) (m broker.Member, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		m, err = scanMember(t.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members WHERE id = $1`+t.ForUpdate(), id))
		if errors.Is(err, sql.ErrNoRows) {
			return memberNotFound(id)
		} else if err != nil || m.DeniedAt.IsZero() {
			return err
		}
		m, err = t.allow(ctx, actor, m, reason)
		return err
	})
	return m, err
}

func (t *tx) allow(ctx context.Context, actor broker.Actor, m broker.Member, reason string) (broker.Member, error) {
	if _, err := t.ExecContext(ctx, `UPDATE members SET denied_at = 0 WHERE id = $1`, m.ID); err != nil {
		return m, err
	}
	before := small("subject", m.Subject, "denied_because", m.EndReason)
	m.DeniedAt = broker.Member{}.DeniedAt
	return m, t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: "member.allow", Subject: "member/" + m.ID, Reason: reason, Before: before,
	})
}

// liftFor lifts the denial that a new member would have at its own place, and refuses the member of a
// project whose person is denied in the whole organisation. Code: person_denied.
func (t *tx) liftFor(ctx context.Context, actor broker.Actor, m broker.Member) error {
	if !m.SignedIn() {
		return nil
	}
	denials, err := sqlkit.Collect(ctx, t, scanMember, deniedPerson, m.Subject, m.Place.OrganisationID, m.Place.ProjectID)
	if err != nil {
		return err
	}
	for _, d := range denials {
		if d.Place != m.Place {
			return broker.Errorf(broker.Refused, "person_denied",
				"cannot add member %s: the person is denied in the whole organisation (lift that first: hostler member allow %s)", m.Subject, d.ID)
		}
		if _, err := t.allow(ctx, actor, d, "added as a member again"); err != nil {
			return err
		}
	}
	return nil
}

// deniedPerson finds the denials of a subject that cover a place: its organisation and its project.
const deniedPerson = `SELECT ` + memberColumns + ` FROM members
	WHERE subject = $1 AND organisation_id = $2 AND project_id IN ('', $3) AND denied_at > 0`

// PersonDenied reports whether a person who signs in is denied at a place.
func (db *DB) PersonDenied(ctx context.Context, subject string, at broker.Place) (bool, error) {
	denials, err := sqlkit.Collect(ctx, db.reader(), scanMember, deniedPerson, subject, at.OrganisationID, at.ProjectID)
	return len(denials) > 0, err
}
