package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// ofPeople are who moves nodes on a person's word.
func ofPeople(by broker.Owner) bool {
	return by == broker.OwnerOperator || by == broker.OwnerOverride || by == broker.OwnerRemoval
}

// inPeoplesHands refuses what a person may not do to a node just now. A node in
// the hands of a run is that run's to move while the run moves, because what is
// taken back from its machine rests on what the node is; and its record stays until
// the run has ended, because the machine comes back by it. To quarantine it is a
// person's at any time. Nobody lets in a node whose agent has never come, and only
// an override one without a baseline. Codes: node_in_run, not_enrolled.
func (t *tx) inPeoplesHands(ctx context.Context, n broker.Node, c Change) error {
	if !ofPeople(c.By) || c.To == broker.Quarantined {
		return nil
	}
	if c.To == broker.Active && (n.Epoch == 0 || n.BaselineDigest == "" && c.By != broker.OwnerOverride) {
		return broker.Errorf(broker.Refused, "not_enrolled", "cannot make node %s active: its agent has not come, or its baseline has not been taken (hostler node show %s)", n.ID, n.ID)
	}
	return nodeInRun(ctx, t, n, c.To, t.forUpdate())
}

// NodeInRun refuses what must not become of a node because a run has it: see
// inPeoplesHands. Callers who do more than a transition ask before they begin.
func (db *DB) NodeInRun(ctx context.Context, n broker.Node, to broker.NodeStatus) error {
	return nodeInRun(ctx, db.reader(), n, to, "")
}

func nodeInRun(ctx context.Context, r runner, n broker.Node, to broker.NodeStatus, lock string) error {
	var id, status string
	err := r.QueryRowContext(ctx, `SELECT id, status FROM chain_runs WHERE id IN (SELECT run_id FROM chain_locks WHERE name = $1)`+lock, "node/"+n.ID).Scan(&id, &status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case chain.Status(status).Moving():
		return broker.Errorf(broker.Refused, "node_in_run", "cannot make node %s %s: run %s has it, and is %s (wait until it ends, or cancel it)", n.ID, to, id, status)
	case to == broker.Deleted || to == broker.Removing:
		return broker.Errorf(broker.Refused, "node_in_run", "cannot make node %s %s: run %s has it, and is %s (cancel the run: it takes back what it made)", n.ID, to, id, status)
	}
	return nil
}
