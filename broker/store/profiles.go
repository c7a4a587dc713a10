package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

const profileColumns = `id, site_id, name, description, status, policy, created_at, updated_at`

// storedPolicy is the policy over which a row is read: in an older row, a setting introduced later has its
// default.
func storedPolicy() broker.Policy {
	p := broker.DefaultPolicy()
	p.StageRetries = nil
	p.AcceptMAASErase = false // a row without the setting dates from when false was the default
	return p
}

func scanProfile(row sqlkit.Row) (p broker.Profile, err error) {
	p.Policy = storedPolicy()
	err = row.Scan(&p.ID, &p.SiteID, &p.Name, &p.Description, &p.Status, sqlkit.ScanJSON(&p.Policy), sqlkit.ScanMicros(&p.CreatedAt),
		sqlkit.ScanMicros(&p.UpdatedAt))
	return p, err
}

// profile reads a profile of a site by its id or name, with a lock clause of the dialect; "" is the
// site's default profile.
func profile(ctx context.Context, r sqlkit.Runner, siteID, ref, lock string) (broker.Profile, error) {
	if ref == "" {
		if err := r.QueryRowContext(ctx, `SELECT default_profile_id FROM maas_sites WHERE id = $1`, siteID).Scan(&ref); err != nil &&
			!errors.Is(err, sql.ErrNoRows) {
			return broker.Profile{}, err
		}
	}
	p, err := scanProfile(r.QueryRowContext(ctx, `SELECT `+profileColumns+
		` FROM maas_site_profiles WHERE site_id = $1 AND (id = $2 OR name = $2)`+lock, siteID, ref))
	if errors.Is(err, sql.ErrNoRows) {
		return p, broker.Errorf(broker.NotFound, "profile_not_found", "the site has no profile %q (see hostler site profile list SITE)",
			ref)
	}
	return p, err
}

// Profile finds a profile of a site by its id or name; "" is the default profile. Code:
// profile_not_found.
func (db *DB) Profile(ctx context.Context, siteID, ref string) (broker.Profile, error) {
	return profile(ctx, db.reader(), siteID, ref, "")
}

// Profiles lists a site's profiles, ordered by name.
func (db *DB) Profiles(ctx context.Context, siteID string) ([]broker.Profile, error) {
	return sqlkit.Collect(ctx, db.reader(), scanProfile,
		`SELECT `+profileColumns+` FROM maas_site_profiles WHERE site_id = $1 ORDER BY name`, siteID)
}

// CreateProfile adds a profile to its site. Codes: site_not_found, profile_invalid, profile_exists.
func (db *DB) CreateProfile(ctx context.Context, actor broker.Actor, p broker.Profile) (made broker.Profile, err error) {
	if err := p.Check(); err != nil {
		return made, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := site(ctx, t, p.SiteID, t.ForKeyShare())
		if err != nil {
			return err
		}
		if err := t.insertProfile(ctx, actor, s, p); err != nil {
			return err
		}
		made, err = profile(ctx, t, s.ID, p.ID, "")
		return err
	})
	return made, err
}

// namesKnown refuses a SKU or a tenant that is new in a policy and not on record. A name that the policy had
// before stays accepted. Code: profile_invalid.
func (t *tx) namesKnown(ctx context.Context, before, p broker.Profile) error {
	for _, list := range []struct {
		knob, what, see, query string
		had, names             []string
	}{
		{"reimage_skus", "SKU", "sku", `SELECT COUNT(*) > 0 FROM skus WHERE id = $1`, before.Policy.ReimageSKUs, p.Policy.ReimageSKUs},
		{
			"reimage_tenants", "project or organisation", "project list and hostler org",
			`SELECT EXISTS (SELECT 1 FROM projects WHERE id = $1) OR EXISTS (SELECT 1 FROM organisations WHERE id = $1)`,
			before.Policy.ReimageTenants, p.Policy.ReimageTenants,
		},
	} {
		for _, name := range list.names {
			known := slices.Contains(list.had, name)
			if !known {
				if err := t.QueryRowContext(ctx, list.query, name).Scan(&known); err != nil {
					return err
				}
			}
			if !known {
				return broker.Errorf(broker.Invalid, "profile_invalid", "cannot store profile %s: %s names %q, and there is no %s of that id (see hostler %s list)",
					p.Name, list.knob, taskcatalog.Clean(name, 64), list.what, list.see)
			}
		}
	}
	return nil
}

func (t *tx) insertProfile(ctx context.Context, actor broker.Actor, s broker.Site, p broker.Profile) error {
	if err := t.namesKnown(ctx, broker.Profile{}, p); err != nil {
		return err
	}
	n, err := sqlkit.Changed(t.ExecContext(ctx,
		`INSERT INTO maas_site_profiles (id, site_id, name, description, status, policy, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (site_id, name) DO NOTHING`,
		p.ID, s.ID, p.Name, p.Description, string(p.Status), sqlkit.JSON(p.Policy), sqlkit.Micros(t.now)))
	if err != nil {
		return err
	}
	if n == 0 {
		return broker.Errorf(broker.Refused, "profile_exists", "cannot create profile %s: site %s already has a profile of that name",
			p.Name, s.Name)
	}
	return t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: "site.profile.create", Subject: "site/" + s.Name,
		After: profileAudit(p),
	})
}

// UpdateProfile applies change to a profile; the name cannot change. Runs that have begun continue
// with their copy. Codes: site_not_found, profile_not_found, profile_invalid, profile_is_default.
func (db *DB) UpdateProfile(
	ctx context.Context, actor broker.Actor, siteID, ref, reason string, change func(*broker.Profile) error,
) (p broker.Profile, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := site(ctx, t, siteID, t.ForUpdate()) // its default profile must stay active
		if err != nil {
			return err
		}
		before, err := profile(ctx, t, siteID, ref, t.ForUpdate())
		if err != nil {
			return err
		}
		p = before
		p.Policy.StageRetries = maps.Clone(before.Policy.StageRetries)
		// An older broker stored retries without effect.
		maps.DeleteFunc(p.Policy.StageRetries, func(stage string, _ int) bool { return !slices.Contains(broker.RetriedStages(), stage) })
		if err := change(&p); err != nil {
			return err
		}
		if err := p.Check(); err != nil {
			return err
		}
		if err := t.namesKnown(ctx, before, p); err != nil {
			return err
		}
		switch {
		case p.ID != before.ID || p.SiteID != before.SiteID || p.Name != before.Name:
			return broker.Errorf(broker.Invalid, "profile_invalid", "cannot rename profile %s: runs refer to it by that name", before.Name)
		case p.Status != broker.SiteActive && s.DefaultProfileID == p.ID:
			return broker.Errorf(broker.Refused, "profile_is_default",
				"cannot disable profile %s: it is the default of site %s (choose another default first: hostler site profile set-default %s PROFILE)", p.Name, s.Name, s.Name)
		}
		if err := t.policyChanges(ctx, before.Policy.Turnover(), p.Policy.Turnover()); err != nil {
			return err
		}
		p.UpdatedAt = t.now
		if _, err := t.ExecContext(ctx,
			`UPDATE maas_site_profiles SET description = $1, status = $2, policy = $3, updated_at = $4 WHERE id = $5`,
			p.Description, string(p.Status), sqlkit.JSON(p.Policy), sqlkit.Micros(t.now), p.ID); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "site.profile.update", Subject: "site/" + s.Name, Reason: reason,
			Before: profileAudit(before), After: profileAudit(p),
		})
	})
	return p, err
}

func profileAudit(p broker.Profile) json.RawMessage {
	return small("id", p.ID, "name", p.Name, "description", p.Description, "status", p.Status, "policy", p.Policy)
}
