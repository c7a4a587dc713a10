package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

const agentColumns = `node_id, channel, pinned_version, delivery_mode, reported_commit, reported_digest, reported_at, attempt_at, result, reason, seconds, correlation_id`

func scanAgent(row interface{ Scan(...any) error }) (a broker.Agent, err error) {
	err = row.Scan(&a.NodeID, &a.Channel, &a.Pinned, &a.Mode, &a.Commit, &a.SHA256, at(&a.ReportedAt), at(&a.AttemptAt), &a.Result, &a.Reason, &a.Seconds, &a.CorrelationID)
	return a, err
}

// Agent is what is wanted of a node's agent, and what is known of it.
func (db *DB) Agent(ctx context.Context, nodeID string) (broker.Agent, error) {
	return agent(ctx, db.reader(), nodeID, "")
}

func agent(ctx context.Context, r runner, nodeID, lock string) (broker.Agent, error) {
	a, err := scanAgent(r.QueryRowContext(ctx, `SELECT `+agentColumns+` FROM node_agents WHERE node_id = $1`+lock, nodeID))
	if errors.Is(err, sql.ErrNoRows) {
		return broker.NewAgent(nodeID), nil
	}
	return a, err
}

// Agents are those of all nodes that anything is known of, by node.
func (db *DB) Agents(ctx context.Context) (map[string]broker.Agent, error) {
	all, err := collect(ctx, db.reader(), scanAgent, `SELECT `+agentColumns+` FROM node_agents`)
	out := make(map[string]broker.Agent, len(all))
	for _, a := range all {
		out[a.NodeID] = a
	}
	return out, err
}

// WantAgent says what a node's agent shall be, and how it is to come there. Code:
// node_not_found.
func (db *DB) WantAgent(ctx context.Context, actor broker.Actor, nodeID string, channel broker.AgentChannel, pinned string, mode broker.DeliveryMode, reason string) (a broker.Agent, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := t.ownAgent(ctx, nodeID)
		if err != nil {
			return err
		}
		a = before
		a.Channel, a.Pinned, a.Mode = channel, pinned, mode
		if a == before {
			return nil
		}
		if _, err := t.ExecContext(ctx, `UPDATE node_agents SET channel = $1, pinned_version = $2, delivery_mode = $3 WHERE node_id = $4`, string(channel), pinned, string(mode), nodeID); err != nil {
			return err
		}
		e := entry(actor, "agent.want", nodeID)
		e.Reason = reason
		e.Before = small("agent_channel", before.Channel, "pinned_version", before.Pinned, "desired_delivery_mode", before.Mode)
		e.After = small("agent_channel", channel, "pinned_version", pinned, "desired_delivery_mode", mode)
		return t.audit(ctx, e)
	})
	return a, err
}

// ownAgent is a node's row, made where there is none, and locked.
func (t *tx) ownAgent(ctx context.Context, nodeID string) (broker.Agent, error) {
	if _, err := node(ctx, t, nodeID, t.forUpdate()); err != nil {
		return broker.Agent{}, err
	}
	fresh := broker.NewAgent(nodeID)
	if _, err := t.ExecContext(ctx, `INSERT INTO node_agents (node_id, channel, delivery_mode) VALUES ($1, $2, $3) ON CONFLICT (node_id) DO NOTHING`, nodeID, string(fresh.Channel), string(fresh.Mode)); err != nil {
		return fresh, err
	}
	return agent(ctx, t, nodeID, t.forUpdate())
}

// Delivery is how an agent comes to a node, or came.
type Delivery struct {
	NodeID        string
	CorrelationID string
	At            time.Time // when it began
	Result        string    // running, or the outcome
	Reason        string    // code
	Seconds       int64
}

// Deliver notes how a delivery goes. One that began before the last one changes nothing.
func (db *DB) Deliver(ctx context.Context, d Delivery) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		if _, err := t.ownAgent(ctx, d.NodeID); err != nil {
			return err
		}
		return t.deliver(ctx, d)
	})
}

func (t *tx) deliver(ctx context.Context, d Delivery) error {
	_, err := t.ExecContext(ctx, `UPDATE node_agents SET attempt_at = $1, result = $2, reason = $3, seconds = $4, correlation_id = $5 WHERE node_id = $6 AND attempt_at <= $1`,
		micros(d.At), d.Result, d.Reason, d.Seconds, d.CorrelationID, d.NodeID)
	return err
}

// saveBuild keeps which program a node says that it runs, and what became of the last
// update, if no run tells of it: one that a person has done there, a task of its own, or
// one that was confirmed and has been put back since.
func (t *tx) saveBuild(ctx context.Context, nodeID string, b *taskcatalog.AgentBuild) error {
	if b == nil {
		b = new(taskcatalog.AgentBuild) // an agent from before it told: what was known is of another
	}
	a, err := t.ownAgent(ctx, nodeID)
	if err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, `UPDATE node_agents SET reported_commit = $1, reported_digest = $2, reported_at = $3 WHERE node_id = $4`, b.Commit, b.SHA256, micros(t.now), nodeID); err != nil {
		return err
	}
	d := b.Delivery
	if d == nil {
		return nil
	}
	var run string
	if err := t.QueryRowContext(ctx, `SELECT COALESCE(MAX(chain_runs.id), '') FROM tasks JOIN chain_runs ON chain_runs.id = tasks.correlation_id WHERE tasks.id = $1 AND tasks.node_id = $2`, d.ID, nodeID).Scan(&run); err != nil {
		return err
	}
	id := cmp.Or(run, d.ID)
	when := d.At
	if when.IsZero() || when.After(t.now) { // by the node's clock
		when = t.now
	}
	// What a run has asked for it tells itself, from the task's own result. But a version
	// that was confirmed may be put back after that, and then the node alone knows.
	putBack := id == a.CorrelationID && a.Result == string(taskcatalog.UpdateConfirmed) && d.Outcome == taskcatalog.UpdateRolledBack
	switch {
	case putBack:
		when = t.now
	case run != "" || id == a.CorrelationID:
		return nil
	}
	return t.deliver(ctx, Delivery{NodeID: nodeID, CorrelationID: id, At: when, Result: string(d.Outcome), Reason: string(d.Reason), Seconds: int64(max(d.SwitchSeconds, 0) + 0.999)})
}

// AskReport forgets what a node reported, so that it is asked for it: it answers by a
// renewal of its certificate.
func (db *DB) AskReport(ctx context.Context, nodeID string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE nodes SET report_digest = '' WHERE id = $1`, nodeID)
		return err
	})
}

// RenewedAt is when a node was given a certificate last; zero: never.
func (db *DB) RenewedAt(ctx context.Context, nodeID string) (renewed time.Time, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT COALESCE(MAX(issued_at), 0) FROM certificates WHERE node_id = $1`, nodeID).Scan(at(&renewed))
	return renewed, err
}
