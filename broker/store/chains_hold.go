package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const holdColumns = `site, kind, reason, placed_by, since, until_at`

func scanHold(row sqlkit.Row) (h chain.SiteHold, err error) {
	err = row.Scan(&h.Site, &h.Kind, &h.Reason, &h.By, sqlkit.ScanMicros(&h.Since), sqlkit.ScanMicros(&h.Until))
	return h, err
}

// Holds implements chain.Store.
func (db *DB) Holds(ctx context.Context, site string, endedAfter time.Time) ([]chain.SiteHold, error) {
	return sqlkit.Collect(ctx, db.reader(), scanHold, `SELECT `+holdColumns+` FROM chain_holds
		WHERE ($1 = '*' OR site = '' OR site = $1) AND (until_at = 0 OR until_at > $2) ORDER BY id`, site, sqlkit.Micros(endedAfter))
}

// PlaceHold implements chain.Store.
func (db *DB) PlaceHold(ctx context.Context, actor chain.Actor, h chain.SiteHold) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error { return t.placeHold(ctx, actor, h) })
}

func (t *tx) placeHold(ctx context.Context, actor chain.Actor, h chain.SiteHold) error {
	if h.Kind == chain.Freeze {
		if err := t.shutOut(ctx); err != nil {
			return err
		}
	}
	h.By, h.Since = actor.Name, t.now
	n, err := sqlkit.Changed(t.ExecContext(ctx,
		`INSERT INTO chain_holds (site, kind, reason, placed_by, since, probe_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT DO NOTHING`, h.Site, string(h.Kind), h.Reason, h.By, sqlkit.Micros(t.now), sqlkit.Micros(t.now.Add(chain.ProbeEvery))))
	if err != nil || n == 0 {
		return err // the hold exists already and was announced
	}
	if h.Kind != chain.Unreachable {
		t.hint(HintNode, "")
	}
	if err := t.send(ctx, told{Message: h.Placed(), Site: cmp.Or(h.Site, AllSites), CorrelationID: correlationOf(ctx)}); err != nil {
		return err
	}
	return t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: h.Kind.Action(), Subject: h.About(), Reason: h.Reason,
		After: small("role", actor.Role),
	})
}

// LiftHold implements chain.Store.
func (db *DB) LiftHold(ctx context.Context, actor chain.Actor, site string, kind chain.HoldKind, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error { return t.liftHold(ctx, actor, site, kind, anybody, reason) })
}

// anybody matches holds whoever placed them.
const anybody = "*"

// liftHold ends the holds placed by the given actor, and spreads the due times of the runs that
// waited for them. Each lifted hold is announced again.
func (t *tx) liftHold(ctx context.Context, actor chain.Actor, site string, kind chain.HoldKind, by, reason string) error {
	lifted, err := sqlkit.Collect(ctx, t, scanHold,
		`UPDATE chain_holds SET until_at = $1 WHERE site = $2 AND kind = $3 AND until_at = 0 AND ($4 = '*' OR placed_by = $4) RETURNING `+
			holdColumns,
		sqlkit.Micros(t.now), site, string(kind), by)
	if err != nil || len(lifted) == 0 {
		return err
	}
	if kind != chain.Unreachable {
		t.hint(HintNode, "")
	}
	slices.SortStableFunc(lifted, func(a, b chain.SiteHold) int { return a.Since.Compare(b.Since) })
	var standing int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM chain_holds WHERE until_at = 0 AND site = $1 AND kind = $2`, site,
		string(kind)).Scan(&standing); err != nil {
		return err
	}
	for _, h := range lifted {
		if err := t.send(ctx, told{
			Message: h.Lifted(standing), Site: cmp.Or(site, AllSites),
			CorrelationID: correlationOf(ctx),
		}); err != nil {
			return err
		}
		if err := t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: kind.Lifting(), Subject: h.About(), Reason: reason,
			Before: small("reason", h.Reason, "since", h.Since, "by", h.By), After: small("role", actor.Role, "still_standing", standing),
		}); err != nil {
			return err
		}
	}
	if standing > 0 {
		return nil
	}
	if kind == chain.Unreachable { // a site that is unfrozen may still be unreachable
		if _, err := t.ExecContext(ctx, `UPDATE chain_runs SET held = FALSE WHERE held AND site = $1`, site); err != nil {
			return err
		}
	}
	if _, err := t.ExecContext(ctx,
		`UPDATE chain_runs SET due_at = CASE WHEN lease_until > $1 OR due_at > $1 + spread * $2 THEN due_at ELSE $1 + spread * $2 END
		WHERE `+openRuns+
			` AND status IN ('pending', 'running', 'compensating') AND ($3 = '' OR site = $3)`, sqlkit.Micros(t.now),
		chain.SpreadOver.Microseconds()/1000, site); err != nil {
		return err
	}
	t.hint(HintRun, "")
	if kind == chain.Freeze {
		return t.wakeFrozen(ctx, site)
	}
	return nil
}
