package records

import (
	"context"
	"io"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Trust provides the roots that a machine pins.
type Trust interface {
	RootsPEM() []byte
	RootSHA256() string // hex, of the root that the broker presents
}

// Nodes implements onboarding.Nodes over the broker's own parts.
type Nodes struct {
	DB       *store.DB
	Queue    *taskqueue.Queue
	Secrets  secrets.Keeper
	Trust    Trust
	AgentURL string    // https://HOST:PORT where nodes reach the broker
	Rand     io.Reader // source of node ids
}

var _ onboarding.Nodes = (*Nodes)(nil)

// Bound implements onboarding.Nodes.
func (n *Nodes) Bound(ctx context.Context, site, systemID, runID string) (string, error) {
	return n.DB.BoundNode(ctx, site, systemID, runID)
}

// InUse implements onboarding.Nodes.
func (n *Nodes) InUse(ctx context.Context, nodeID, _ string) (string, error) {
	node, err := n.DB.Node(ctx, nodeID)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound:
		return "", nil
	case err != nil:
		return "", err
	}
	return onboarding.Occupied(node), nil
}

// MadeBy implements onboarding.Nodes.
func (n *Nodes) MadeBy(ctx context.Context, nodeID string) (string, error) {
	return n.DB.MadeByRun(ctx, nodeID)
}

// Prepare implements onboarding.Nodes.
func (n *Nodes) Prepare(ctx context.Context, made onboarding.NewNode) (string, error) {
	how := "cloud-init"
	if made.ByCommand {
		how = "command"
	}
	if made.SKU != "" || !made.ByCommand {
		if _, err := n.DB.SKU(ctx, made.SKU); err != nil {
			return "", err
		}
	}
	node, err := n.DB.OnboardNode(store.WithReason(ctx, "onboarding run "+made.RunID+" of "+made.RequestedBy), broker.System, store.NewNode{
		ID: pki.NewNodeID(n.Rand), Hostname: made.Hostname, Site: made.Site, SKU: made.SKU, Bootstrap: how,
		MAASSystemID: made.MAASSystemID, MadeByRun: made.RunID, Disks: disksOf(made.Disks), Place: made.Place,
	})
	return node.ID, err
}

// Installed implements onboarding.Nodes.
func (n *Nodes) Installed(ctx context.Context, i onboarding.Installation) error {
	return n.DB.RecordImage(ctx, broker.System, i.NodeID, i.Epoch, broker.NodeImage{Name: i.Image, RunID: i.RunID})
}

// Node implements onboarding.Nodes.
func (n *Nodes) Node(ctx context.Context, nodeID string) (broker.Node, error) {
	return n.DB.Node(ctx, nodeID)
}

// Activate implements onboarding.Nodes.
func (n *Nodes) Activate(ctx context.Context, nodeID string) (bool, string, error) {
	node, err := n.DB.Node(ctx, nodeID)
	if err != nil {
		return false, "", err
	}
	judge, err := Hardware(ctx, n.DB, node)
	if err != nil {
		return false, "", err
	}
	return n.DB.Activate(ctx, broker.System, nodeID, "onboarded", judge)
}

// ExtendToken implements onboarding.Nodes.
func (n *Nodes) ExtendToken(ctx context.Context, nodeID string, until time.Time, reason string) error {
	err := n.DB.ExtendToken(ctx, broker.System, nodeID, until, reason)
	if err != nil && broker.AsError(err).Code == "token_not_longer" {
		return nil // extended by an earlier call whose answer was lost
	}
	return err
}

// Diagnose implements onboarding.Nodes.
func (n *Nodes) Diagnose(ctx context.Context, key, nodeID, runID string) (string, error) {
	k, err := n.Queue.Request(ctx, taskstage.Task{
		Key: key, NodeID: nodeID, Type: "node.diagnostics",
		Params: taskcatalog.DiagnosticsParams{}, RunID: runID,
	})
	return k.ID, err
}

// Remove implements onboarding.Nodes.
func (n *Nodes) Remove(ctx context.Context, runID, reason string) (string, error) {
	return n.DB.RemoveOnboarded(ctx, broker.System, runID, reason)
}

// Renew implements onboarding.Nodes.
func (n *Nodes) Renew(ctx context.Context, runID, reason string) (string, error) {
	return n.DB.RenewOnboarded(ctx, broker.System, runID, reason)
}

// quarantiners maps a node's status to the owner of its transition to quarantined. A node in any
// other status is out of use already, or on its way out.
var quarantiners = map[broker.NodeStatus]broker.Owner{
	broker.Enrolling: broker.OwnerOnboarding, broker.Active: broker.OwnerReconciler, broker.Offline: broker.OwnerReconciler,
}

// Quarantine implements onboarding.Nodes. The transaction reads the node's status, because the
// agent may move the node at the same moment.
func (n *Nodes) Quarantine(ctx context.Context, nodeID, reason string) error {
	_, err := n.DB.Transition(ctx, broker.System, nodeID,
		store.Change{Owners: quarantiners, To: broker.Quarantined, Reason: taskcatalog.Clean(reason, 500)})
	return err
}
