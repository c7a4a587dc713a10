package records

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	onboardingrecords "github.com/hostler/hostler/broker/onboarding/records"
)

// ReimageNodes is onboarding.Nodes for runs that redeploy the machine of an existing node, which
// they have taken out of service: the node keeps its id, and stays retired until its certificate
// lets it in. ReimageNodes never makes, deletes or lets in a node.
type ReimageNodes struct{ *onboardingrecords.Nodes }

var _ onboarding.Nodes = ReimageNodes{}

// Prepare implements onboarding.Nodes: the node exists. The node must still be retired with a
// turnover owed, whatever has happened since the turnover began.
func (r ReimageNodes) Prepare(ctx context.Context, made onboarding.NewNode) (string, error) {
	n, err := r.DB.Node(ctx, made.NodeID)
	if err != nil {
		return "", err
	}
	return n.ID, outOfService(n)
}

// outOfService refuses to continue with a node that somebody has moved meanwhile.
func outOfService(n broker.Node) error {
	if n.Status == broker.Retired && n.TurnoverOwed {
		return nil
	}
	return broker.Errorf(broker.Refused, "node_status",
		"cannot deploy the machine of node %s again: the node is %s, and no turnover waits for the deployment (find out why, then restart-clean)", n.ID, n.Status)
}

// Bound implements onboarding.Nodes: another node than the run's own.
func (r ReimageNodes) Bound(ctx context.Context, site, systemID, runID string) (string, error) {
	own, err := r.DB.NodeOfRun(ctx, runID)
	if err != nil {
		return "", err
	}
	return r.DB.BoundBeside(ctx, site, systemID, own)
}

// Activate implements onboarding.Nodes: it only reports whether the node meets the conditions of
// an active node, and activates nothing.
func (r ReimageNodes) Activate(ctx context.Context, nodeID string) (bool, string, error) {
	n, err := r.DB.Node(ctx, nodeID)
	if err != nil {
		return false, "", err
	}
	if err := outOfService(n); err != nil {
		return false, "", err
	}
	judge, err := onboardingrecords.Hardware(ctx, r.DB, n)
	if err != nil {
		return false, "", err
	}
	return r.DB.Fits(ctx, nodeID, judge)
}

// Remove implements onboarding.Nodes: the node stays, and its token becomes void.
func (r ReimageNodes) Remove(ctx context.Context, runID, reason string) (string, error) {
	id, err := r.DB.NodeOfRun(ctx, runID)
	if err != nil || id == "" {
		return id, err
	}
	return id, r.DB.VoidToken(ctx, broker.System, id, reason)
}

// Renew implements onboarding.Nodes: the run's own first stage takes the node out of service, also
// in a run that starts over, so nothing is left to do.
func (r ReimageNodes) Renew(context.Context, string, string) (string, error) { return "", nil }

// Quarantine implements onboarding.Nodes. A run that is cancelled after the deployment leaves the
// deployment and goes back no further, so this method keeps the node from use and owes another
// turnover.
func (r ReimageNodes) Quarantine(ctx context.Context, nodeID, reason string) error {
	return (&Nodes{DB: r.DB}).Quarantine(ctx, nodeID, reason)
}

// InUse implements onboarding.Nodes: the run has the node, so the node is in use only if its status
// is none of draining, retired and quarantined. Then somebody has moved it past the run.
func (r ReimageNodes) InUse(ctx context.Context, nodeID, _ string) (string, error) {
	n, err := r.DB.Node(ctx, nodeID)
	if err != nil {
		return "", err
	}
	if !slices.Contains([]broker.NodeStatus{broker.Draining, broker.Retired, broker.Quarantined}, n.Status) {
		return "the node is " + string(n.Status), nil
	}
	return "", nil
}
