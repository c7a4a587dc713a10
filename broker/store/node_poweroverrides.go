package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const overrideColumns = `id, site_id, selector_type, selector_value, vault_path, status, last_used_at, created_at, updated_at`

func scanOverride(row sqlkit.Row) (o broker.PowerOverride, err error) {
	err = row.Scan(&o.ID, &o.SiteID, &o.SelectorType, &o.SelectorValue, &o.VaultPath, &o.Status, sqlkit.ScanMicros(&o.LastUsedAt),
		sqlkit.ScanMicros(&o.CreatedAt), sqlkit.ScanMicros(&o.UpdatedAt))
	return o, err
}

// PowerOverrides lists a site's overrides, the strongest selectors first.
func (db *DB) PowerOverrides(ctx context.Context, siteID string) ([]broker.PowerOverride, error) {
	return sqlkit.Collect(ctx, db.reader(), scanOverride,
		`SELECT `+overrideColumns+` FROM maas_power_credential_overrides WHERE site_id = $1
		ORDER BY CASE selector_type WHEN 'pxe_mac' THEN 0 WHEN 'ipmi_ip' THEN 1 ELSE 2 END, selector_value`, siteID)
}

// PowerOverride finds an override of a site. Code: power_override_not_found.
func (db *DB) PowerOverride(ctx context.Context, siteID, id string) (broker.PowerOverride, error) {
	return override(ctx, db.reader(), siteID, id, "")
}

func override(ctx context.Context, r sqlkit.Runner, siteID, id, lock string) (broker.PowerOverride, error) {
	o, err := scanOverride(r.QueryRowContext(ctx, `SELECT `+overrideColumns+
		` FROM maas_power_credential_overrides WHERE site_id = $1 AND id = $2`+lock, siteID, id))
	if errors.Is(err, sql.ErrNoRows) {
		return o, broker.Errorf(broker.NotFound, "power_override_not_found",
			"the site has no power override %q (see hostler site power-override list SITE)", id)
	}
	return o, err
}

// PutPowerOverride stores an override, or makes the existing override with this selector active
// again: the caller is about to write its credentials to the stored path. Codes: site_not_found,
// power_override_invalid.
func (db *DB) PutPowerOverride(
	ctx context.Context, actor broker.Actor, o broker.PowerOverride, reason string,
) (kept broker.PowerOverride, err error) {
	if o.SelectorValue, err = broker.SelectorValue(o.SelectorType, o.SelectorValue); err != nil {
		return kept, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := site(ctx, t, o.SiteID, t.ForKeyShare())
		if err != nil {
			return err
		}
		kept, err = scanOverride(t.QueryRowContext(ctx,
			`INSERT INTO maas_power_credential_overrides (id, site_id, selector_type, selector_value, vault_path, status, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, 'active', $6, $6)
			ON CONFLICT (site_id, selector_type, selector_value) DO UPDATE SET status = 'active', updated_at = excluded.updated_at
			RETURNING `+overrideColumns, o.ID, s.ID, string(o.SelectorType), o.SelectorValue, broker.PowerOverridePath(s.ID,
				o.ID), sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "site.power_override.set", Subject: "site/" + s.Name,
			Reason: reason, After: overrideAudit(kept),
		})
	})
	return kept, err
}

// SetPowerOverrideStatus enables or disables an override. Codes: site_not_found,
// power_override_not_found.
func (db *DB) SetPowerOverrideStatus(
	ctx context.Context, actor broker.Actor, siteID, id string, status broker.SiteStatus, reason string,
) (o broker.PowerOverride, err error) {
	err = db.changeOverride(ctx, siteID, id, func(ctx context.Context, t *tx, s broker.Site, before broker.PowerOverride) error {
		o = before
		o.Status, o.UpdatedAt = status, t.now
		if _, err := t.ExecContext(ctx, `UPDATE maas_power_credential_overrides SET status = $1, updated_at = $2 WHERE id = $3`,
			string(status), sqlkit.Micros(t.now), id); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "site.power_override.update", Subject: "site/" + s.Name,
			Reason: reason, Before: overrideAudit(before), After: overrideAudit(o),
		})
	})
	return o, err
}

// RemovePowerOverride deletes an override; the caller deletes its secret. Codes: site_not_found,
// power_override_not_found.
func (db *DB) RemovePowerOverride(ctx context.Context, actor broker.Actor, siteID, id, reason string) (o broker.PowerOverride, err error) {
	err = db.changeOverride(ctx, siteID, id, func(ctx context.Context, t *tx, s broker.Site, before broker.PowerOverride) error {
		o = before
		if _, err := t.ExecContext(ctx, `DELETE FROM maas_power_credential_overrides WHERE id = $1`, id); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "site.power_override.remove", Subject: "site/" + s.Name,
			Reason: reason, Before: overrideAudit(before),
		})
	})
	return o, err
}

// UsePowerOverride finds the override that applies to a machine, and records its use. False: the
// site's default credentials apply.
func (db *DB) UsePowerOverride(ctx context.Context, siteID, pxeMAC, ipmiIP, hostname string) (broker.PowerOverride, bool, error) {
	all, err := db.PowerOverrides(ctx, siteID)
	if err != nil {
		return broker.PowerOverride{}, false, err
	}
	o, found := broker.SelectPowerOverride(all, pxeMAC, ipmiIP, hostname)
	if !found {
		return o, false, nil
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		o.LastUsedAt = t.now
		_, err := t.ExecContext(ctx, `UPDATE maas_power_credential_overrides SET last_used_at = $1 WHERE id = $2`, sqlkit.Micros(t.now),
			o.ID)
		return err
	})
	return o, true, err
}

func (db *DB) changeOverride(
	ctx context.Context, siteID, id string, change func(context.Context, *tx, broker.Site, broker.PowerOverride) error,
) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := site(ctx, t, siteID, "")
		if err != nil {
			return err
		}
		o, err := override(ctx, t, s.ID, id, t.ForUpdate())
		if err != nil {
			return err
		}
		return change(ctx, t, s, o)
	})
}

func overrideAudit(o broker.PowerOverride) json.RawMessage {
	used := ""
	if !o.LastUsedAt.IsZero() {
		used = o.LastUsedAt.Format(time.RFC3339)
	}
	return small("id", o.ID, "selector_type", o.SelectorType, "selector_value", o.SelectorValue, "status", o.Status, "last_used_at", used)
}
