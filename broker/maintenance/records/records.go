package records

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
)

// Records opens maintenances.
type Records struct{ DB *store.DB }

// Create opens or plans a maintenance, and gives it an id. A tenant that has to leave is asked at once; where that does
// not work, the next look of Watch asks again. Codes: as of store.CreateMaintenance.
func (r Records) Create(ctx context.Context, actor broker.Actor, m broker.Maintenance) (broker.Maintenance, error) {
	m.ID = broker.NewTenantID(broker.MaintenancePrefix, r.DB.Now())
	m, err := r.DB.CreateMaintenance(ctx, actor, m)
	if err == nil {
		_ = r.release(ctx, actor, m)
	}
	return m, err
}

// release begins the release of the allocation that has the node, if the tenant has to leave. An allocation
// that is not active yet is released by a later look.
func (r Records) release(ctx context.Context, actor broker.Actor, m broker.Maintenance) error {
	if !m.Status.Live() || m.Tenant != broker.TenantLeaves {
		return nil
	}
	claim, err := r.DB.NodeClaim(ctx, m.NodeID)
	if err != nil || claim.Status != broker.AllocationActive {
		return err
	}
	_, err = r.DB.TransitionAllocation(ctx, actor, claim.ID, store.AllocationChange{
		To: broker.AllocationReleasing, By: broker.AllocationAdmin, CorrelationID: m.ID,
		Reason: "maintenance " + m.ID + " of node " + m.NodeID + ": " + m.Reason,
	})
	if broker.AsError(err).Kind == broker.Refused { // it was released a moment ago
		return nil
	}
	return err
}

const (
	// watchEvery is how often Watch looks.
	watchEvery = 5 * time.Second
	// mostAtOnce bounds the maintenances of one look; the next look takes the next ones.
	mostAtOnce = 200
)

// Watch takes the steps that are due by date. Run it in the leading process.
type Watch struct {
	Records
	Period time.Duration // zero: 5 s
	Log    *zap.Logger
}

// Run looks from time to time, until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	periodic.Work{
		Every: cmp.Or(w.Period, watchEvery), AtOnce: true, Turn: w.Look, Log: w.Log, Cannot: "cannot take the steps of maintenances",
	}.Run(ctx)
}

// Look takes all steps that are due now. One maintenance that cannot be moved keeps no other one back.
func (w *Watch) Look(ctx context.Context) error {
	due, err := w.DB.DueMaintenances(ctx, mostAtOnce)
	for _, id := range due {
		_, failed := w.DB.StepMaintenance(ctx, broker.System, id)
		err = errors.Join(err, failed)
	}
	leaving, failed := w.DB.LeavingMaintenances(ctx, mostAtOnce)
	err = errors.Join(err, failed)
	for _, m := range leaving {
		err = errors.Join(err, w.release(ctx, broker.System, m))
	}
	return err
}
