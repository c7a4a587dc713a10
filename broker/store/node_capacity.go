package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// AvailabilityCount is the number of nodes of a SKU at a site with one availability.
type AvailabilityCount struct {
	Site, SKU string // empty: none
	Word      broker.Availability
	Nodes     int
}

// CountAvailability counts the nodes of sites (nil: all) by site, SKU and availability on record.
// Deleted nodes are left out.
func (db *DB) CountAvailability(ctx context.Context, sites []string) ([]AvailabilityCount, error) {
	w := sqlkit.Where{Terms: []string{"status <> 'deleted'"}}
	sqlkit.In(&w, "site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (c AvailabilityCount, err error) {
		return c, row.Scan(&c.Site, &c.SKU, &c.Word, &c.Nodes)
	}, `SELECT site, sku, COALESCE(word, 'unknown'), COUNT(*) FROM nodes LEFT JOIN node_availability ON node_id = id`+w.String()+
		` GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`, w.Args...)
}

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

// TurnoverWithin is the time within which a turnover should begin after a tenant has left.
const TurnoverWithin = time.Hour

// LeftAlone are nodes of a site whose tenants have left, and which nobody turns over.
type LeftAlone struct {
	Site  string // empty: none
	Nodes int
	Since time.Time // when the first tenant left
}

// LeftAlone counts, by site (nil: all), the nodes whose tenant left more than TurnoverWithin ago and
// for which no turnover has begun.
func (db *DB) LeftAlone(ctx context.Context, sites []string) ([]LeftAlone, error) {
	w := sqlkit.Where{Terms: []string{
		"certified_by = ''", "ended_at > 0", // ended, and not turned over since
		`codes LIKE '%"turnover_missing"%'`, `codes NOT LIKE '%"node_in_run"%'`, `codes NOT LIKE '%"allocation_live"%'`, "status <> 'deleted'",
	}}
	w.Add("ended_at < ?", sqlkit.Micros(db.Now().Add(-TurnoverWithin)))
	sqlkit.In(&w, "site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (l LeftAlone, err error) {
		return l, row.Scan(&l.Site, &l.Nodes, sqlkit.ScanMicros(&l.Since))
	}, `SELECT site, COUNT(DISTINCT nodes.id), MIN(ended_at) FROM allocations JOIN node_availability ON node_availability.node_id = allocations.node_id
		JOIN nodes ON nodes.id = allocations.node_id`+w.String()+` GROUP BY site ORDER BY site`, w.Args...)
}
