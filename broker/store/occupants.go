package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// provisionUser is the type of the task that lets a tenant in.
const provisionUser = "allocation.provision_user"

const occupantColumns = `allocation_id, node_id, username, tenant, had_root, since, ended_at, forced_by`

// occupantWas excludes occupants that never existed: a single task asked for the user, and the
// node never took that task or refused it.
const occupantWas = ` NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = allocations.task_id
	AND (status IN ('expired', 'canceled') AND attempt = 0 OR status = 'failed' AND outcome = 'refused'))`

func scanOccupant(row sqlkit.Row) (a broker.Occupant, err error) {
	err = row.Scan(&a.ID, &a.NodeID, &a.Username, &a.Tenant, &a.HadRoot, sqlkit.ScanMicros(&a.Since), sqlkit.ScanMicros(&a.EndedAt),
		&a.ForcedBy)
	return a, err
}

// Occupants returns the occupants since a node was last handed out clean, live occupants first,
// then the newest. Their table is named allocations, for brokers of earlier releases.
func (db *DB) Occupants(ctx context.Context, nodeID string) ([]broker.Occupant, error) {
	return occupants(ctx, db.reader(), nodeID, `certified_by = ''`)
}

// SettledOccupants is Occupants without occupants of open transactions: a task that lets a
// tenant in holds the node's row until the task is queued.
func (db *DB) SettledOccupants(ctx context.Context, nodeID string) (all []broker.Occupant, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if _, err := node(ctx, t, nodeID, t.ForUpdate()); err != nil {
			return err
		}
		all, err = occupants(ctx, t, nodeID, `certified_by = ''`)
		return err
	})
	return all, err
}

// LastOccupant returns the occupant that ended last on a node; nil: none. certified: the node
// was handed out clean since.
func (db *DB) LastOccupant(ctx context.Context, nodeID string) (last *broker.Occupant, certified bool, err error) {
	var by string
	all, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (broker.Occupant, error) {
		return scanOccupant(also{row, &by})
	}, `SELECT `+occupantColumns+`, certified_by FROM allocations WHERE node_id = $1 AND ended_at > 0 AND`+occupantWas+`
		ORDER BY ended_at DESC, allocation_id LIMIT 1`, nodeID)
	if err != nil || len(all) == 0 {
		return nil, false, err
	}
	return &all[0], by != "", nil
}

// also scans an additional column.
type also struct {
	row  sqlkit.Row
	last any
}

func (a also) Scan(into ...any) error { return a.row.Scan(append(into, a.last)...) }

func occupants(ctx context.Context, r sqlkit.Runner, nodeID, which string) ([]broker.Occupant, error) {
	return sqlkit.Collect(ctx, r, scanOccupant, `SELECT `+occupantColumns+` FROM allocations WHERE node_id = $1 AND `+which+` AND`+
		occupantWas+`
		ORDER BY CASE WHEN ended_at = 0 THEN 0 ELSE 1 END, since DESC, allocation_id`, nodeID)
}

// handTo refuses a user for a node that may not be handed out, and records the occupant, in the
// transaction that queues the task. The transaction has passed the freezes: a change of the policy waits for it,
// or came before it. The row of the node is locked, so the node cannot be taken out
// of service at the same moment.
func (t *tx) handTo(ctx context.Context, k broker.Task) error {
	var p taskcatalog.ProvisionUserParams
	if err := json.Unmarshal(k.Params, &p); err != nil {
		return err
	}
	n, err := node(ctx, t, k.NodeID, "")
	if err != nil {
		return err
	}
	h, err := t.handout(ctx, n, t.now)
	if err != nil {
		return err
	}
	if err := t.stillHeld(ctx, h, p.AllocationID); err != nil {
		return err
	}
	if err := h.LetIn(p.AllocationID, p.Tenant); err != nil {
		return err
	}
	return t.recordOccupant(ctx, k, p)
}

// stillHeld refuses a user of a project's allocation that does not hold the node, or that the tenant
// does not use now. The allocation cannot end meanwhile: its row is locked. An allocation by hand has
// no project, and is not looked at. Code: allocation_ended.
func (t *tx) stillHeld(ctx context.Context, h broker.Handout, id string) error {
	var status broker.AllocationStatus
	err := t.QueryRowContext(ctx, `SELECT status FROM tenant_allocations WHERE id = $1`+t.ForKeyShare(), id).Scan(&status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case status != broker.AllocationProvisioning && status != broker.AllocationActive:
		return broker.Errorf(broker.Refused, "allocation_ended",
			"cannot let a user in on node %s: allocation %s is %s, not provisioning or active (ask for another allocation)", h.Node.ID, id, status)
	case h.ClaimedBy != id:
		return broker.Errorf(broker.Refused, "allocation_ended",
			"cannot let a user in on node %s: allocation %s does not hold the node (name a node of the allocation)", h.Node.ID, id)
	}
	return nil
}

// recordOccupant records an occupant before the user is known to exist. An existing occupant stays
// on record whatever happens to the new task, if the user was or may have been on the node and no
// certificate followed: the occupant's task_id becomes empty. Only a certified occupant, or an
// occupant that never existed, depends on the new task alone.
func (t *tx) recordOccupant(ctx context.Context, k broker.Task, p taskcatalog.ProvisionUserParams) error {
	t.hint(HintNode, k.NodeID)
	const anew = `(allocations.certified_by <> '' OR NOT` + occupantWas + `)`
	_, err := t.ExecContext(ctx,
		`INSERT INTO allocations (node_id, allocation_id, username, tenant, had_root, task_id, since) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (node_id, allocation_id) DO UPDATE SET username = excluded.username,
			tenant = CASE WHEN excluded.tenant = '' THEN allocations.tenant ELSE excluded.tenant END,
			had_root = excluded.had_root OR (allocations.had_root AND allocations.certified_by = ''),
			task_id = CASE WHEN `+anew+` THEN excluded.task_id ELSE '' END,
			since = CASE WHEN allocations.ended_at = 0 THEN allocations.since ELSE excluded.since END,
			ended_at = 0, forced_by = '', certified_by = ''`,
		k.NodeID, p.AllocationID, p.Username, p.Tenant, p.Sudo, k.ID, sqlkit.Micros(t.now))
	return err
}

// endOccupant records that a node no longer has the user of an allocation.
func (t *tx) endOccupant(ctx context.Context, nodeID, allocationID string) error {
	t.hint(HintNode, nodeID)
	_, err := t.ExecContext(ctx, `UPDATE allocations SET ended_at = $1 WHERE node_id = $2 AND allocation_id = $3 AND ended_at = 0`,
		sqlkit.Micros(t.now), nodeID, allocationID)
	return err
}

// NodesInUse returns the nodes with a live occupant. Occupants of open transactions are
// missing: before an action on a node, call SettledOccupants.
func (db *DB) NodesInUse(ctx context.Context) (map[string]bool, error) {
	ids, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) { return id, row.Scan(&id) },
		`SELECT DISTINCT node_id FROM allocations WHERE certified_by = '' AND ended_at = 0 AND`+occupantWas)
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out, err
}
