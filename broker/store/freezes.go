package store

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// freezeGate is what whoever hands out something that a freeze forbids passes
// with others, and whoever freezes has alone, until either commits: once a freeze
// has been answered, nothing that it forbids commits any more. Then the table
// says it.
const freezeGate = leadLock + 1

func (t *tx) passFreezes(ctx context.Context) error { return t.lock(ctx, t.gateShared()) }

// shutOut waits for those who are passing. What time it is has to be asked anew.
func (t *tx) shutOut(ctx context.Context) error {
	err := t.lock(ctx, t.gateAlone())
	t.now = t.clock()
	return err
}

func (t *tx) lock(ctx context.Context, statement string) error {
	if statement == "" {
		return nil
	}
	_, err := t.ExecContext(ctx, statement, int64(freezeGate))
	return err
}

// Freeze stops a site, or all of them where site is empty: no stage begins, and
// no destructive task is handed out. A freeze that stands already stays as it
// is; placed says whether this one is new. Codes: site_not_found.
func (db *DB) Freeze(ctx context.Context, actor broker.Actor, site, reason string) (h chain.SiteHold, placed bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.siteKnown(ctx, site); err != nil {
			return err
		}
		if err := t.shutOut(ctx); err != nil {
			return err
		}
		before, err := t.freezesOf(ctx, site)
		if err != nil {
			return err
		}
		if placed = len(before) == 0; !placed {
			h = before[0]
			return nil
		}
		h = chain.SiteHold{Site: site, Kind: chain.Freeze, Reason: reason, By: actor.Name, Since: t.now}
		return t.placeHold(ctx, chain.Actor{Name: actor.Name, Role: string(actor.Role)}, h)
	})
	return h, placed, err
}

// Unfreeze lifts the freeze of a site, or that of all, and wakes the nodes that
// have something to fetch. lifted says whether there was one. Who froze may
// lift; else it takes a platform admin, since only who pressed the button knows
// what it is waiting for. Codes: site_not_found, freeze_of_another.
func (db *DB) Unfreeze(ctx context.Context, actor broker.Actor, site, reason string) (h chain.SiteHold, lifted bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.shutOut(ctx); err != nil {
			return err
		}
		standing, err := t.freezesOf(ctx, site)
		if err != nil {
			return err
		}
		if lifted = len(standing) > 0; !lifted {
			h = chain.SiteHold{Site: site, Kind: chain.Freeze}
			return t.siteKnown(ctx, site)
		}
		h = standing[0]
		if h.By != actor.Name && !actor.Role.Covers(broker.RolePlatformAdmin) {
			return refuse(broker.Errorf(broker.Forbidden, "freeze_of_another", "cannot lift the freeze of %s: %s placed it (ask them, or a platform admin): %s", wording(h), h.By, h.Reason),
				broker.AuditEntry{Actor: actor.Name, Action: chain.Freeze.Lifting(), Subject: h.About()})
		}
		h.Until = t.now
		return t.liftHold(ctx, chain.Actor{Name: actor.Name, Role: string(actor.Role)}, site, chain.Freeze, reason)
	})
	return h, lifted, err
}

func wording(h chain.SiteHold) string {
	if h.Site == "" {
		return "all sites"
	}
	return "site " + h.Site
}

// siteKnown keeps a misspelled site from being frozen in place of the one that
// was meant.
func (t *tx) siteKnown(ctx context.Context, site string) error {
	if site == "" {
		return nil
	}
	var known bool
	err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM maas_sites WHERE name = $1) OR EXISTS (SELECT 1 FROM nodes WHERE site = $1 AND status <> 'deleted')`, site).Scan(&known)
	if err == nil && !known {
		err = broker.Errorf(broker.NotFound, "site_not_found", "there is no site %q, and no node is at one (see hostler site list)", site)
	}
	return err
}

// freezesOf is the freeze of exactly this site, if one stands.
func (t *tx) freezesOf(ctx context.Context, site string) ([]chain.SiteHold, error) {
	return collect(ctx, t, scanHold, `SELECT `+holdColumns+` FROM chain_holds WHERE until_at = 0 AND kind = 'freeze' AND site = $1`, site)
}

// StandingHolds lists what stands now at these sites (nil: all), and at all
// sites; the oldest first.
func (db *DB) StandingHolds(ctx context.Context, sites []string) ([]chain.SiteHold, error) {
	w := where{terms: []string{"until_at = 0"}}
	if sites != nil {
		in(&w, "site", append([]string{""}, sites...))
	}
	return collect(ctx, db.reader(), scanHold, `SELECT `+holdColumns+` FROM chain_holds`+w.String()+` ORDER BY id`, w.args...)
}

// UnderWay counts what a freeze of these sites (nil: all) lets finish:
// destructive tasks that a node has, and runs with a step in flight.
func (db *DB) UnderWay(ctx context.Context, sites []string) (tasks, runs int64, err error) {
	w := where{terms: []string{"status IN ('queued', 'dispatched')", "status = 'dispatched'", "class = 'destructive'"}}
	if sites != nil {
		var at where
		at.args = w.args
		in(&at, "site", sites)
		w.add("node_id IN (SELECT id FROM nodes"+at.String()+")", at.args...)
	}
	if err := db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM tasks`+w.String(), w.args...).Scan(&tasks); err != nil {
		return 0, 0, err
	}
	w = where{}
	w.add("lease_until > ?", micros(db.Now()))
	w.add("status IN ('running', 'compensating')")
	in(&w, "site", sites)
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM chain_runs`+w.String(), w.args...).Scan(&runs)
	return tasks, runs, err
}

// destructiveHeld reports whether what may destroy a tenant's data stays where it is,
// at the node's site. While this transaction lasts the answer stays true: a
// freeze waits for it.
func (t *tx) destructiveHeld(ctx context.Context, site string, open []openTask) (held bool, err error) {
	if !slices.ContainsFunc(open, func(o openTask) bool { return o.Class == taskcatalog.ClassDestructive && o.Status == broker.TaskQueued }) {
		return false, nil
	}
	if err := t.passFreezes(ctx); err != nil {
		return false, err
	}
	err = t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM chain_holds WHERE until_at = 0 AND kind = 'freeze' AND site IN ('', $1))`, site).Scan(&held)
	return held, err
}

// frozenAt is the freeze at a node's site at a moment; nil: there was none.
func (t *tx) frozenAt(ctx context.Context, nodeID string, moment int64) (*chain.SiteHold, error) {
	holds, err := collect(ctx, t, scanHold, `SELECT `+holdColumns+` FROM chain_holds
		WHERE kind = 'freeze' AND since <= $1 AND (until_at = 0 OR until_at > $1) AND (site = '' OR site = (SELECT site FROM nodes WHERE id = $2)) ORDER BY id LIMIT 1`, moment, nodeID)
	if err != nil || len(holds) == 0 {
		return nil, err
	}
	return &holds[0], nil
}

// wakeFrozen wakes the nodes that were left waiting for a destructive task.
func (t *tx) wakeFrozen(ctx context.Context, site string) error {
	ids, err := collect(ctx, t, func(row interface{ Scan(...any) error }) (id string, err error) { return id, row.Scan(&id) },
		`SELECT DISTINCT node_id FROM tasks WHERE status IN ('queued', 'dispatched') AND status = 'queued' AND class = 'destructive'
			AND ($1 = '' OR node_id IN (SELECT id FROM nodes WHERE site = $1))`, site)
	for _, id := range ids {
		t.hint(HintTask, id)
	}
	return err
}
