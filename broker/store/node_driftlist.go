package store

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// DriftedNode is a node with a drift.
type DriftedNode struct {
	MAASState
	Hostname, Site string
	NodeStatus     broker.NodeStatus
}

// DriftFilter selects drifts; an empty field adds no condition.
type DriftFilter struct {
	Sites    []string // nil: all
	Rule     string
	Severity string
	NodeID   string
	Resolved bool      // resolved drifts instead of open drifts
	Since    time.Time // with Resolved: resolved after this time
	After    string    // cursor: the node of the previous page's last row
	Limit    int       // 0: 1000
}

// Drifts returns a page ordered by node, and the cursor of the next page.
func (db *DB) Drifts(ctx context.Context, f DriftFilter) (page []DriftedNode, next string, err error) {
	w := sqlkit.Where{Terms: []string{"n.status <> 'deleted'"}}
	if f.Resolved {
		w.Add("NOT s.drift_detected")
		w.Add("s.drift_resolved_at > ?", sqlkit.Micros(f.Since))
	} else {
		w.Add("s.drift_detected")
	}
	sqlkit.In(&w, "n.site", f.Sites)
	w.Equal("s.drift_rule", f.Rule)
	w.Equal("s.drift_severity", f.Severity)
	w.Equal("s.node_id", f.NodeID)
	if f.After != "" {
		w.Add("s.node_id > ?", f.After)
	}
	if f.Limit == 0 {
		f.Limit = 1000
	}
	page, err = sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (d DriftedNode, err error) {
		err = row.Scan(append(d.into(), &d.Hostname, &d.Site, &d.NodeStatus)...)
		return d, err
	}, `SELECT `+stateColumns+`, n.hostname, n.site, n.status FROM node_maas_state s JOIN nodes n ON n.id = s.node_id`+w.String()+` ORDER BY s.node_id`+w.Limit(f.Limit+1), w.Args...)
	if len(page) > f.Limit {
		page = page[:f.Limit]
		next = page[f.Limit-1].NodeID
	}
	return page, next, err
}

// ReconcileView is the reconciler's view of a site before the reconciler reads MAAS.
type ReconcileView struct {
	Nodes  []broker.Node // not deleted, bound to a machine
	States map[string]MAASState
	InRun  map[string]string // node to run, for nodes that a run has
	Live   map[string]bool   // nodes with a tenant
	Gone   []MAASState       // with an open drift, whose node is deleted or bound to no machine
	Frozen bool
}

// ReconcileView reads a site.
func (db *DB) ReconcileView(ctx context.Context, site string) (v ReconcileView, err error) {
	v.States, v.InRun, v.Live = map[string]MAASState{}, map[string]string{}, map[string]bool{}
	r := db.reader()
	if v.Nodes, err = sqlkit.Collect(ctx, r, scanNode,
		`SELECT `+nodeColumns+` FROM nodes WHERE site = $1 AND maas_system_id <> '' AND status <> 'deleted' ORDER BY id`,
		site); err != nil {
		return v, err
	}
	locks, err := sqlkit.Collect(ctx, r, func(row sqlkit.Row) (l [2]string, err error) { return l, row.Scan(&l[0], &l[1]) },
		`SELECT name, run_id FROM chain_locks WHERE name >= 'node/' AND name < 'node0'`)
	if err != nil {
		return v, err
	}
	for _, l := range locks {
		v.InRun[strings.TrimPrefix(l[0], "node/")] = l[1]
	}
	taken, err := sqlkit.Collect(ctx, r, scanText, `SELECT DISTINCT node_id FROM allocations WHERE ended_at = 0 AND certified_by = '' AND`+
		occupantWas)
	if err != nil {
		return v, err
	}
	for _, id := range taken {
		v.Live[id] = true
	}
	states, err := sqlkit.Collect(ctx, r, func(row sqlkit.Row) (s MAASState, err error) { return s, row.Scan(s.into()...) },
		`SELECT `+stateColumns+` FROM node_maas_state s JOIN nodes n ON n.id = s.node_id WHERE n.site = $1`, site)
	if err != nil {
		return v, err
	}
	bound := map[string]bool{}
	for _, n := range v.Nodes {
		bound[n.ID] = true
	}
	for _, s := range states {
		switch {
		case bound[s.NodeID]:
			v.States[s.NodeID] = s
		case s.Drift:
			v.Gone = append(v.Gone, s)
		}
	}
	holds, err := db.StandingHolds(ctx, []string{site})
	for _, h := range holds {
		v.Frozen = v.Frozen || h.Kind == chain.Freeze || h.Kind == chain.Restored
	}
	return v, err
}

// BoundNodes counts the nodes of each site that are bound to a machine, and among them the nodes
// with an open drift.
func (db *DB) BoundNodes(ctx context.Context) (bound, drifted map[string]int, err error) {
	if bound, err = sqlkit.Count[string](ctx, db.reader(),
		`SELECT site, COUNT(*) FROM nodes WHERE maas_system_id <> '' AND status <> 'deleted' GROUP BY site`); err != nil {
		return nil, nil, err
	}
	drifted, err = sqlkit.Count[string](ctx, db.reader(),
		`SELECT n.site, COUNT(*) FROM node_maas_state s JOIN nodes n ON n.id = s.node_id WHERE s.drift_detected AND n.status <> 'deleted' GROUP BY n.site`)
	return bound, drifted, err
}
