package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// LeftNode is an active node that its tenants have left, and that was not turned over since.
type LeftNode struct {
	NodeID, Site string
	LeftAt       time.Time // of the last tenant
}

// LeftNodes returns the active nodes of sites whose tenants have left, longest left first. A node that
// a run or an allocation holds is left out, and so is a node whose use a platform admin has
// permitted regardless.
func (db *DB) LeftNodes(ctx context.Context) ([]LeftNode, error) {
	w := sqlkit.Where{Terms: []string{
		"certified_by = ''", "ended_at > 0", occupantWas, "ended_at >= nodes.override_at",
		"nodes.status = 'active'", "nodes.site <> ''",
		"nodes.id NOT IN (SELECT node_id FROM allocations WHERE " + isLive + ")",
		"NOT EXISTS (SELECT 1 FROM allocation_claims c WHERE c.node_id = nodes.id AND c.ended_at = 0)",
		"NOT EXISTS (SELECT 1 FROM chain_locks l WHERE l.name = 'node/' || nodes.id)",
	}}
	w.Add("nodes.turnover_owed = ?", false)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n LeftNode, err error) {
		return n, row.Scan(&n.NodeID, &n.Site, sqlkit.ScanMicros(&n.LeftAt))
	}, `SELECT nodes.id, nodes.site, MAX(ended_at) AS left_at FROM allocations JOIN nodes ON nodes.id = allocations.node_id`+w.String()+
		` GROUP BY nodes.id, nodes.site ORDER BY left_at, nodes.id`, w.Args...)
}

// OpenRuns counts the runs at a site that have not ended and whose ids begin with a text.
func (db *DB) OpenRuns(ctx context.Context, site, begins string) (n int, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM chain_runs WHERE `+openRuns+` AND site = $1 AND substr(id, 1, $2) = $3`,
		site, len(begins), begins).Scan(&n)
	return n, err
}
