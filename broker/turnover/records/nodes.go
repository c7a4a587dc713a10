package records

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Signer is the trust authority, as far as a turnover needs it.
type Signer interface {
	StatementSigner(ctx context.Context) (pki.Signer, error)
}

// Nodes is turnover.Nodes over the broker's own parts.
type Nodes struct {
	DB      *store.DB
	Queue   *taskqueue.Queue
	Signer  Signer
	Secrets secrets.Keeper
	Now     func() time.Time
	Version string // of this broker
}

var _ turnover.Nodes = (*Nodes)(nil)

// Node implements turnover.Nodes.
func (n *Nodes) Node(ctx context.Context, nodeID string) (broker.Node, error) {
	return n.DB.Node(ctx, nodeID)
}

// Disable implements turnover.Nodes.
func (n *Nodes) Disable(
	ctx context.Context, nodeID, runID, reason string, from broker.NodeStatus, ends []string,
) ([]broker.Occupant, error) {
	return n.DB.BeginTurnover(ctx, broker.System, store.Turnover{
		NodeID: nodeID, RunID: runID, Reason: taskcatalog.Clean(reason, 500),
		From: from,
	}, ends...)
}

// ForceRelease implements turnover.Nodes.
func (n *Nodes) ForceRelease(ctx context.Context, nodeID, runID, reason string, ends []string) ([]broker.Occupant, error) {
	return n.DB.ForceRelease(ctx, broker.System, store.Turnover{NodeID: nodeID, RunID: runID, Reason: taskcatalog.Clean(reason, 500)},
		ends...)
}

// Occupants implements turnover.Nodes.
func (n *Nodes) Occupants(ctx context.Context, nodeID string) ([]broker.Occupant, error) {
	return n.DB.SettledOccupants(ctx, nodeID)
}

// UnendedOperation implements turnover.Nodes.
func (n *Nodes) UnendedOperation(ctx context.Context, nodeID string) (string, error) {
	return n.DB.UnendedOperation(ctx, nodeID)
}

// RootSinceReimage implements turnover.Nodes.
func (n *Nodes) RootSinceReimage(ctx context.Context, nodeID string) (bool, error) {
	return n.DB.RootSinceReimage(ctx, nodeID)
}

// quarantiners are the statuses from which a turnover quarantines a node: a node that is being
// removed, or was never let in, is out of use already.
var quarantiners = map[broker.NodeStatus]broker.Owner{
	broker.Active: broker.OwnerTurnover, broker.Offline: broker.OwnerTurnover, broker.Draining: broker.OwnerTurnover,
	broker.Retired: broker.OwnerTurnover, broker.Quarantined: broker.OwnerTurnover,
}

// Quarantine implements turnover.Nodes. The transaction reads the node's status, because its
// agent may move the node at the same moment.
func (n *Nodes) Quarantine(ctx context.Context, nodeID, reason string) error {
	_, err := n.DB.Transition(ctx, broker.System, nodeID,
		store.Change{Owners: quarantiners, To: broker.Quarantined, OweTurnover: true, Reason: taskcatalog.Clean(reason, 500)})
	return err
}

// Retire implements turnover.Nodes.
func (n *Nodes) Retire(ctx context.Context, nodeID, runID, reason string) error {
	_, err := n.DB.Transition(ctx, broker.System, nodeID,
		store.Change{To: broker.Retired, By: broker.OwnerTurnover, Reason: taskcatalog.Clean(reason, 500), CorrelationID: runID})
	return err
}

// CutOff implements turnover.Nodes.
func (n *Nodes) CutOff(ctx context.Context, nodeID, runID, reason string) error {
	return n.DB.CutOff(ctx, broker.System, store.Turnover{NodeID: nodeID, RunID: runID, Reason: taskcatalog.Clean(reason, 500)})
}

// Wiped implements turnover.Nodes.
func (n *Nodes) Wiped(ctx context.Context, nodeID, runID string) error {
	return n.DB.Wiped(ctx, broker.System, store.Turnover{NodeID: nodeID, RunID: runID, Reason: "MAAS has its machine back"})
}

// PreviousSystem implements turnover.Nodes.
func (n *Nodes) PreviousSystem(ctx context.Context, nodeID, runID string) (time.Time, string, error) {
	r, had, err := n.DB.LastRelease(ctx, nodeID)
	if err != nil || !had || r.RunID != runID {
		return time.Time{}, "", err
	}
	return r.ShownAt, r.Remote, nil
}

// Remove implements turnover.Nodes.
func (n *Nodes) Remove(ctx context.Context, nodeID, runID, reason string) error {
	node, err := n.DB.Node(ctx, nodeID)
	if err != nil || node.Status == broker.Removing || node.Status == broker.Deleted {
		return err
	}
	_, err = n.DB.Transition(ctx, broker.System, nodeID,
		store.Change{To: broker.Removing, By: broker.OwnerTurnover, Reason: taskcatalog.Clean(reason, 500), CorrelationID: runID})
	return err
}

// Deleted implements turnover.Nodes.
func (n *Nodes) Deleted(ctx context.Context, nodeID, runID, reason string) error {
	_, err := n.DB.Transition(ctx, broker.System, nodeID,
		store.Change{To: broker.Deleted, By: broker.OwnerTurnover, Reason: taskcatalog.Clean(reason, 500), CorrelationID: runID})
	return err
}

// ForgetSecrets implements turnover.Nodes.
func (n *Nodes) ForgetSecrets(ctx context.Context, nodeID string) error {
	return removeSecrets(ctx, n.DB, n.Secrets, nodeID)
}

// IdentityConflict implements turnover.Nodes.
func (n *Nodes) IdentityConflict(ctx context.Context, nodeID string) (time.Time, error) {
	return n.DB.IdentityConflict(ctx, nodeID)
}

// Enable implements turnover.Nodes.
func (n *Nodes) Enable(ctx context.Context, nodeID, runID, certificateID string, lifts turnover.Lifts) error {
	return n.DB.EndTurnover(ctx, broker.System, store.Turnover{
		NodeID: nodeID, RunID: runID,
		Reason: "turned over: certificate " + certificateID, Lifts: store.Lifts(lifts),
	}, certificateID)
}

// Request implements taskstage.Tasks.
func (n *Nodes) Request(ctx context.Context, t taskstage.Task) (broker.Task, error) {
	return n.Queue.Request(ctx, t)
}

// Withdraw implements taskstage.Tasks.
func (n *Nodes) Withdraw(ctx context.Context, nodeID, runID, reason string) ([]broker.Task, error) {
	return n.Queue.Withdraw(ctx, nodeID, runID, reason)
}

// Parts implements turnover.Nodes.
func (n *Nodes) Parts(ctx context.Context, nodeID string) (p turnover.Parts, err error) {
	node, err := n.DB.Node(ctx, nodeID)
	if err != nil {
		return p, err
	}
	if node.BaselineDigest != "" {
		raw, err := n.DB.Baseline(ctx, node.BaselineDigest)
		if err != nil {
			return p, err
		}
		var b taskcatalog.Baseline
		if err := taskcatalog.DecodeStrict(raw, &b); err != nil {
			return p, err
		}
		p.GPUs, p.NICs = b.GPUs, b.Inventory.NICs
	}
	if p.Devices, err = n.DB.Devices(ctx, nodeID); err != nil {
		return p, err
	}
	accepted, err := n.DB.AcceptedBaselines(ctx, nodeID)
	if err != nil {
		return p, err
	}
	for _, a := range accepted {
		p.Baselines = append(p.Baselines, turnover.Accepted{By: a.By, Reason: a.Reason, At: a.At})
	}
	if p.Attested, err = n.attested(ctx, nodeID); err != nil {
		return p, err
	}
	if node.SKU != "" {
		sku, err := n.DB.SKU(ctx, node.SKU)
		if err != nil && broker.AsError(err).Kind != broker.NotFound {
			return p, err
		}
		p.DPUDisks = sku.DPUDisks
	}
	p.Facts, _, err = n.DB.Facts(ctx, nodeID)
	if err != nil && broker.AsError(err).Code == "facts_unknown" {
		p.NoFacts, err = true, nil
	}
	return p, err
}
