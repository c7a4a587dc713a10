package agentlifecycle

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskstage"
)

// Nodes is the port to the broker's records of nodes and their tasks. A method may be called
// again with the same arguments, because a save or an answer was lost, and then changes nothing
// more. A stage waits out an error of kind Unavailable.
type Nodes interface {
	taskstage.Tasks
	Wanted
	Safety
	Turnovers
	Reports

	// Node reads a node. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
	// RecordDelivery records the progress of a delivery.
	RecordDelivery(ctx context.Context, d Delivery) error
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
