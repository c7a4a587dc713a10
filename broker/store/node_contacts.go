package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// FirstContact handles an authenticated request of an epoch, and does its work at the first such
// request: the token is spent, certificates of earlier epochs are denied, and open tasks of earlier
// epochs fail with node_reenrolled. first reports whether this call was the first. Codes:
// node_not_found, epoch_superseded.
//
// Later calls only read: after a broker's start every node calls, and none for the first time.
func (db *DB) FirstContact(ctx context.Context, nodeID string, epoch int64, serial string) (first bool, err error) {
	var has, contacted int64
	if err := db.reader().QueryRowContext(ctx, `SELECT epoch, contacted_epoch FROM nodes WHERE id = $1`, nodeID).Scan(&has,
		&contacted); err == nil && has == epoch && contacted >= epoch {
		return false, nil
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		first = false
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		if n.Epoch != epoch {
			return superseded(n, epoch)
		}
		done, err := sqlkit.Changed(t.ExecContext(ctx,
			`UPDATE nodes SET contacted_epoch = $1, last_contact_at = $2, updated_at = $2 WHERE id = $3 AND contacted_epoch < $1`, epoch,
			sqlkit.Micros(t.now), nodeID))
		if err != nil || done == 0 {
			return err
		}
		first = true
		if _, err := t.ExecContext(ctx, `UPDATE enroll_tokens SET consumed_at = $1 WHERE node_id = $2 AND used_at > 0 AND consumed_at = 0`,
			sqlkit.Micros(t.now), nodeID); err != nil {
			return err
		}
		if err := t.denyWhere(ctx, "node_reenrolled", `node_id = $3 AND epoch < $4`, nodeID, epoch); err != nil {
			return err
		}
		if err := t.failOpen(ctx, nodeActor(nodeID), nodeID, epoch, "node_reenrolled"); err != nil {
			return err
		}
		e := entry(nodeActor(nodeID), "node.first_contact", nodeID)
		e.After = small("epoch", epoch, "serial", serial)
		return t.audit(ctx, e)
	})
	return first && err == nil, err
}

// TouchNodes writes the times at which nodes were last heard: a batch of heartbeats. It never
// changes a status and never goes back in time.
func (db *DB) TouchNodes(ctx context.Context, heard map[string]time.Time) error {
	if len(heard) == 0 {
		return nil
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		for ids := range slices.Chunk(sortedKeys(heard), touchBatch) {
			var rows strings.Builder
			args := make([]any, 0, 2*len(ids))
			for _, id := range ids {
				args = append(args, id, sqlkit.Micros(heard[id]))
				fmt.Fprintf(&rows, ", (CAST($%d AS TEXT), CAST($%d AS BIGINT))", len(args)-1, len(args))
			}
			if _, err := t.ExecContext(ctx, `WITH heard (id, at) AS (VALUES `+strings.TrimPrefix(rows.String(), ", ")+`)
				UPDATE nodes SET last_contact_at = heard.at FROM heard WHERE nodes.id = heard.id AND nodes.last_contact_at < heard.at`, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// HeardSince counts the active nodes of each site heard at or after since, and returns the other
// active or offline nodes with site, status, turnover owed and last contact.
func (db *DB) HeardSince(ctx context.Context, since time.Time) (heard map[string]int, others []broker.Node, err error) {
	heard = map[string]int{}
	_, err = sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n broker.Node, err error) {
		var counted int
		err = row.Scan(&n.ID, &n.Site, &n.Status, &n.TurnoverOwed, sqlkit.ScanMicros(&n.LastAgentContactAt), &counted)
		if n.ID == "" {
			heard[n.Site] = counted
		} else {
			others = append(others, n)
		}
		return n, err
	}, `SELECT id, site, status, turnover_owed, last_contact_at, 0 FROM nodes WHERE status = 'offline' OR status = 'active' AND last_contact_at < $1
		UNION ALL SELECT '', site, 'active', FALSE, 0, COUNT(*) FROM nodes WHERE status = 'active' AND last_contact_at >= $1 GROUP BY site
		ORDER BY 1`, sqlkit.Micros(since))
	return heard, others, err
}

// touchBatch is how many nodes' contacts a statement writes.
const touchBatch = 500

// saveReport records a node's report on itself; a change is audited.
func (t *tx) saveReport(ctx context.Context, n *broker.Node, r NodeReport) error {
	if n.ReportDigest == r.Digest && n.AgentVersion == r.AgentVersion {
		return nil
	}
	e := entry(nodeActor(n.ID), "node.report", n.ID)
	e.Before = small("agent_version", n.AgentVersion, "task_types", n.TaskTypes, "capabilities", n.Capabilities)
	e.After = small("agent_version", r.AgentVersion, "task_types", r.TaskTypes, "capabilities", r.Capabilities)
	n.AgentVersion, n.TaskTypes, n.Capabilities, n.ReportDigest, n.UpdatedAt = r.AgentVersion, r.TaskTypes, r.Capabilities, r.Digest, t.now
	if _, err := t.ExecContext(ctx,
		`UPDATE nodes SET agent_version = $1, task_types = $2, capabilities = $3, report_digest = $4, updated_at = $5 WHERE id = $6`,
		r.AgentVersion, listText(r.TaskTypes), mapText(r.Capabilities), r.Digest, sqlkit.Micros(t.now), n.ID); err != nil {
		return err
	}
	if err := t.saveFacts(ctx, n.ID, r.Facts); err != nil {
		return err
	}
	if err := t.saveBuild(ctx, n.ID, r.Agent); err != nil {
		return err
	}
	if err := t.rewant(ctx, n); err != nil {
		return err
	}
	// A report may show that a node has another profile set than confirmed. Only a succeeded
	// node.resolver_config task proves that the node has its assigned profile set.
	if digest := r.Capabilities[taskcatalog.CapabilityResolverDigest]; digest != n.ResolverDigest && digest != n.ResolverWanted {
		if err := t.confirmResolver(ctx, n, digest); err != nil {
			return err
		}
	}
	return t.audit(ctx, e)
}

// ConfirmTrust records the bundle version that a node has in force. The version never goes back
// within an enrolment. A version that was never issued changes nothing and is audited
// (trust_version_unknown).
func (db *DB) ConfirmTrust(ctx context.Context, nodeID string, version int64) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		return t.confirmTrust(ctx, &n, version)
	})
}

func (t *tx) confirmTrust(ctx context.Context, n *broker.Node, version int64) error {
	if version <= n.TrustVersion {
		return nil
	}
	// A node cannot have a bundle that was never issued.
	var known int64
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM trust_bundles WHERE version = $1`, version).Scan(&known); err != nil {
		return err
	}
	e := entry(nodeActor(n.ID), "trust.confirm", n.ID)
	e.Before, e.After = small("trust_version", n.TrustVersion), small("trust_version", version)
	if known == 0 {
		e.Code, e.Reason = "trust_version_unknown", "the node reports a trust bundle that was never issued"
		return t.audit(ctx, e)
	}
	n.TrustVersion, n.UpdatedAt = version, t.now
	if _, err := t.ExecContext(ctx, `UPDATE nodes SET trust_version = $1, updated_at = $2 WHERE id = $3`, version, sqlkit.Micros(t.now),
		n.ID); err != nil {
		return err
	}
	return t.audit(ctx, e)
}

// Heard is the version that an agent last reported, and the time of its last contact.
type Heard struct {
	Version string
	At      time.Time
}

// Heard returns the last contact of nodes; deleted nodes are left out.
func (db *DB) Heard(ctx context.Context, nodeIDs []string) (map[string]Heard, error) {
	out := make(map[string]Heard, len(nodeIDs))
	for ids := range slices.Chunk(nodeIDs, 500) {
		var w sqlkit.Where
		sqlkit.In(&w, "id", ids)
		w.Add("status <> 'deleted'")
		_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) {
			var h Heard
			err = row.Scan(&id, &h.Version, sqlkit.ScanMicros(&h.At))
			out[id] = h
			return id, err
		}, `SELECT id, agent_version, last_contact_at FROM nodes`+w.String(), w.Args...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Record is a broker's working data about a node in contact.
type Record struct {
	Epoch        int64
	Status       broker.NodeStatus
	TrustVersion int64
	ReportDigest string
	// Instance is the running agent that polled last in this epoch; Polled: an agent has polled.
	Instance string
	Polled   bool
}

// Records returns the records of nodes, up to 500 per query; unknown ids are left out.
func (db *DB) Records(ctx context.Context, nodeIDs []string) (map[string]Record, error) {
	out := make(map[string]Record, len(nodeIDs))
	for ids := range slices.Chunk(nodeIDs, 500) {
		var w sqlkit.Where
		sqlkit.In(&w, "nodes.id", ids)
		_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) {
			var r Record
			err = row.Scan(&id, &r.Epoch, &r.Status, &r.TrustVersion, &r.ReportDigest, &r.Polled, &r.Instance)
			out[id] = r
			return id, err
		}, `SELECT nodes.id, nodes.epoch, nodes.status, nodes.trust_version, nodes.report_digest, i.node_id IS NOT NULL, COALESCE(i.present, '')
			FROM nodes LEFT JOIN node_instances i ON i.node_id = nodes.id AND i.epoch = nodes.epoch`+w.String(), w.Args...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
