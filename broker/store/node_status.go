package store

import (
	"cmp"
	"context"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Change is a change of a node's status.
type Change struct {
	From broker.NodeStatus // empty: any status; else a node in another status is left alone
	To   broker.NodeStatus
	By   broker.Owner
	// Owners maps the present status to the owner of the change, and replaces By; a node in any
	// other status is left alone. Nil: By applies, with From.
	Owners        map[broker.NodeStatus]broker.Owner
	Reason        string
	CorrelationID string
	// OweTurnover and ClearTurnover change the owed mark in the same transaction; ClearTurnover
	// applies before the transition is judged.
	OweTurnover, ClearTurnover bool
	// Hardware is the check that applies when an operator makes a node active that a run made and
	// that was never let in. nil: no check.
	Hardware Hardware
}

// Transition changes a node's status, if broker.Transition permits the change. A node that already
// has the status keeps it, without an error. If the broker's checks had quarantined the node and a
// person quarantines it too, the quarantine becomes the person's, with the person's reason. A
// refusal is audited. Codes: node_not_found, transition_refused, turnover_owed, and for a person's
// change node_in_run, not_enrolled, hardware_mismatch, hardware_unknown.
func (db *DB) Transition(ctx context.Context, actor broker.Actor, nodeID string, c Change) (n broker.Node, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err = t.transition(ctx, actor, nodeID, c)
		return err
	})
	return n, err
}

func (t *tx) transition(ctx context.Context, actor broker.Actor, nodeID string, c Change) (broker.Node, error) {
	n, err := node(ctx, t, nodeID, t.ForUpdate())
	if err != nil {
		return n, err
	}
	if c.From != "" && n.Status != c.From {
		return n, nil
	}
	if c.Owners != nil {
		by, moves := c.Owners[n.Status]
		if !moves {
			return n, nil
		}
		c.By = by
	}
	e := entry(actor, "node.transition", nodeID)
	e.CorrelationID = c.CorrelationID
	e.Before = small("status", n.Status, "turnover_owed", n.TurnoverOwed)
	next := n
	// The override is a platform admin's statement that the turnover is not needed.
	next.TurnoverOwed = (n.TurnoverOwed || c.OweTurnover) && !c.ClearTurnover && c.By != broker.OwnerOverride
	if n.Status != c.To {
		judged := n
		judged.TurnoverOwed = n.TurnoverOwed && !c.ClearTurnover
		if err := broker.Transition(judged, c.To, c.By); err != nil {
			return n, refuse(broker.AsError(err), e)
		}
		if err := t.inPeoplesHands(ctx, n, c); err != nil {
			if r, ok := errors.AsType[*broker.Error](err); ok {
				return n, refuse(r, e)
			}
			return n, err
		}
		next.Status, next.StatusReason = c.To, c.Reason
	}
	takenOver, err := t.quarantinedBy(ctx, n, c)
	if err != nil {
		return n, err
	}
	if takenOver {
		next.StatusReason = cmp.Or(c.Reason, n.StatusReason)
	}
	passed, err := t.passed(ctx, n, c)
	if err != nil {
		return n, err
	}
	letIn, err := t.letInAgain(ctx, n, c)
	if err != nil {
		return n, err
	}
	if next.Status == n.Status && next.TurnoverOwed == n.TurnoverOwed && !takenOver && !passed && !letIn {
		return n, nil
	}
	next.UpdatedAt = t.now
	if _, err := t.ExecContext(ctx, `UPDATE nodes SET status = $1, status_reason = $2, turnover_owed = $3, updated_at = $4 WHERE id = $5`,
		string(next.Status), next.StatusReason, next.TurnoverOwed, sqlkit.Micros(t.now), nodeID); err != nil {
		return n, err
	}
	t.hint(HintNode, nodeID) // the mark may have changed alone
	if err := t.transitioned(ctx, actor, n, next, c.CorrelationID); err != nil {
		return n, err
	}
	e.Reason = c.Reason
	e.After = small("status", next.Status, "turnover_owed", next.TurnoverOwed, "owner", c.By)
	if letIn {
		e.Before = small("status", n.Status, "turnover_owed", n.TurnoverOwed, "provisioning", "failing")
	}
	return next, t.audit(ctx, e)
}

// quarantinedBy records who quarantines a node. A person's decision takes precedence over an earlier
// decision of the checks: takenOver reports that a person quarantines a node that the checks had
// quarantined.
func (t *tx) quarantinedBy(ctx context.Context, n broker.Node, c Change) (takenOver bool, err error) {
	if c.To != broker.Quarantined || n.Status == broker.Quarantined && !ofPeople(c.By) {
		return false, nil
	}
	rows, err := sqlkit.Changed(t.ExecContext(ctx, `UPDATE nodes SET kept_out_by = $1 WHERE id = $2 AND kept_out_by <> $1`, string(c.By),
		n.ID))
	return rows > 0 && n.Status == broker.Quarantined, err
}

// transitioned does what else follows from a change of a node's status or owed mark, from n to next.
func (t *tx) transitioned(ctx context.Context, actor broker.Actor, n, next broker.Node, correlationID string) error {
	if err := t.markOutage(ctx, n, next); err != nil {
		return err
	}
	if next.Status == broker.Retired {
		if err := t.shutRestored(ctx, n.ID); err != nil {
			return err
		}
	}
	if next.Status == broker.Deleted && n.Status != broker.Deleted {
		if err := t.closeNode(ctx, actor, n.ID); err != nil {
			return err
		}
	}
	if next.Status == broker.Active && n.Status != broker.Active && n.Status != broker.Offline {
		if err := t.takeDevices(ctx, actor, n.ID); err != nil {
			return err
		}
	}
	if next.Status == n.Status {
		return nil
	}
	return t.tellStatus(ctx, next, n.Status, actor.Name, cmp.Or(correlationID, correlationOf(ctx)))
}

// passed records that a person takes responsibility for using a node in its present state: see
// broker.Handout.OverrideAt.
func (t *tx) passed(ctx context.Context, n broker.Node, c Change) (bool, error) {
	if c.By != broker.OwnerOverride || c.To != broker.Active {
		return false, nil
	}
	_, err := t.ExecContext(ctx, `UPDATE nodes SET override_at = $1 WHERE id = $2`, sqlkit.Micros(t.now), n.ID)
	return err == nil, err
}

// closeNode withdraws a deleted node's means to come back: certificates, tokens, open tasks.
func (t *tx) closeNode(ctx context.Context, actor broker.Actor, nodeID string) error {
	if err := t.denyWhere(ctx, "node_deleted", `node_id = $3`, nodeID); err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, `UPDATE enroll_tokens SET void_at = $1 WHERE node_id = $2 AND consumed_at = 0 AND void_at = 0`,
		sqlkit.Micros(t.now), nodeID); err != nil {
		return err
	}
	return t.failOpen(ctx, actor, nodeID, 1<<62, "node_deleted")
}
