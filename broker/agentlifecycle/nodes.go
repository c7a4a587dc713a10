package agentlifecycle

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/asking"
	"github.com/hostler/hostler/broker/chain"
)

// Nodes are the broker's own records of nodes, and their tasks, as far as a run needs
// them. A method may be called again with the same arguments, because a save or an
// answer was lost, and then changes nothing more. An error of kind Unavailable is waited
// out.
type Nodes interface {
	asking.Tasks
	// Node reads a node, and Agent what is known of its agent. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
	Agent(ctx context.Context, nodeID string) (broker.Agent, error)
	// Live are the allocations whose user may be on the node, of a transaction that is
	// still open as well.
	Live(ctx context.Context, nodeID string) ([]broker.Allocation, error)
	// Unfit is why the node could not be handed to anybody, but for the runs of this
	// package and for who is on it.
	Unfit(ctx context.Context, nodeID string) ([]broker.Reason, error)
	// ProfilesVersion names the set of resolver profiles with a digest.
	ProfilesVersion(ctx context.Context, digest string) (string, error)
	// MayGive refuses a release that nobody is given: release_revoked, and
	// release_below_floor unless a rollback was asked for.
	MayGive(ctx context.Context, version string, allowRollback bool) error
	// TrustVersion is that of the trust bundle in force.
	TrustVersion() int64
	// Tell notes how a delivery goes.
	Tell(ctx context.Context, d Delivery) error
	// AskReport has the node say what it is once more, which it does by a renewal.
	AskReport(ctx context.Context, nodeID string) error
	// RenewedAt is when the node was given a certificate last.
	RenewedAt(ctx context.Context, nodeID string) (time.Time, error)
	// Reimage begins the turnover that a run is for, under an id that follows from its
	// own, and Turnover is that run. Codes: as for a turnover that an operator asks for.
	Reimage(ctx context.Context, runID string, s Upgrade) (turnover string, err error)
	Turnover(ctx context.Context, id string) (chain.Record, error)
}

// Delivery is how a delivery goes, or has ended. That of a run which has stopped is told
// by the run.
type Delivery struct {
	NodeID  string
	RunID   string
	Mode    broker.DeliveryMode
	At      time.Time // when it began
	Result  string    // running, or the outcome of an update
	Reason  string    // code
	Seconds int64
}

// Running is the result of a delivery that has not ended.
const Running = "running"
