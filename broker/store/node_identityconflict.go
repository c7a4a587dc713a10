package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// conflictCode is the code of an identity with two holders, in errors, events and the audit log.
const conflictCode = "identity_conflict"

// conflictOwners maps a node's status to the owner that quarantines the node on a conflict. In any
// other status the node serves nobody, so the conflict is only announced.
var conflictOwners = map[broker.NodeStatus]broker.Owner{
	broker.Active:   broker.OwnerReconciler,
	broker.Offline:  broker.OwnerReconciler,
	broker.Draining: broker.OwnerTurnover,
	broker.Retired:  broker.OwnerTurnover,
}

// identityConflict quarantines a node whose identity has two holders, and announces the conflict.
// No certificate is denied: the broker does not know which holder is the node, and a thief of the
// key must not be able to take the machine from its operator. See nodeapi's package documentation.
func (t *tx) identityConflict(ctx context.Context, n broker.Node, why string, remotes ...string) error {
	by, moves := conflictOwners[n.Status]
	before := n.Status
	if moves {
		moved, err := t.transition(ctx, broker.Actor{Name: "system"}, n.ID, Change{
			From: n.Status, To: broker.Quarantined, By: by, Reason: conflictCode + ": " + why,
		})
		if err != nil {
			return err
		}
		n = moved
	}
	if err := t.send(ctx, told{
		Site: n.Site, CorrelationID: correlationOf(ctx),
		Message: chain.Message{Type: IdentityConflictEvent, Subject: "node/" + n.ID, Data: map[string]any{
			"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "from": before, "to": n.Status, "reason": why, "remotes": remotes,
		}},
	}); err != nil {
		return err
	}
	e := entry(nodeActor(n.ID), "node.identity_conflict", n.ID)
	e.Code, e.Reason = conflictCode, why
	e.Before, e.After = small("status", before), small("status", n.Status, "remotes", remotes)
	return t.audit(ctx, e)
}

// secondHolder handles a request with an identity that a rotation replaces, without the new key.
// While the rotation is under way, the conflict is announced whenever the node could be handed out.
// After the rotation it is announced only once; otherwise a copy of an old key could quarantine the
// node for ever.
func (t *tx) secondHolder(ctx context.Context, n broker.Node, r Rotation, remote, what string) (*broker.Error, error) {
	why := fmt.Sprintf("%s (from %s); the certificate for the new key was issued to %s (task %s)", what, remote, r.Remote, r.TaskID)
	answer := broker.Errorf(broker.Forbidden, conflictCode, "cannot renew the certificate of node %s: %s", n.ID, why)
	_, moves := conflictOwners[n.Status]
	if r.ConflictAt.IsZero() || r.UsedAt.IsZero() && moves {
		if _, err := t.ExecContext(ctx, `UPDATE rotations SET conflict_at = $1 WHERE task_id = $2`, sqlkit.Micros(t.now),
			r.TaskID); err != nil {
			return nil, err
		}
		return answer, t.identityConflict(ctx, n, why, remote, r.Remote)
	}
	return nil, refuse(answer, entry(nodeActor(n.ID), "node.renew", n.ID))
}

// OldKeyRenews handles a renewal with a certificate that a rotation has replaced: the node no
// longer has that key. The error is the answer: code identity_conflict, audited.
func (db *DB) OldKeyRenews(ctx context.Context, nodeID, serial, remote string) error {
	var answer *broker.Error
	err := db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		answer, err = t.rotatedAway(ctx, n, serial, remote)
		return err
	})
	if err == nil {
		err = answer
	}
	return err
}

func (t *tx) rotatedAway(ctx context.Context, n broker.Node, serial, remote string) (*broker.Error, error) {
	r, ok, err := rotationWhere(ctx, t, `node_id = $1 AND used_at > 0 ORDER BY used_at DESC LIMIT 1`, n.ID)
	if err != nil {
		return nil, err
	}
	if !ok { // the certificate was denied by a rotation, so a rotation exists
		return nil, fmt.Errorf("node %s has no rotation that replaced certificate %s", n.ID, serial)
	}
	return t.secondHolder(ctx, n, r, remote, "a renewal request used certificate "+serial+", which a rotation has replaced")
}

// Poll is a node's poll, with the fields that distinguish running agents.
type Poll struct {
	NodeID   string
	Epoch    int64
	Instance string // empty: the agent has no instance id
	Remote   string
	Came     time.Time // arrival of the request, which may have waited since
}

// instance is a running agent that has polled.
type instance struct {
	Instance string `json:"instance"`
	Remote   string `json:"remote"`
}

const (
	// maxEarlier is how many replaced agents are remembered.
	maxEarlier = 8
	// lateFor is how long a poll of an ended agent may be on its way, and how far the clocks of two
	// brokers may differ, before the poll counts as later than its successor's.
	lateFor = 10 * time.Second
	// tellConflictEvery is how often a lasting conflict is announced; tellConflictOwed applies
	// while the node owes a turnover.
	tellConflictEvery = time.Hour
	tellConflictOwed  = time.Minute
)

// Polled records which running agent polls as a node. If a replaced agent polls again, both agents
// run: conflict is true, and the conflict is handled. A poll that merely was late changes nothing:
// judged is false, and the next poll must be examined again. An agent without an instance id
// replaces an agent with an id, but its return proves nothing: there may be many such agents. An
// unchanged poller costs only a read.
func (db *DB) Polled(ctx context.Context, p Poll) (judged, conflict bool, err error) {
	has, known, err := instances(ctx, db.reader(), p.NodeID)
	switch {
	case err != nil:
		return false, false, err
	case known && has.epoch == p.Epoch && has.Instance == p.Instance, (!known || has.epoch != p.Epoch) && p.Instance == "":
		return true, false, nil
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		judged, conflict = true, false
		n, err := node(ctx, t, p.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		if n.Epoch != p.Epoch {
			return superseded(n, p.Epoch)
		}
		has, known, err := instances(ctx, t, p.NodeID)
		switch {
		case err != nil:
			return err
		case !known || has.epoch != p.Epoch:
			has = polling{epoch: p.Epoch}
		case has.Instance == p.Instance:
			return nil
		default:
			conflict = has.had(p.Instance)
			if conflict && p.Came.Before(has.since.Add(lateFor)) {
				judged, conflict = false, false
				return nil
			}
			has.earlier = has.without(p.Instance)
			if has.Instance != "" {
				has.earlier = append([]instance{has.instance}, has.earlier...)
			}
			has.earlier = has.earlier[:min(len(has.earlier), maxEarlier)]
		}
		other := has.Remote
		has.instance, has.since = instance{p.Instance, p.Remote}, p.Came
		_, moves := conflictOwners[n.Status]
		every := tellConflictEvery
		if n.TurnoverOwed {
			every = tellConflictOwed
		}
		// A conflict over an earlier key does not count for this key.
		tell := conflict && (moves || t.now.Sub(has.toldAt) >= every || has.toldAt.Before(n.IdentitySince))
		if tell {
			has.toldAt = t.now
		}
		if err := t.putInstances(ctx, p.NodeID, has); err != nil || !tell {
			return err
		}
		return t.identityConflict(ctx, n, fmt.Sprintf("two agents poll with the identity of this node, from %s and from %s", p.Remote,
			other), p.Remote, other)
	})
	return judged, conflict && err == nil, err
}

// polling is the agent that polls as a node, and its predecessors.
type polling struct {
	instance
	epoch         int64
	since, toldAt time.Time
	earlier       []instance // newest first
}

func (p polling) had(id string) bool { return len(p.without(id)) < len(p.earlier) }

func (p polling) without(id string) []instance {
	var rest []instance
	for _, i := range p.earlier {
		if i.Instance != id {
			rest = append(rest, i)
		}
	}
	return rest
}

// IdentityConflict returns when the node's present identity, or an identity replaced by its last
// rotation, was last seen with two holders; zero: not since the node has its present identity.
func (db *DB) IdentityConflict(ctx context.Context, nodeID string) (time.Time, error) {
	return identityConflictAt(ctx, db.reader(), nodeID)
}

func identityConflictAt(ctx context.Context, r sqlkit.Runner, nodeID string) (seen time.Time, err error) {
	err = r.QueryRowContext(ctx, `SELECT COALESCE(MAX(seen), 0) FROM (
		SELECT conflict_at AS seen FROM rotations WHERE node_id = $1
		UNION ALL SELECT told_at FROM node_instances WHERE node_id = $1) AS conflicts
		WHERE seen > 0 AND seen >= (SELECT identity_since FROM nodes WHERE id = $1)`, nodeID).Scan(sqlkit.ScanMicros(&seen))
	return seen, err
}

func instances(ctx context.Context, r sqlkit.Runner, nodeID string) (p polling, known bool, err error) {
	err = r.QueryRowContext(ctx, `SELECT epoch, present, remote, since, earlier, told_at FROM node_instances WHERE node_id = $1`, nodeID).
		Scan(&p.epoch, &p.Instance, &p.Remote, sqlkit.ScanMicros(&p.since), sqlkit.ScanJSON(&p.earlier), sqlkit.ScanMicros(&p.toldAt))
	if errors.Is(err, sql.ErrNoRows) {
		return p, false, nil
	}
	return p, err == nil, err
}

func (t *tx) putInstances(ctx context.Context, nodeID string, p polling) error {
	if p.earlier == nil {
		p.earlier = []instance{}
	}
	_, err := t.ExecContext(ctx,
		`INSERT INTO node_instances (node_id, epoch, present, remote, since, earlier, told_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (node_id) DO UPDATE SET epoch = $2, present = $3, remote = $4, since = $5, earlier = $6, told_at = $7`,
		nodeID, p.epoch, p.Instance, p.Remote, sqlkit.Micros(p.since), sqlkit.JSON(p.earlier), sqlkit.Micros(p.toldAt))
	return err
}
