package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
)

// MaintenanceEnd is what somebody asks for who closes a maintenance.
type MaintenanceEnd struct {
	Reason   string
	Override bool // without checks
}

// CloseMaintenance ends a maintenance: a planned one is cancelled, and an open one is closed if the node passes its checks.
// Otherwise it stays open, without an error, and says why. Closing one again that has ended changes nothing. Nothing is
// checked of a deleted node. Code: maintenance_not_found.
func (db *DB) CloseMaintenance(ctx context.Context, actor broker.Actor, id string, end MaintenanceEnd) (m broker.Maintenance, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		var n broker.Node
		if m, n, err = t.lockMaintenance(ctx, id); err != nil {
			return err
		}
		now := t.clock().UTC().Truncate(time.Microsecond)
		switch {
		case m.Status.Ended():
			return nil
		case m.Status == broker.MaintenancePlanned:
			m.Because = end.Reason
			err = t.endMaintenance(ctx, actor, n, m, broker.MaintenanceCancelled, now)
		case end.Override || n.Status == broker.Deleted:
			m.Because, m.Checks = end.Reason, broker.MaintenanceChecks{}
			err = t.endMaintenance(ctx, actor, n, m, broker.MaintenanceClosed, now)
		default:
			err = t.checkMaintenance(ctx, actor, n, m, end.Reason, now)
		}
		if err == nil {
			m, err = maintenance(ctx, t, id, "")
		}
		return err
	})
	return m, err
}
