package records

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

// watchEvery is how often Watch looks.
const watchEvery = 2 * time.Second

// mostAtOnce bounds the allocations of one look; the next look takes the next ones.
const mostAtOnce = 200

// Watch begins a run for each allocation whose status asks for one, releases allocations whose end has come, and lets
// releases go on that the operation of their end has kept for as long as the policy says. The lock of an allocation's run
// lets a second broker begin none. Run it in the leading process.
type Watch struct {
	DB     *store.DB
	Starts *turnoverrecords.Starts // knows the sites' policies
	Runs   *chain.Engine
	Period time.Duration // zero: 2 s
	Log    *zap.Logger
}

// Run looks from time to time, until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	periodic.Work{
		Every: cmp.Or(w.Period, watchEvery), AtOnce: true, Turn: w.look, Log: w.Log, Cannot: "cannot begin runs of allocations",
	}.Run(ctx)
}

func (w *Watch) look(ctx context.Context) error {
	ending, err := w.DB.AllocationsPastEnd(ctx, mostAtOnce)
	for _, id := range ending {
		_, failed := w.DB.TransitionAllocation(ctx, broker.System, id, store.AllocationChange{
			To: broker.AllocationReleasing, By: broker.AllocationUser, Reason: "the end that was asked for has come",
		})
		if broker.AsError(failed).Kind != broker.Refused { // a release by somebody else was faster
			err = errors.Join(err, failed)
		}
	}
	err = errors.Join(err, w.passEnds(ctx))
	due, failed := w.DB.AllocationsWithoutRun(ctx, mostAtOnce)
	err = errors.Join(err, failed)
	for _, a := range due {
		err = errors.Join(err, w.begin(ctx, a))
	}
	return err
}

func (w *Watch) begin(ctx context.Context, a broker.Allocation) error {
	policy, err := policyOf(ctx, w.Starts, a)
	if err != nil { // an allocation without a run would wait with nobody told
		w.Log.Warn("cannot read the policy of an allocation's nodes, the default policy is used", zap.String("allocation", a.ID), zap.Error(err))
		policy = broker.DefaultPolicy()
	}
	kind := broker.ProvisionKind
	if a.Status == broker.AllocationReleasing {
		kind = broker.ReleaseKind
	}
	_, err = w.Runs.Start(ctx, chain.Start{
		Kind: kind, Site: cmp.Or(a.Site, broker.NoSite), Subject: "allocation/" + a.ID, Locks: []string{store.AllocationLock(a.ID)},
		RequestedBy: broker.System.Name, CorrelationID: a.ID, Reason: "allocation " + a.ID + " is " + string(a.Status),
		State: allocation.Work{
			AllocationID: a.ID, Tenant: a.ProjectID, NodeIDs: a.NodeIDs, GraceSeconds: policy.DrainGraceSeconds,
			HoldAfter: policy.ProvisionFailuresToHold,
		},
	})
	if _, taken := errors.AsType[*chain.Locked](err); taken {
		return nil
	}
	return err
}

// policyOf is the policy in force for an allocation's nodes, which are all of one site.
func policyOf(ctx context.Context, starts *turnoverrecords.Starts, a broker.Allocation) (broker.Policy, error) {
	if len(a.NodeIDs) == 0 { // it ended between two reads
		return broker.Policy{}, broker.Errorf(broker.Internal, "allocation_without_nodes", "allocation %s has no node any more", a.ID)
	}
	n, err := starts.DB.Node(ctx, a.NodeIDs[0])
	if err != nil {
		return broker.Policy{}, err
	}
	at, err := starts.Place(ctx, n, "")
	return at.Policy, err
}
