package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const roceColumns = `id, site_id, hostname, interface, ipv4_cidr, created_at, updated_at`

func scanRoCE(row sqlkit.Row) (r broker.RoCEAssignment, err error) {
	err = row.Scan(&r.ID, &r.SiteID, &r.Hostname, &r.Interface, &r.IPv4CIDR, sqlkit.ScanMicros(&r.CreatedAt),
		sqlkit.ScanMicros(&r.UpdatedAt))
	return r, err
}

// RoCEAssignments lists the assignments of a site, or of a single host (empty: all), ordered by
// host and interface.
func (db *DB) RoCEAssignments(ctx context.Context, siteID, hostname string) ([]broker.RoCEAssignment, error) {
	var w sqlkit.Where
	w.Add("site_id = ?", siteID)
	w.Equal("hostname", hostname)
	return sqlkit.Collect(ctx, db.reader(), scanRoCE, `SELECT `+roceColumns+` FROM maas_roce_assignments`+w.String()+
		` ORDER BY hostname, interface`, w.Args...)
}

// PutRoCE stores all assignments of a list or none. An interface that has an address gets the
// address from the list. Codes: site_not_found, roce_invalid, roce_address_taken.
func (db *DB) PutRoCE(
	ctx context.Context, actor broker.Actor, siteID string, items []broker.RoCEAssignment, reason string,
) (created, updated int, err error) {
	if err := broker.CheckRoCE(items); err != nil {
		return 0, 0, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := site(ctx, t, siteID, t.ForUpdate()) // one list at a time
		if err != nil {
			return err
		}
		have, err := sqlkit.Collect(ctx, t, scanRoCE, `SELECT `+roceColumns+` FROM maas_roce_assignments WHERE site_id = $1`, s.ID)
		if err != nil {
			return err
		}
		type key struct{ hostname, iface string }
		had := make(map[key]broker.RoCEAssignment, len(have))
		for _, r := range have {
			had[key{r.Hostname, r.Interface}] = r
		}
		created, updated = 0, 0
		changes := []any{}
		for _, r := range items {
			switch old, is := had[key{r.Hostname, r.Interface}]; {
			case is && old.IPv4CIDR == r.IPv4CIDR:
				continue
			case is:
				updated++
				changes = append(changes, roceChange(r, old.IPv4CIDR))
			default:
				created++
				changes = append(changes, roceChange(r, ""))
			}
			if _, err := t.ExecContext(ctx,
				`INSERT INTO maas_roce_assignments (id, site_id, hostname, interface, ipv4_cidr, address, created_at, updated_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
				ON CONFLICT (site_id, hostname, interface) DO UPDATE SET ipv4_cidr = excluded.ipv4_cidr, address = excluded.address, updated_at = excluded.updated_at`,
				r.ID, s.ID, r.Hostname, r.Interface, r.IPv4CIDR, addressOf(r), sqlkit.Micros(t.now)); err != nil {
				return err
			}
		}
		if err := t.roceTwice(ctx, s); err != nil || len(changes) == 0 {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "site.roce.set", Subject: "site/" + s.Name, Reason: reason,
			After: small("created", created, "updated", updated, "changes", changes),
		})
	})
	return created, updated, err
}

// roceTwice refuses an address that two interfaces of a site would have.
func (t *tx) roceTwice(ctx context.Context, s broker.Site) error {
	var address string
	err := t.QueryRowContext(ctx,
		`SELECT address FROM maas_roce_assignments WHERE site_id = $1 GROUP BY address HAVING COUNT(*) > 1 ORDER BY address LIMIT 1`,
		s.ID).Scan(&address)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	who, err := sqlkit.Collect(ctx, t, scanRoCE, `SELECT `+roceColumns+
		` FROM maas_roce_assignments WHERE site_id = $1 AND address = $2 ORDER BY hostname, interface`, s.ID, address)
	if err != nil {
		return err
	}
	names := []string{}
	for _, r := range who {
		names = append(names, r.Interface+" of "+r.Hostname)
	}
	return broker.Errorf(broker.Refused, "roce_address_taken",
		"cannot store RoCE assignments: address %s would belong to %s (delete one of them first)", address, strings.Join(names, " and "))
}

// RemoveRoCE deletes an assignment. Codes: site_not_found, roce_not_found.
func (db *DB) RemoveRoCE(ctx context.Context, actor broker.Actor, siteID, id, reason string) (r broker.RoCEAssignment, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := site(ctx, t, siteID, t.ForUpdate())
		if err != nil {
			return err
		}
		r, err = scanRoCE(t.QueryRowContext(ctx, `DELETE FROM maas_roce_assignments WHERE site_id = $1 AND id = $2 RETURNING `+roceColumns,
			s.ID, id))
		if errors.Is(err, sql.ErrNoRows) {
			return broker.Errorf(broker.NotFound, "roce_not_found", "site %s has no RoCE assignment %q (see hostler site roce list %s)",
				s.Name, id, s.Name)
		}
		if err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "site.roce.remove", Subject: "site/" + s.Name, Reason: reason,
			Before: roceAudit(r),
		})
	})
	return r, err
}

func addressOf(r broker.RoCEAssignment) string {
	address, _, _ := strings.Cut(r.IPv4CIDR, "/")
	return address
}

func roceChange(r broker.RoCEAssignment, before string) map[string]string {
	c := map[string]string{"hostname": r.Hostname, "interface": r.Interface, "ipv4_cidr": r.IPv4CIDR}
	if before != "" {
		c["before"] = before
	}
	return c
}

func roceAudit(r broker.RoCEAssignment) json.RawMessage {
	return small("hostname", r.Hostname, "interface", r.Interface, "ipv4_cidr", r.IPv4CIDR)
}
