package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// holdNode is the audit row of a node that is held because it could not be provisioned.
const holdNode = "node.provisioning_failing"

// countProvisions counts what an allocation's end of provisioning says of its nodes, in the
// transaction that ends it: so each provision counts once.
func (t *tx) countProvisions(ctx context.Context, actor broker.Actor, a broker.Allocation, c AllocationChange) error {
	for _, id := range c.Provisioned {
		if _, err := t.forgetProvisions(ctx, id); err != nil {
			return err
		}
	}
	for _, f := range c.Faults {
		f.Code, f.Message = taskcatalog.Clean(f.Code, 64), taskcatalog.Clean(f.Message, 500)
		p, err := t.provisionFailures(ctx, f.NodeID)
		if err != nil {
			return err
		}
		free := p.HeldAt.IsZero()
		p.Add(f, a.ID, c.HoldAfter, t.clock())
		if _, err := t.ExecContext(ctx, `INSERT INTO provision_failures (node_id, failures, code, message, allocation_id, at, held_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (node_id) DO UPDATE SET failures = excluded.failures, code = excluded.code,
				message = excluded.message, allocation_id = excluded.allocation_id, at = excluded.at, held_at = excluded.held_at`,
			f.NodeID, p.Failures, p.Code, p.Message, p.AllocationID, sqlkit.Micros(p.At), sqlkit.Micros(p.HeldAt)); err != nil {
			return err
		}
		t.hint(HintNode, f.NodeID)
		if !free || p.HeldAt.IsZero() {
			continue
		}
		e := entry(actor, holdNode, f.NodeID)
		e.Reason, e.CorrelationID = p.String(), c.CorrelationID
		e.After = small("failures", p.Failures, "code", p.Code, "allocation", p.AllocationID)
		if err := t.audit(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) provisionFailures(ctx context.Context, nodeID string) (p broker.ProvisionFailures, err error) {
	err = t.QueryRowContext(ctx, `SELECT failures, held_at FROM provision_failures WHERE node_id = $1`+t.ForUpdate(), nodeID).
		Scan(&p.Failures, sqlkit.ScanMicros(&p.HeldAt))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return p, err
}

// letInAgain ends the count of a node that a person activates. True: the node was held, or on its way there.
func (t *tx) letInAgain(ctx context.Context, n broker.Node, c Change) (bool, error) {
	if c.To != broker.Active || !ofPeople(c.By) {
		return false, nil
	}
	return t.forgetProvisions(ctx, n.ID)
}

func (t *tx) forgetProvisions(ctx context.Context, nodeID string) (had bool, err error) {
	rows, err := sqlkit.Changed(t.ExecContext(ctx, `DELETE FROM provision_failures WHERE node_id = $1`, nodeID))
	if rows > 0 {
		t.hint(HintNode, nodeID)
	}
	return rows > 0, err
}

// Unprovisionable are nodes of a site that are held because they could not be provisioned.
type Unprovisionable struct {
	Site  string // empty: none
	Nodes int
	Since time.Time // of the node that is held longest
}

// Unprovisionable counts, by site (nil: all), the nodes in service that are held because they could not
// be provisioned.
func (db *DB) Unprovisionable(ctx context.Context, sites []string) ([]Unprovisionable, error) {
	w := sqlkit.Where{Terms: []string{"held_at > 0", "nodes.status <> 'deleted'", "(word IS NULL OR word <> 'out_of_service')"}}
	sqlkit.In(&w, "nodes.site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (u Unprovisionable, err error) {
		return u, row.Scan(&u.Site, &u.Nodes, sqlkit.ScanMicros(&u.Since))
	}, `SELECT nodes.site, COUNT(*), MIN(held_at) FROM provision_failures p JOIN nodes ON nodes.id = p.node_id
		LEFT JOIN node_availability v ON v.node_id = nodes.id`+w.String()+` GROUP BY nodes.site ORDER BY nodes.site`, w.Args...)
}
