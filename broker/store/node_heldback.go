package store

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// HeldBack is work that a guard has stopped, and that continues only on a person's decision.
type HeldBack struct {
	What string // HeldBatch, HeldProfiles
	Kind string // of the batch's runs
	Name string // id of the batch, or selector of the affected nodes
	Why  string
	Left int // waiting runs, or nodes
	// Since is when the guard stopped the work.
	Since time.Time
}

// Kinds of held back work. Held reconciliation is stored with the last look at its site.
const (
	HeldBatch          = "batches"
	HeldProfiles       = "resolver_profiles"
	HeldReconciliation = "reconciliation"
)

// HeldBack lists the work stopped by guards at sites (nil: all), with the count of waiting runs or
// nodes, oldest first. Resolver profiles belong to all sites, so a list for some sites omits them.
func (db *DB) HeldBack(ctx context.Context, sites []string) ([]HeldBack, error) {
	w := sqlkit.Where{Terms: []string{"stopped_at > 0"}}
	sqlkit.In(&w, "site", sites)
	listed := func(what, query string, args ...any) ([]HeldBack, error) {
		all, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (HeldBack, error) {
			h := HeldBack{What: what}
			return h, row.Scan(&h.Kind, &h.Name, &h.Why, sqlkit.ScanMicros(&h.Since), &h.Left)
		}, query, args...)
		return slices.DeleteFunc(all, func(h HeldBack) bool { return h.Left == 0 }), err
	}
	all, err := listed(HeldBatch, `SELECT kind, id, stop_reason, stopped_at,
			(SELECT COUNT(*) FROM chain_runs r WHERE r.batch <> '' AND r.batch = b.id AND r.status = 'pending' AND r.started_at = 0)
		FROM chain_batches b`+w.String()+` ORDER BY stopped_at, id`, w.Args...)
	if err != nil || sites != nil {
		return all, err
	}
	profiles, err := listed(HeldProfiles, `SELECT '', selector, stop_reason, stopped_at,
			(SELECT COUNT(*) FROM nodes WHERE resolver_want = w.wanted_at AND resolver_digest <> resolver_wanted AND status <> 'deleted')
		FROM resolver_wants w WHERE stopped_at > 0 ORDER BY stopped_at`)
	return append(all, profiles...), err
}
