package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// freezeGate is a lock. Transactions that hand out work forbidden by a freeze share it; a
// transaction that freezes holds it alone; both until commit. Once a freeze has been answered, no
// forbidden transaction commits any more. From then on the table shows the freeze. A transaction takes this lock
// before it locks a row of a node or a run: a freeze that waits for one transaction keeps the next one from
// sharing the lock.
const freezeGate = leadLock + 1

func (t *tx) passFreezes(ctx context.Context) error { return t.lock(ctx, t.GateShared(), freezeGate) }

// shutOut waits for the shared holders of freezeGate, then reads the clock again.
func (t *tx) shutOut(ctx context.Context) error {
	err := t.lock(ctx, t.GateAlone(), freezeGate)
	t.now = t.clock()
	return err
}

// errGateFirst ends a transaction that has to pass freezeGate, and has locked a row before.
var errGateFirst = errors.New("the freezes must be passed before rows are locked")

func (t *tx) lock(ctx context.Context, statement string, gate int64) error {
	if statement == "" {
		return nil
	}
	_, err := t.ExecContext(ctx, statement, gate)
	return err
}

// Freeze stops a site, or all sites if site is empty: no stage begins, and no destructive task is
// handed out. Freezes stack: each operator's freeze stands, with its reason, until it is itself
// lifted. standing lists all standing freezes, oldest first. placed reports whether this freeze is
// new: the same words of the same operator are the same freeze. Codes: site_not_found.
func (db *DB) Freeze(
	ctx context.Context, actor broker.Actor, site, reason string,
) (h chain.SiteHold, standing []chain.SiteHold, placed bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.siteKnown(ctx, site); err != nil {
			return err
		}
		if err := t.shutOut(ctx); err != nil {
			return err
		}
		if standing, err = t.freezesOf(ctx, site); err != nil {
			return err
		}
		for _, before := range standing {
			if before.By == actor.Name && before.Reason == reason {
				h, placed = before, false
				return nil
			}
		}
		h, placed = chain.SiteHold{Site: site, Kind: chain.Freeze, Reason: reason, By: actor.Name, Since: t.now}, true
		standing = append(standing, h)
		return t.placeHold(ctx, chain.Actor{Name: actor.Name, Role: string(actor.Role)}, h)
	})
	return h, standing, placed, err
}

// Unfreeze lifts the actor's own freezes of a site, or of all sites, and wakes the nodes that have
// a task to fetch. Other operators' freezes stand, since only their authors know the purpose; a
// platform admin lifts them too, with force. lifted and standing are the lifted freezes and the
// freezes that remain. Codes: site_not_found, freeze_of_another.
func (db *DB) Unfreeze(
	ctx context.Context, actor broker.Actor, site, reason string, force bool,
) (lifted, standing []chain.SiteHold, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		lifted, standing = nil, nil
		if err := t.shutOut(ctx); err != nil {
			return err
		}
		all, err := t.freezesOf(ctx, site)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return t.siteKnown(ctx, site)
		}
		forced := force && actor.Role.Covers(broker.RolePlatformAdmin)
		for _, h := range all {
			if h.By != actor.Name && !forced {
				standing = append(standing, h)
				continue
			}
			h.Until = t.now
			lifted = append(lifted, h)
		}
		if len(lifted) == 0 || force && !forced && len(standing) > 0 {
			return refuse(broker.Errorf(broker.Forbidden, "freeze_of_another",
				"cannot lift the freeze of %s: %s (ask the operators named, or a platform admin, who can lift it with --force)",
				wording(standing[0]), placers(standing)),
				broker.AuditEntry{Actor: actor.Name, Action: chain.Freeze.Lifting(), Subject: standing[0].About(), Reason: reason})
		}
		by := actor.Name
		if forced {
			by = anybody
		}
		return t.liftHold(ctx, chain.Actor{Name: actor.Name, Role: string(actor.Role)}, site, chain.Freeze, by, reason)
	})
	return lifted, standing, err
}

func wording(h chain.SiteHold) string {
	if h.Site == "" {
		return "all sites"
	}
	return "site " + h.Site
}

// placers lists the author and the reason of each freeze.
func placers(holds []chain.SiteHold) string {
	said := make([]string, len(holds))
	for i, h := range holds {
		said[i] = "placed by " + h.By + ": " + h.Reason
	}
	return strings.Join(said, "; ")
}

// siteKnown refuses a misspelled site, which would otherwise be frozen in place of the intended
// site.
func (t *tx) siteKnown(ctx context.Context, site string) error {
	if site == "" {
		return nil
	}
	var known bool
	err := t.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM maas_sites WHERE name = $1) OR EXISTS (SELECT 1 FROM nodes WHERE site = $1 AND status <> 'deleted')`,
		site).Scan(&known)
	if err == nil && !known {
		err = broker.Errorf(broker.NotFound, "site_not_found",
			"there is no site %q, and no node has a site of that name (see hostler site list)", site)
	}
	return err
}

// freezesOf returns the standing freezes of exactly this site, oldest first.
func (t *tx) freezesOf(ctx context.Context, site string) ([]chain.SiteHold, error) {
	return sqlkit.Collect(ctx, t, scanHold, `SELECT `+holdColumns+
		` FROM chain_holds WHERE until_at = 0 AND kind = 'freeze' AND site = $1 ORDER BY id`, site)
}

// StandingHolds lists the holds standing now at these sites (nil: every site), and those of all
// sites; oldest first.
func (db *DB) StandingHolds(ctx context.Context, sites []string) ([]chain.SiteHold, error) {
	w := sqlkit.Where{Terms: []string{"until_at = 0"}}
	if sites != nil {
		sqlkit.In(&w, "site", append([]string{""}, sites...))
	}
	return sqlkit.Collect(ctx, db.reader(), scanHold, `SELECT `+holdColumns+` FROM chain_holds`+w.String()+` ORDER BY id`, w.Args...)
}

// UnderWay counts the work that a freeze of these sites (nil: all) lets finish: destructive tasks
// that a node has, and runs with a stage in flight.
func (db *DB) UnderWay(ctx context.Context, sites []string) (tasks, runs int64, err error) {
	w := sqlkit.Where{Terms: []string{"status IN ('queued', 'dispatched')", "status = 'dispatched'", "class = 'destructive'"}}
	if sites != nil {
		var at sqlkit.Where
		at.Args = w.Args
		sqlkit.In(&at, "site", sites)
		w.Terms, w.Args = append(w.Terms, "node_id IN (SELECT id FROM nodes"+at.String()+")"), at.Args
	}
	if err := db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM tasks`+w.String(), w.Args...).Scan(&tasks); err != nil {
		return 0, 0, err
	}
	w = sqlkit.Where{}
	w.Add("lease_until > ?", sqlkit.Micros(db.Now()))
	w.Add("status IN ('running', 'compensating')")
	sqlkit.In(&w, "site", sites)
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM chain_runs`+w.String(), w.Args...).Scan(&runs)
	return tasks, runs, err
}

// heldClasses returns the classes of tasks that stay queued at the node's site: in a freeze,
// destructive tasks; in a restored database before its release, all changing tasks. The answer
// stays true for the duration of this transaction, because a freeze waits for the transaction.
// Without a restore's hold, only destructive tasks need the check: no database is held while a
// broker serves. passed: the transaction has passed freezeGate; without that, a node with such a task is
// errGateFirst.
func (t *tx) heldClasses(ctx context.Context, site string, restored, passed bool, open []openTask) (held []taskcatalog.Class, err error) {
	if !slices.ContainsFunc(open, func(o openTask) bool {
		return o.Status == broker.TaskQueued && (o.Class == taskcatalog.ClassDestructive || restored &&
			o.Class == taskcatalog.ClassMutating)
	}) {
		return nil, nil
	}
	if !passed {
		return nil, errGateFirst
	}
	kinds, err := sqlkit.Collect(ctx, t, scanText,
		`SELECT kind FROM chain_holds WHERE until_at = 0 AND kind IN ('freeze', 'restored') AND site IN ('', $1)`, site)
	switch {
	case err != nil || len(kinds) == 0:
		return nil, err
	case slices.Contains(kinds, string(chain.Restored)):
		return []taskcatalog.Class{taskcatalog.ClassMutating, taskcatalog.ClassDestructive}, nil
	}
	return []taskcatalog.Class{taskcatalog.ClassDestructive}, nil
}

// frozenAt returns the freeze of a node's site at a time; nil: none.
func (t *tx) frozenAt(ctx context.Context, nodeID string, moment int64) (*chain.SiteHold, error) {
	holds, err := sqlkit.Collect(ctx, t, scanHold, `SELECT `+holdColumns+` FROM chain_holds
		WHERE kind = 'freeze' AND since <= $1 AND (until_at = 0 OR until_at > $1) AND (site = '' OR site = (SELECT site FROM nodes WHERE id = $2)) ORDER BY id LIMIT 1`, moment, nodeID)
	if err != nil || len(holds) == 0 {
		return nil, err
	}
	return &holds[0], nil
}

// wakeFrozen wakes the nodes with tasks that a hold kept queued.
func (t *tx) wakeFrozen(ctx context.Context, site string) error {
	ids, err := sqlkit.Collect(ctx, t, func(row sqlkit.Row) (id string, err error) { return id, row.Scan(&id) },
		`SELECT DISTINCT node_id FROM tasks WHERE status IN ('queued', 'dispatched') AND status = 'queued' AND class <> 'probe'
			AND ($1 = '' OR node_id IN (SELECT id FROM nodes WHERE site = $1))`, site)
	for _, id := range ids {
		t.hint(HintTask, id)
	}
	return err
}
