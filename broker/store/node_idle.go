package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// IdleNode is an active node that nobody uses, and that is to be turned over.
type IdleNode struct {
	NodeID, Site string
	Since        time.Time // the last tenant left, or the certificate runs out
}

// untaken are the conditions of an active node at a site that neither a run nor an allocation holds.
var untaken = []string{
	"nodes.status = 'active'", "nodes.site <> ''",
	"NOT EXISTS (SELECT 1 FROM allocation_claims k WHERE k.node_id = nodes.id AND k.ended_at = 0)",
	"NOT EXISTS (SELECT 1 FROM chain_locks l WHERE l.name = 'node/' || nodes.id)",
}

// LeftNodes returns the active nodes of sites whose tenants have left, longest left first. A node that
// a run or an allocation holds is left out, and so is a node whose use a platform admin has
// permitted regardless.
func (db *DB) LeftNodes(ctx context.Context) ([]IdleNode, error) {
	w := sqlkit.Where{Terms: append([]string{
		"certified_by = ''", "ended_at > 0", occupantWas, "ended_at >= nodes.override_at",
		"nodes.id NOT IN (SELECT node_id FROM allocations WHERE " + isLive + ")",
	}, untaken...)}
	w.Add("nodes.turnover_owed = ?", false)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n IdleNode, err error) {
		return n, row.Scan(&n.NodeID, &n.Site, sqlkit.ScanMicros(&n.Since))
	}, `SELECT nodes.id, nodes.site, MAX(ended_at) AS left_at FROM allocations JOIN nodes ON nodes.id = allocations.node_id`+w.String()+
		` GROUP BY nodes.id, nodes.site ORDER BY left_at, nodes.id`, w.Args...)
}

// newestCertificates joins the availability on record with each node's newest certificate, c.
const newestCertificates = `node_availability JOIN nodes ON nodes.id = node_availability.node_id
	JOIN clean_certificates c ON c.id = (SELECT id FROM clean_certificates WHERE node_id = nodes.id ORDER BY issued_at DESC, id DESC LIMIT 1)`

// ExpiredNodes returns the active nodes of sites whose certificate has run out by the availability on
// record, the longest first. A node that a run or an allocation holds is left out.
func (db *DB) ExpiredNodes(ctx context.Context) ([]IdleNode, error) {
	ends, err := db.certificateEnds(ctx)
	if err != nil {
		return nil, err
	}
	w := sqlkit.Where{Terms: append([]string{"word = 'held'", `codes LIKE '%"certificate_expired"%'`}, untaken...)}
	end := ends.at(&w)
	w.Add("nodes.turnover_owed = ?", false)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n IdleNode, err error) {
		return n, row.Scan(&n.NodeID, &n.Site, sqlkit.ScanMicros(&n.Since))
	}, `SELECT nodes.id, nodes.site, `+end+` FROM `+newestCertificates+w.String()+` ORDER BY 3, nodes.id`, w.Args...)
}

// BelowPolicyNodes returns the active nodes of sites whose certificate does not suffice by the policy in force,
// by the availability on record, the longest first. A node that a run or an allocation holds is left out.
func (db *DB) BelowPolicyNodes(ctx context.Context) ([]IdleNode, error) {
	w := sqlkit.Where{Terms: append([]string{"word = 'held'", `codes LIKE '%"certificate_below_policy"%'`}, untaken...)}
	w.Add("nodes.turnover_owed = ?", false)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n IdleNode, err error) {
		return n, row.Scan(&n.NodeID, &n.Site, sqlkit.ScanMicros(&n.Since))
	}, `SELECT nodes.id, nodes.site, v.since FROM `+belowPolicy+w.String()+` ORDER BY v.since, nodes.id`, w.Args...)
}

// belowPolicy joins the availability on record with the last verdict on each node's certificate, v.
const belowPolicy = `node_availability JOIN nodes ON nodes.id = node_availability.node_id
	JOIN certificate_verdicts v ON v.node_id = nodes.id`

// EndingNodes returns the available nodes of sites of whose certificate no more than a part of its validity
// is left, in percent, the one that runs out first before the others.
func (db *DB) EndingNodes(ctx context.Context, percent int) ([]IdleNode, error) {
	ends, err := db.certificateEnds(ctx)
	if err != nil {
		return nil, err
	}
	w := sqlkit.Where{Terms: append([]string{"word = 'available'"}, untaken...)}
	end := ends.at(&w)
	w.Add("("+end+" - ?) * 100 <= ("+end+" - c.issued_at) * ?", sqlkit.Micros(db.Now()), percent)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n IdleNode, err error) {
		return n, row.Scan(&n.NodeID, &n.Site, sqlkit.ScanMicros(&n.Since))
	}, `SELECT nodes.id, nodes.site, `+end+` FROM `+newestCertificates+w.String()+` ORDER BY 3, nodes.id`, w.Args...)
}

// takeFree refuses a run whose node is not free: the node may not be handed out, or a tenant was faster.
// The row of the node stays locked until the run has the node, so that no placement claims it. Code:
// node_not_free.
func (t *tx) takeFree(ctx context.Context, nodeID string) error {
	n, err := node(ctx, t, nodeID, t.ForUpdate())
	if err != nil {
		return err
	}
	h, err := t.handout(ctx, n, t.clock())
	if err != nil {
		return err
	}
	if all := h.Reasons("", ""); len(all) > 0 {
		return broker.Errorf(broker.Refused, "node_not_free", "cannot take node %s while it may be handed out: %s (%s)", n.ID, all[0].Message,
			all[0].Next)
	}
	return nil
}
