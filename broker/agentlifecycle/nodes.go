package agentlifecycle

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/asking"
	"github.com/hostler/hostler/broker/chain"
)

// Nodes is the port to the broker's records of nodes and their tasks. A method may be called
// again with the same arguments, because a save or an answer was lost, and then changes nothing
// more. A stage waits out an error of kind Unavailable.
type Nodes interface {
	asking.Tasks
	// Node reads a node, and Agent the record of its agent. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
	Agent(ctx context.Context, nodeID string) (broker.Agent, error)
	// Live are the allocations whose user may be on the node. Live waits for the end of open
	// transactions on the node, so that their allocations are included.
	Live(ctx context.Context, nodeID string) ([]broker.Allocation, error)
	// Unfit are the reasons against handing out the node, apart from this package's runs and from
	// tenants.
	Unfit(ctx context.Context, nodeID string) ([]broker.Reason, error)
	// ProfilesVersion names the set of resolver profiles with a digest.
	ProfilesVersion(ctx context.Context, digest string) (string, error)
	// MayGive refuses a release that no node may get: release_revoked, and release_below_floor
	// unless a rollback was requested.
	MayGive(ctx context.Context, version string, allowRollback bool) error
	// TrustVersion is the version of the trust bundle in force.
	TrustVersion() int64
	// Tell records the progress of a delivery.
	Tell(ctx context.Context, d Delivery) error
	// AskReport has the node report its facts again, with a renewal.
	AskReport(ctx context.Context, nodeID string) error
	// RenewedAt is when the node last got a certificate.
	RenewedAt(ctx context.Context, nodeID string) (time.Time, error)
	// Reimage begins the turnover of a run, under an id derived from the run's id, and Turnover
	// reads that turnover. Codes: as for a turnover that an operator starts.
	Reimage(ctx context.Context, runID string, s Upgrade) (turnover string, err error)
	Turnover(ctx context.Context, id string) (chain.Record, error)
}

// Delivery is the progress or the end of a delivery. A stopped run reports its own state instead.
type Delivery struct {
	NodeID  string
	RunID   string
	Mode    broker.DeliveryMode
	At      time.Time // when the delivery began
	Result  string    // running, or the outcome of an update
	Reason  string    // code
	Seconds int64
}

// Running is the result of a delivery that has not ended.
const Running = "running"
