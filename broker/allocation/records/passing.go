package records

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// goesOn is when the release of an allocation goes on without the operation of its end; zero: never, or not known yet, and
// Watch finds it a moment later.
func (r *Records) goesOn(ctx context.Context, id string) time.Time {
	a, err := r.DB.Allocation(ctx, id)
	if err != nil {
		return time.Time{}
	}
	p, err := policyOf(ctx, r.Starts, a)
	if err != nil {
		return time.Time{}
	}
	return p.PassesAt(a.ReleasingAt)
}

// passEnds looks at the releases that stopped because the operation of their end did not end well, and lets those go on
// whose time has come by the policy of this moment. A tenant who breaks that operation, or tries it again and again, gains
// no more than this time and the attempt that is under way then: it counts from the first begin of the release, and whoever
// releases again after it does not try again (broker.Allocation.PassesEnd).
func (w *Watch) passEnds(ctx context.Context) (err error) {
	for after := ""; ; {
		page, failed := w.DB.AllocationsKeptByEnd(ctx, after, mostAtOnce)
		if failed != nil {
			return errors.Join(err, failed)
		}
		for _, a := range page {
			after, err = a.ID, errors.Join(err, w.passEnd(ctx, a))
		}
		if len(page) < mostAtOnce {
			return err
		}
	}
}

func (w *Watch) passEnd(ctx context.Context, a broker.Allocation) error {
	p, err := policyOf(ctx, w.Starts, a)
	if err != nil { // a policy that cannot be read lets nothing go on
		return err
	}
	at := p.PassesAt(a.ReleasingAt)
	if !at.Equal(a.GoesOnAt) {
		if err := w.DB.SetGoesOn(ctx, a.ID, at); err != nil {
			return err
		}
	}
	if at.IsZero() || w.DB.Now().Before(at) {
		return nil
	}
	_, err = w.DB.TransitionAllocation(ctx, broker.System, a.ID, store.AllocationChange{
		To: broker.AllocationReleasing, By: broker.AllocationWorker,
		Reason: "the operation of the end did not end well, and the policy passes it over (end_operation_pass_after " + p.EndOperationPassAfter + ")",
	})
	if broker.AsError(err).Kind == broker.Refused { // somebody was faster
		return nil
	}
	return err
}
