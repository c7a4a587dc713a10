package store

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// TurnoverPlaces is the use of the places for turnovers that begin by themselves at a site.
type TurnoverPlaces struct {
	Open  int      // turnovers that have not ended
	Taken []string // names of the locks of places
	Ahead int      // releases that wait for a place and go first
}

// TurnoverPlaces reads the use of a site's places. The open turnovers are the runs whose ids begin with one of
// the texts; the locks of places begin with a text, too. before is the release that asks, and goes after those
// that began earlier; nil: all releases go first.
func (db *DB) TurnoverPlaces(
	ctx context.Context, site, locks string, begins []string, before *broker.Allocation,
) (p TurnoverPlaces, err error) {
	if p.Ahead, err = db.releasesAhead(ctx, site, before); err != nil {
		return p, err
	}
	var w sqlkit.Where
	w.Add("name >= ?", locks)
	w.Add("name < ?", locks+"~") // no name has a character beyond
	p.Taken, err = sqlkit.Collect(ctx, db.reader(), scanText, `SELECT name FROM chain_locks`+w.String(), w.Args...)
	if err != nil {
		return p, err
	}
	p.Open, err = db.OpenRuns(ctx, site, begins...)
	return p, err
}

// OpenRuns counts the runs at a site that have not ended and whose ids begin with one of the texts.
func (db *DB) OpenRuns(ctx context.Context, site string, begins ...string) (n int, err error) {
	w := sqlkit.Where{Terms: []string{openRuns}}
	w.Add("site = ?", site)
	var any []string
	for _, text := range begins {
		one := sqlkit.Where{Args: w.Args}
		one.Add("substr(id, 1, ?) = ?", len(text), text)
		any, w.Args = append(any, one.Terms[0]), one.Args
	}
	w.Add("(" + strings.Join(any, " OR ") + ")")
	return n, db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM chain_runs`+w.String(), w.Args...).Scan(&n)
}

// waitingReleases are the allocations whose release has come to the turnovers and has a node that needs one
// and that no run has. The first condition is that of the index tenant_allocations_moving, which only a
// query with the same condition uses.
const waitingReleases = ` FROM tenant_allocations a JOIN chain_locks h ON h.name = 'allocation/' || a.id JOIN chain_runs r ON r.id = h.run_id
	WHERE a.status IN ('requested', 'provisioning', 'releasing') AND a.status = 'releasing' AND r.stage = 'turn_over' AND r.status IN ('pending', 'running')
	AND EXISTS (SELECT 1 FROM allocation_claims k JOIN nodes n ON n.id = k.node_id WHERE k.allocation_id = a.id AND k.ended_at = 0
		AND NOT EXISTS (SELECT 1 FROM chain_locks l WHERE l.name = 'node/' || k.node_id)
		AND (n.turnover_owed OR EXISTS (SELECT 1 FROM allocations WHERE allocations.node_id = k.node_id AND certified_by = '' AND` + occupantWas + `)
			OR NOT EXISTS (SELECT 1 FROM allocations WHERE allocations.node_id = k.node_id AND allocations.allocation_id = a.id)
			AND NOT EXISTS (SELECT 1 FROM clean_certificates c WHERE c.node_id = k.node_id AND c.issued_at > a.releasing_at)))`

// releasesAhead counts the releases at a site that wait for a turnover, and that began before another
// (nil: all).
func (db *DB) releasesAhead(ctx context.Context, site string, before *broker.Allocation) (n int, err error) {
	query, args := `SELECT COUNT(*)`+waitingReleases+` AND r.site = $1`, []any{site}
	if before != nil {
		query += ` AND (a.releasing_at < $2 OR a.releasing_at = $2 AND a.id < $3)`
		args = append(args, sqlkit.Micros(before.ReleasingAt), before.ID)
	}
	return n, db.reader().QueryRowContext(ctx, query, args...).Scan(&n)
}

// WaitingReleases are releases of a site that wait for a turnover of a node.
type WaitingReleases struct {
	Site     string // of the runs; broker.NoSite: none
	Releases int
	Since    time.Time // when the first of them came to the turnovers
}

// WaitingReleases counts, by site (nil: all), the releases that wait until a turnover may begin.
func (db *DB) WaitingReleases(ctx context.Context, sites []string) ([]WaitingReleases, error) {
	var w sqlkit.Where
	sqlkit.In(&w, "r.site", sites)
	query := `SELECT r.site, COUNT(*), MIN(r.entered_at)` + waitingReleases
	if len(w.Terms) > 0 {
		query += " AND " + w.Terms[0]
	}
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (r WaitingReleases, err error) {
		return r, row.Scan(&r.Site, &r.Releases, sqlkit.ScanMicros(&r.Since))
	}, query+` GROUP BY r.site ORDER BY r.site`, w.Args...)
}
