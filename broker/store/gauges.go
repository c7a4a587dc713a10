package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Gauges are numbers for monitoring, without names of sites, nodes and runs.
type Gauges struct {
	Restored                    bool // the database is restored and not released yet
	FrozenAll                   bool // a freeze of all sites stands
	FrozenSites                 int  // sites with a freeze of their own
	Unreachable                 int  // sites whose MAAS or secrets do not answer
	Runs                        []RunCount
	Unplaced                    int            // events without a place in the feed yet
	Lag                         time.Duration  // the age of the oldest unplaced event; 0: none
	SilentActive, SilentOffline int            // nodes of these statuses that are not heard
	SilentSites                 int            // sites without any heard node
	LeftAlone                   int            // nodes that a tenant left, and for which no turnover is under way in time
	FailedReleases              int            // allocations whose release failed
	Unprovisionable             int            // nodes that are held because they could not be provisioned
	Held                        map[string]int // stopped by guards until a person decides, by kind; of HeldReconciliation: sites
	AvailabilityAge             time.Duration  // since all nodes were last judged
	KeysRefused                 int            // active sites whose MAAS refused their key at the last check
	KeysAsked                   time.Time      // the oldest check of an active site's key; zero: no key
}

// RunCount is the number of runs by kind, status, and failure class if stopped. Ended runs do not
// count.
type RunCount struct {
	Kind, Status, Class string
	Runs                int
}

// Gauges reads all gauges.
func (db *DB) Gauges(ctx context.Context) (g Gauges, err error) {
	r := db.reader()
	var frozenAll, restored int
	if err := r.QueryRowContext(ctx, `SELECT COUNT(DISTINCT CASE WHEN kind = 'freeze' AND site = '' THEN 'all' END),
			COUNT(DISTINCT CASE WHEN kind = 'freeze' AND site <> '' THEN site END), COUNT(DISTINCT CASE WHEN kind = 'unreachable' THEN site END),
			COUNT(DISTINCT CASE WHEN kind = 'restored' THEN site END)
			FROM chain_holds WHERE until_at = 0`).Scan(&frozenAll, &g.FrozenSites, &g.Unreachable, &restored); err != nil {
		return g, err
	}
	g.FrozenAll, g.Restored = frozenAll > 0, restored > 0
	g.Runs, err = sqlkit.Collect(ctx, r, func(row sqlkit.Row) (c RunCount, err error) {
		return c, row.Scan(&c.Kind, &c.Status, &c.Class, &c.Runs)
	}, `SELECT kind, status, class, COUNT(*) FROM
			(SELECT kind, status, CASE WHEN status IN ('failed_retryable', 'failed_manual_intervention') THEN failure_class ELSE '' END AS class FROM chain_runs WHERE `+openRuns+`) AS r
			GROUP BY kind, status, class ORDER BY kind, status, class`)
	if err != nil {
		return g, err
	}
	var oldest time.Time
	if err := r.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(MIN(at), 0) FROM outbox WHERE position = 0`).Scan(&g.Unplaced,
		sqlkit.ScanMicros(&oldest)); err != nil {
		return g, err
	}
	if g.Unplaced > 0 {
		g.Lag = max(db.Now().Sub(oldest), 0)
	}
	contacts, err := db.Contacts(ctx, nil)
	if err != nil {
		return g, err
	}
	for _, c := range contacts {
		g.SilentActive += c.Active
		g.SilentOffline += c.Offline
		if c.Silent() {
			g.SilentSites++
		}
	}
	alone, err := db.LeftAlone(ctx, nil)
	if err != nil {
		return g, err
	}
	for _, l := range alone {
		g.LeftAlone += l.Nodes
	}
	failed, err := db.FailedReleases(ctx, nil)
	if err != nil {
		return g, err
	}
	for _, f := range failed {
		g.FailedReleases += f.Allocations
	}
	held, err := db.Unprovisionable(ctx, nil)
	if err != nil {
		return g, err
	}
	for _, u := range held {
		g.Unprovisionable += u.Nodes
	}
	var judged time.Time
	if err := r.QueryRowContext(ctx, `SELECT at FROM availability_sweep WHERE one = 1`).Scan(sqlkit.ScanMicros(&judged)); err != nil {
		return g, err
	}
	if !judged.IsZero() {
		g.AvailabilityAge = max(db.Now().Sub(judged), 0)
	}
	stopped, err := db.HeldBack(ctx, nil)
	if err != nil {
		return g, err
	}
	g.Held = map[string]int{HeldBatch: 0, HeldProfiles: 0}
	for _, h := range stopped {
		g.Held[h.What]++
	}
	g.KeysRefused, g.Held[HeldReconciliation], g.KeysAsked, err = db.maasKeys(ctx)
	return g, err
}

// maasKeys returns, for active sites, the number of refused keys and the time of the oldest check
// of a key. A key is stored only if MAAS accepts it: the time of storing counts as a check until
// the site is looked at. stopped is the number of sites at which reconciliation has stopped
// something.
func (db *DB) maasKeys(ctx context.Context) (refused, stopped int, asked time.Time, err error) {
	_, err = sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (k kept, err error) {
		var set time.Time
		if err = row.Scan(sqlkit.ScanMicros(&set), sqlkit.ScanJSON(&k)); err != nil {
			return k, err
		}
		if !set.After(k.KeyAt) {
			set = k.KeyAt
			if k.Refused {
				refused++
			}
		}
		if len(k.Stops) > 0 {
			stopped++
		}
		if asked.IsZero() || set.Before(asked) {
			asked = set
		}
		return k, nil
	}, `SELECT api_token_set_at, COALESCE(l.look, '') FROM maas_sites LEFT JOIN reconcile_looks l ON l.site = maas_sites.name WHERE status = 'active' AND api_token_set_at > 0`)
	return refused, stopped, asked, err
}
