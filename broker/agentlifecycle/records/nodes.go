package records

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

// Truster is the trust authority, as far as a run needs it.
type Truster interface{ Version() int64 }

// Nodes is agentlifecycle.Nodes over the broker's own parts.
type Nodes struct {
	DB     *store.DB
	Queue  *taskqueue.Queue
	Trust  Truster
	Starts *turnoverrecords.Starts // of the turnovers for reimages
}

var _ agentlifecycle.Nodes = (*Nodes)(nil)

// Node implements agentlifecycle.Nodes.
func (n *Nodes) Node(ctx context.Context, nodeID string) (broker.Node, error) {
	return n.DB.Node(ctx, nodeID)
}

// Agent implements agentlifecycle.Nodes.
func (n *Nodes) Agent(ctx context.Context, nodeID string) (broker.Agent, error) {
	return n.DB.Agent(ctx, nodeID)
}

// Live implements agentlifecycle.Nodes.
func (n *Nodes) Live(ctx context.Context, nodeID string) ([]broker.Occupant, error) {
	all, err := n.DB.SettledOccupants(ctx, nodeID)
	return slices.DeleteFunc(all, func(a broker.Occupant) bool { return !a.Live() }), err
}

// runReasons are the reasons caused by runs, freezes, disabled sites, tenants, earlier provisions, the time since the last
// turnover and the policy since then: they say nothing about the present system's fitness.
var runReasons = []string{
	"node_in_run", "allocation_live", "turnover_missing", "certificate_expired", "certificate_below_policy", "certificate_not_judged", "frozen",
	"site_disabled", "maintenance", "provisioning_failing",
}

// Unfit implements agentlifecycle.Nodes.
func (n *Nodes) Unfit(ctx context.Context, nodeID string) ([]broker.Reason, error) {
	node, err := n.DB.Node(ctx, nodeID)
	if err != nil {
		return nil, err
	}
	h, err := n.DB.Handout(ctx, node)
	if err != nil {
		return nil, err
	}
	return Unfit(h), nil
}

// Unfit are the reasons against handing out a node, apart from runs and tenants.
func Unfit(h broker.Handout) []broker.Reason {
	return slices.DeleteFunc(h.Reasons("", ""), func(r broker.Reason) bool { return slices.Contains(runReasons, r.Code) })
}

// ProfilesVersion implements agentlifecycle.Nodes.
func (n *Nodes) ProfilesVersion(ctx context.Context, digest string) (string, error) {
	set, err := n.DB.ResolverSet(ctx, digest)
	return set.Version, err
}

// TrustVersion implements agentlifecycle.Nodes.
func (n *Nodes) TrustVersion() int64 { return n.Trust.Version() }

// RecordDelivery implements agentlifecycle.Nodes.
func (n *Nodes) RecordDelivery(ctx context.Context, d agentlifecycle.Delivery) error {
	return n.DB.Deliver(ctx, store.Delivery{
		NodeID: d.NodeID, CorrelationID: d.RunID, At: d.At, Result: d.Result, Reason: d.Reason,
		Seconds: d.Seconds,
	})
}

// Request implements taskstage.Tasks.
func (n *Nodes) Request(ctx context.Context, t taskstage.Task) (broker.Task, error) {
	return n.Queue.Request(ctx, t)
}

// Withdraw implements taskstage.Tasks.
func (n *Nodes) Withdraw(ctx context.Context, nodeID, runID, reason string) ([]broker.Task, error) {
	return n.Queue.Withdraw(ctx, nodeID, runID, reason)
}

// AskReport implements agentlifecycle.Nodes.
func (n *Nodes) AskReport(ctx context.Context, nodeID string) error {
	return n.DB.AskReport(ctx, nodeID)
}

// RenewedAt implements agentlifecycle.Nodes.
func (n *Nodes) RenewedAt(ctx context.Context, nodeID string) (time.Time, error) {
	return n.DB.RenewedAt(ctx, nodeID)
}

// Reimage implements agentlifecycle.Nodes. The turnover ends allocations only if the run was
// forced.
func (n *Nodes) Reimage(ctx context.Context, runID string, s agentlifecycle.Work) (string, error) {
	id := turnoverOf(runID)
	if had, err := n.DB.Run(ctx, id); err == nil {
		return had.ID, nil
	}
	start, err := n.reimage(ctx, s)
	if err != nil {
		return "", err
	}
	start.ID = id
	_, err = n.Starts.Runs.Start(ctx, start)
	if no, refused := errors.AsType[*chain.Refused](err); refused {
		return "", broker.Errorf(broker.Refused, "reimage_refused", "cannot reimage node %s: %s", s.NodeID, no.Message)
	}
	return id, err
}

func turnoverOf(runID string) string { return runID + "-reimage" }

// reimage is the start of the turnover. Permanent obstacles are reported before live allocations,
// because the run may wait for allocations. A forced turnover ends only the allocations that were
// live at the request.
func (n *Nodes) reimage(ctx context.Context, s agentlifecycle.Work) (start chain.Start, err error) {
	node, err := n.DB.Node(ctx, s.NodeID)
	if err != nil {
		return start, err
	}
	at, err := n.Starts.Place(ctx, node, "")
	if err != nil {
		return start, err
	}
	t, locks, err := turnover.New(node, at, turnover.Request{
		Mode: turnover.Reimage, ForceRelease: s.Safety == broker.Forced, Ends: s.Ends, Reason: s.Reason, RequestedBy: s.RequestedBy,
	})
	if err != nil {
		return start, err
	}
	live, err := n.Live(ctx, s.NodeID)
	if err != nil {
		return start, err
	}
	return turnoverrecords.NewStart(node, t, locks, turnoverrecords.Requester{Name: s.RequestedBy}),
		broker.OccupantsLive(node, live, t.Ends...)
}

// Turnover implements agentlifecycle.Nodes.
func (n *Nodes) Turnover(ctx context.Context, id string) (chain.Record, error) {
	return n.DB.Run(ctx, id)
}
