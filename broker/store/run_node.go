package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// ofPeople reports whether the owner acts on a person's decision.
func ofPeople(by broker.Owner) bool {
	return by == broker.OwnerOperator || by == broker.OwnerOverride || by == broker.OwnerRemoval
}

// inPeoplesHands refuses actions on a node that a person may not take just now. While a run that
// has the node moves, only the run changes the node's status, because undoing the changes to the
// machine depends on that status. The node's record stays until the run has ended, because the undo
// needs the record. A person may quarantine a node at any time. A node whose agent has never come
// cannot be let in; a node without a baseline, or with a machine that its run would refuse, only by
// an override. The node of a stopped turnover cannot be let in before the turnover is cancelled.
// Codes: node_in_run, not_enrolled, hardware_mismatch, hardware_unknown.
func (t *tx) inPeoplesHands(ctx context.Context, n broker.Node, c Change) error {
	if !ofPeople(c.By) || c.To == broker.Quarantined {
		return nil
	}
	if c.To == broker.Active && (n.Epoch == 0 || n.BaselineDigest == "" && c.By != broker.OwnerOverride) {
		return broker.Errorf(broker.Refused, "not_enrolled",
			"cannot make node %s active: its agent has not enrolled, or it has no baseline (see hostler node show %s)", n.ID, n.ID)
	}
	if err := nodeInRun(ctx, t, n, c.To, t.ForUpdate()); err != nil {
		return err
	}
	return t.fitToLetIn(ctx, n, c)
}

// WasLetIn reports whether a node was ever fit for service: its baseline is taken, and, if a run
// made the node, its parts are recorded.
func (db *DB) WasLetIn(ctx context.Context, nodeID string) (was bool, err error) {
	err = db.reader().QueryRowContext(ctx,
		`SELECT epoch > 0 AND baseline_digest <> '' AND (made_by_run = '' OR devices_taken_at > 0) FROM nodes WHERE id = $1`,
		nodeID).Scan(&was)
	return was, err
}

// fitToLetIn applies the run's own hardware check when a person lets in the node of a run for the
// first time: from then on the reported parts are the expected parts.
func (t *tx) fitToLetIn(ctx context.Context, n broker.Node, c Change) error {
	if c.To != broker.Active || c.By != broker.OwnerOperator || c.Hardware == nil {
		return nil
	}
	var first bool
	if err := t.QueryRowContext(ctx, `SELECT made_by_run <> '' AND devices_taken_at = 0 FROM nodes WHERE id = $1`,
		n.ID).Scan(&first); err != nil || !first {
		return err
	}
	unlike, lacks, err := t.judge(ctx, n, c.Hardware)
	switch {
	case err != nil:
		return err
	case unlike != "":
		return broker.Errorf(broker.Refused, "hardware_mismatch",
			"cannot make node %s active: %s (see hostler node device list %s; to accept a replaced disk: hostler node device accept %s SERIAL --reason R; to activate the node regardless: hostler node activate %s --override --reason R)",
			n.ID, unlike, n.ID, n.ID, n.ID)
	case lacks != "":
		return broker.Errorf(broker.Refused, "hardware_unknown",
			"cannot make node %s active: %s (to activate the node regardless: hostler node activate %s --override --reason R)", n.ID, lacks,
			n.ID)
	}
	return nil
}

// NodeInRun refuses a status that a node must not get because a run has the node: see
// inPeoplesHands. Callers with more work than a transition call NodeInRun first.
func (db *DB) NodeInRun(ctx context.Context, n broker.Node, to broker.NodeStatus) error {
	return nodeInRun(ctx, db.reader(), n, to, "")
}

func nodeInRun(ctx context.Context, r sqlkit.Runner, n broker.Node, to broker.NodeStatus, lock string) error {
	var id, status, kind string
	err := r.QueryRowContext(ctx, `SELECT id, status, kind FROM chain_runs WHERE id IN (SELECT run_id FROM chain_locks WHERE name = $1)`+
		lock, "node/"+n.ID).Scan(&id, &status, &kind)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case chain.Status(status).Moving():
		return broker.Errorf(broker.Refused, "node_in_run",
			"cannot make node %s %s: run %s holds the node and is %s (wait until the run ends, or cancel it)", n.ID, to, id, status)
	case to == broker.Deleted || to == broker.Removing:
		return broker.Errorf(broker.Refused, "node_in_run",
			"cannot make node %s %s: run %s holds the node and is %s (cancel the run: it undoes its changes)", n.ID, to, id, status)
	case to == broker.Active && broker.RunKindOf(kind).TurnsOver:
		// The run would keep every tenant out, and its cancellation would quarantine the node
		// again.
		return broker.Errorf(broker.Refused, "node_in_run",
			"cannot make node %s active: turnover %s holds the node and is %s (resume the turnover: hostler decommission resume %s; or cancel it: hostler decommission cancel %s --reason R, then hostler node activate %s --override --reason R)", n.ID, id, status, id, id, n.ID)
	}
	return nil
}

// RunOfNode returns the live run that has a node, and its kind; empty: none.
func (db *DB) RunOfNode(ctx context.Context, nodeID string) (id, kind string, err error) {
	return runOfNode(ctx, db.reader(), nodeID)
}

func runOfNode(ctx context.Context, r sqlkit.Runner, nodeID string) (id, kind string, err error) {
	err = r.QueryRowContext(ctx, `SELECT id, kind FROM chain_runs WHERE id IN (SELECT run_id FROM chain_locks WHERE name = $1)`,
		"node/"+nodeID).Scan(&id, &kind)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, kind, err
}

// NodeOfRun returns the node that a live run has; empty: none.
func (db *DB) NodeOfRun(ctx context.Context, runID string) (nodeID string, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT name FROM chain_locks WHERE run_id = $1 AND name LIKE 'node/%'`, runID).Scan(&nodeID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return strings.TrimPrefix(nodeID, "node/"), err
}
