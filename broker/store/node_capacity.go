package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// AvailabilityCount is the number of nodes of a SKU at a site with one availability.
type AvailabilityCount struct {
	Site, SKU string // empty: none
	Place     string // the word that was counted by; empty: not known, or not counted by places
	Word      broker.Availability
	Nodes     int
	Faulty    int // of Nodes: those that need a repair
}

// CountAvailability counts the nodes of sites (nil: all) by site, SKU and availability, as
// Availability gives it. Deleted nodes are left out.
func (db *DB) CountAvailability(ctx context.Context, sites []string) ([]AvailabilityCount, error) {
	return db.countAvailability(ctx, sites, "''", 0)
}

// CountByPlace is CountAvailability by the words of a part of the nodes' places (broker.PlaceLevels), too. It
// returns the first most counts.
func (db *DB) CountByPlace(ctx context.Context, sites []string, level string, most int) ([]AvailabilityCount, error) {
	if !slices.Contains(broker.PlaceLevels, level) {
		return nil, broker.Errorf(broker.Invalid, "place_invalid", "cannot count by %q: nodes have %s", taskcatalog.Clean(level, 40),
			strings.Join(broker.PlaceLevels, ", "))
	}
	return db.countAvailability(ctx, sites, "place_"+level, most)
}

// countAvailability counts by an expression of places; most 0: there is no limit.
func (db *DB) countAvailability(ctx context.Context, sites []string, place string, most int) ([]AvailabilityCount, error) {
	w := sqlkit.Where{Terms: []string{"status <> 'deleted'"}}
	sqlkit.In(&w, "site", sites)
	since, old := db.confirmedSince(), sqlkit.Where{Args: w.Args}
	old.Add(lapsed, since, since)
	limit := ""
	if most > 0 {
		limit = old.Limit(most)
	}
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (c AvailabilityCount, err error) {
		return c, row.Scan(&c.Site, &c.SKU, &c.Place, &c.Word, &c.Nodes, &c.Faulty)
	}, `SELECT site, sku, `+place+`, CASE WHEN word IS NULL OR `+old.Terms[0]+` THEN 'unknown' ELSE word END, COUNT(*),
			SUM(CASE WHEN `+faulty+` THEN 1 ELSE 0 END)
		FROM nodes LEFT JOIN node_availability ON node_id = id`+w.String()+` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`+limit, old.Args...)
}

// faulty is true of a node that needs a repair, whatever its availability is.
const faulty = `nodes.status IN ('offline', 'quarantined') OR codes LIKE '%"node_silent"%' OR codes LIKE '%"device_missing"%'
	OR codes LIKE '%"device_unexpected"%' OR codes LIKE '%"provisioning_failing"%' OR codes LIKE '%"certificate_falls_short"%'
	OR codes LIKE '%"maintenance"%'`

// TurnoverTime is how long a turnover kept a node of a SKU at a site out of use.
type TurnoverTime struct {
	Site, SKU string
	Took      time.Duration
}

// TurnoverTimes returns the turnovers at sites (nil: all) that ended since from, the last limit of
// them.
func (db *DB) TurnoverTimes(ctx context.Context, sites []string, from time.Time, limit int) ([]TurnoverTime, error) {
	var w sqlkit.Where
	w.Add("ended_at > ?", sqlkit.Micros(from))
	sqlkit.In(&w, "nodes.site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (k TurnoverTime, err error) {
		var began, ended time.Time
		err = row.Scan(&k.Site, &k.SKU, sqlkit.ScanMicros(&began), sqlkit.ScanMicros(&ended))
		k.Took = ended.Sub(began)
		return k, err
	}, `SELECT nodes.site, nodes.sku, began_at, ended_at FROM turnover_outages JOIN nodes ON nodes.id = turnover_outages.node_id`+
		w.String()+` ORDER BY ended_at DESC`+w.Limit(limit), w.Args...)
}

// ClosedSite is a disabled site with nodes that could be handed out.
type ClosedSite struct {
	Site  string
	Nodes int
	Since time.Time // of the node that has waited longest
}

// ClosedSites counts, by disabled site (names nil: all), the nodes that nothing but the site keeps from a
// tenant.
func (db *DB) ClosedSites(ctx context.Context, names []string) ([]ClosedSite, error) {
	w := sqlkit.Where{Terms: []string{"nodes.site IN (SELECT name FROM maas_sites WHERE status = 'disabled')", `codes = '["site_disabled"]'`}}
	sqlkit.In(&w, "nodes.site", names)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (c ClosedSite, err error) {
		return c, row.Scan(&c.Site, &c.Nodes, sqlkit.ScanMicros(&c.Since))
	}, `SELECT nodes.site, COUNT(*), MIN(since) FROM nodes JOIN node_availability ON node_id = nodes.id`+w.String()+` GROUP BY nodes.site ORDER BY nodes.site`,
		w.Args...)
}

// TurnoverWithin is the time within which a turnover should begin after a tenant has left.
const TurnoverWithin = time.Hour

// LeftAlone are nodes of a site that need a turnover, and which nobody turns over.
type LeftAlone struct {
	Site  string // empty: none
	Nodes int
	Since time.Time // of the node that has needed a turnover longest
}

// LeftAlone counts, by site (nil: all), the nodes whose last tenant left more than TurnoverWithin ago,
// or whose certificate ran out or fell below the policy before then while nobody used them, and for which
// no turnover is under way. A node that is out of service, or that an allocation is about to use, is left out.
func (db *DB) LeftAlone(ctx context.Context, sites []string) ([]LeftAlone, error) {
	alone := []string{
		`codes NOT LIKE '%"node_in_run"%'`, "nodes.status NOT IN ('retired', 'removing', 'deleted')",
		`nodes.id NOT IN (SELECT c.node_id FROM allocation_claims c JOIN tenant_allocations a ON a.id = c.allocation_id
			WHERE c.ended_at = 0 AND a.status IN ('requested', 'provisioning', 'active'))`,
	}
	w := sqlkit.Where{Terms: append([]string{
		"certified_by = ''", "ended_at > 0", occupantWas, // ended, and not turned over since
		`codes LIKE '%"turnover_missing"%'`, "nodes.id NOT IN (SELECT node_id FROM allocations WHERE " + isLive + ")",
	}, alone...)}
	sqlkit.In(&w, "nodes.site", sites)
	expired := sqlkit.Where{Args: w.Args, Terms: append([]string{"word = 'held'", `codes LIKE '%"certificate_expired"%'`}, alone...)}
	sqlkit.In(&expired, "nodes.site", sites)
	ends, err := db.certificateEnds(ctx)
	if err != nil {
		return nil, err
	}
	ended := ends.since(&expired)
	below := sqlkit.Where{Args: expired.Args, Terms: append([]string{
		"word = 'held'", `codes LIKE '%"certificate_below_policy"%'`,
	}, alone...)}
	sqlkit.In(&below, "nodes.site", sites)
	late := sqlkit.Where{Args: below.Args}
	late.Add("left_at < ?", sqlkit.Micros(db.Now().Add(-TurnoverWithin)))
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (l LeftAlone, err error) {
		return l, row.Scan(&l.Site, &l.Nodes, sqlkit.ScanMicros(&l.Since))
	}, `SELECT site, COUNT(DISTINCT id), MIN(left_at) FROM (
		SELECT nodes.id AS id, nodes.site AS site, MAX(ended_at) AS left_at
		FROM allocations JOIN node_availability ON node_availability.node_id = allocations.node_id JOIN nodes ON nodes.id = allocations.node_id`+
		w.String()+` GROUP BY nodes.id, nodes.site
		UNION ALL SELECT nodes.id, nodes.site, `+ended+` FROM `+newestCertificates+expired.String()+`
		UNION ALL SELECT nodes.id, nodes.site, v.since FROM `+belowPolicy+below.String()+`) AS gone`+late.String()+` GROUP BY site ORDER BY site`, late.Args...)
}
