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

const agentColumns = `node_id, channel, pinned_version, delivery_mode, reported_commit, reported_digest, reported_at, attempt_at, result, reason, seconds, correlation_id, delivery_id, previous_version, pins`

func scanAgent(row sqlkit.Row) (a broker.Agent, err error) {
	err = row.Scan(&a.NodeID, &a.Channel, &a.Pinned, &a.Mode, &a.Commit, &a.SHA256, sqlkit.ScanMicros(&a.ReportedAt),
		sqlkit.ScanMicros(&a.AttemptAt), &a.Result, &a.Reason, &a.Seconds, &a.CorrelationID, &a.DeliveryID, &a.Previous,
		sqlkit.ScanJSON(&a.Pins))
	return a, err
}

// Agent returns the wanted and the known state of a node's agent.
func (db *DB) Agent(ctx context.Context, nodeID string) (broker.Agent, error) {
	return agent(ctx, db.reader(), nodeID, "")
}

func agent(ctx context.Context, r sqlkit.Runner, nodeID, lock string) (broker.Agent, error) {
	a, err := scanAgent(r.QueryRowContext(ctx, `SELECT `+agentColumns+` FROM node_agents WHERE node_id = $1`+lock, nodeID))
	if errors.Is(err, sql.ErrNoRows) {
		return broker.NewAgent(nodeID), nil
	}
	return a, err
}

// Agents returns the recorded agents of all nodes, by node.
func (db *DB) Agents(ctx context.Context) (map[string]broker.Agent, error) {
	all, err := sqlkit.Collect(ctx, db.reader(), scanAgent, `SELECT `+agentColumns+` FROM node_agents`)
	out := make(map[string]broker.Agent, len(all))
	for _, a := range all {
		out[a.NodeID] = a
	}
	return out, err
}

// WantAgent sets the wanted channel, version and delivery mode of a node's agent. Code:
// node_not_found.
func (db *DB) WantAgent(
	ctx context.Context, actor broker.Actor, nodeID string, channel broker.AgentChannel, pinned string, mode broker.DeliveryMode,
	reason string,
) (a broker.Agent, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := t.ownAgent(ctx, nodeID)
		if err != nil {
			return err
		}
		a = before
		a.Channel, a.Pinned, a.Mode = channel, pinned, mode
		if a.Channel == before.Channel && a.Pinned == before.Pinned && a.Mode == before.Mode {
			return nil
		}
		if _, err := t.ExecContext(ctx, `UPDATE node_agents SET channel = $1, pinned_version = $2, delivery_mode = $3 WHERE node_id = $4`,
			string(channel), pinned, string(mode), nodeID); err != nil {
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

// ownAgent returns a node's agent row, created if missing, and locked.
func (t *tx) ownAgent(ctx context.Context, nodeID string) (broker.Agent, error) {
	if _, err := node(ctx, t, nodeID, t.ForUpdate()); err != nil {
		return broker.Agent{}, err
	}
	fresh := broker.NewAgent(nodeID)
	if _, err := t.ExecContext(ctx,
		`INSERT INTO node_agents (node_id, channel, delivery_mode) VALUES ($1, $2, $3) ON CONFLICT (node_id) DO NOTHING`, nodeID,
		string(fresh.Channel), string(fresh.Mode)); err != nil {
		return fresh, err
	}
	return agent(ctx, t, nodeID, t.ForUpdate())
}

// saveBuild stores the program that a node reports to run, and the outcome of its last update.
func (t *tx) saveBuild(ctx context.Context, nodeID string, b *taskcatalog.AgentBuild) error {
	if b == nil {
		b = new(taskcatalog.AgentBuild) // an older agent that does not report its build: the stored build is of another agent
	}
	a, err := t.ownAgent(ctx, nodeID)
	if err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx,
		`UPDATE node_agents SET reported_commit = $1, reported_digest = $2, reported_at = $3, previous_version = $4, pins = $5 WHERE node_id = $6`, b.Commit, b.SHA256, sqlkit.Micros(t.now), b.Previous, sqlkit.JSON(b.Pins), nodeID); err != nil {
		return err
	}
	return t.hearDelivery(ctx, a, b.Delivery)
}

// AskReport deletes the digest of a node's report, so that the broker asks the node for a report.
// The node answers with a renewal of its certificate.
func (db *DB) AskReport(ctx context.Context, nodeID string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error { return t.askReport(ctx, nodeID) })
}

func (t *tx) askReport(ctx context.Context, nodeID string) error {
	_, err := t.ExecContext(ctx, `UPDATE nodes SET report_digest = '' WHERE id = $1`, nodeID)
	return err
}

// RenewedAt returns when a node last got a certificate; zero: never.
func (db *DB) RenewedAt(ctx context.Context, nodeID string) (renewed time.Time, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT COALESCE(MAX(issued_at), 0) FROM certificates WHERE node_id = $1`,
		nodeID).Scan(sqlkit.ScanMicros(&renewed))
	return renewed, err
}
