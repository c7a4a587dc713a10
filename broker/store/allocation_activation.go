package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// madeReady is a node of an allocation that is about to become active.
type madeReady struct {
	node             broker.Node
	claimed          bool
	enrolled         time.Time // when the node was last enrolled
	since, ended     time.Time // of the tenant's user; zero since: there is no user
	forced           string    // the run that ended the user by force
	certified        string    // the certificate that has followed the user
	drift            string    // rule of an open drift by which the machine is the node's no more
	driftSince       time.Time
	provenSinceEnrol bool // the run made the user in the present enrolment
}

// stillTheTenants refuses to make an allocation active unless each of its nodes is still the tenant's: a run may
// have waited for days since a node was made ready. runID is the run that made the nodes ready. No node is locked: what
// becomes of a node after this look happens to an active allocation. Codes: node_taken, node_offline.
func (t *tx) stillTheTenants(ctx context.Context, a broker.Allocation, runID string) error {
	all, err := sqlkit.Collect(ctx, t, func(row sqlkit.Row) (m madeReady, err error) {
		err = row.Scan(&m.node.ID, &m.node.Status, &m.node.StatusReason, &m.claimed, sqlkit.ScanMicros(&m.enrolled),
			sqlkit.ScanMicros(&m.since), sqlkit.ScanMicros(&m.ended), &m.forced, &m.certified, &m.drift, sqlkit.ScanMicros(&m.driftSince),
			&m.provenSinceEnrol)
		return m, err
	}, `SELECT n.id, n.status, n.status_reason, c.ended_at = 0, n.enrolled_at, COALESCE(o.since, 0), COALESCE(o.ended_at, 0),
			COALESCE(o.forced_by, ''), COALESCE(o.certified_by, ''), COALESCE(s.drift_rule, ''), COALESCE(s.drift_first_seen, 0),
			EXISTS (SELECT 1 FROM tasks k WHERE k.node_id = n.id AND k.correlation_id = $2 AND k.node_epoch = n.epoch
				AND k.type = 'allocation.provision_user' AND k.status = 'succeeded')
		FROM allocation_claims c JOIN nodes n ON n.id = c.node_id
		LEFT JOIN allocations o ON o.node_id = c.node_id AND o.allocation_id = c.allocation_id
		LEFT JOIN node_maas_state s ON s.node_id = c.node_id AND s.drift_detected AND s.drift_severity = 'critical'
		WHERE c.allocation_id = $1 ORDER BY n.id`, a.ID, runID)
	if err != nil {
		return err
	}
	offline := ""
	for _, m := range all {
		if err := m.stillTheTenants(a); err != nil {
			return err
		}
		if m.node.Status == broker.Offline {
			offline = m.node.ID
		}
	}
	if offline != "" {
		return broker.Errorf(broker.Refused, "node_offline", "cannot make allocation %s active: node %s is offline (start its agent again)", a.ID,
			offline)
	}
	return nil
}

// stillTheTenants refuses because of one node. Code: node_taken.
func (m madeReady) stillTheTenants(a broker.Allocation) error {
	taken := func(format string, args ...any) error {
		return broker.Errorf(broker.Refused, "node_taken", "cannot make allocation "+a.ID+" active: "+format+" (ask again)", args...)
	}
	n := m.node
	switch {
	case m.forced != "":
		return taken("run %s has taken node %s by force", m.forced, n.ID)
	case !m.claimed:
		return taken("it does not hold node %s any more", n.ID)
	case n.Status != broker.Active && n.Status != broker.Offline:
		return taken("node %s is %s (%s)", n.ID, n.Status, taskcatalog.Clean(n.StatusReason, 200))
	case m.certified != "":
		return taken("node %s was turned over since the tenant's user was made, on certificate %s", n.ID, m.certified)
	case !m.ended.IsZero():
		return taken("the tenant's user on node %s has ended", n.ID)
	case m.since.IsZero():
		return nil
	case m.drift != "" && !m.driftSince.Before(m.since):
		return taken("MAAS shows node %s as %s since the tenant's user was made", n.ID, m.drift)
	case m.enrolled.After(m.since) && !m.provenSinceEnrol:
		return taken("node %s was enrolled again since the tenant's user was made", n.ID)
	}
	return nil
}
