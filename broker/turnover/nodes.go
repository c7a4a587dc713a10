package turnover

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Nodes is the port to the broker's records of nodes and their tasks. A method may be called
// again with the same arguments, because a save or an answer was lost, and then changes nothing
// more. A stage waits out an error of kind Unavailable.
type Nodes interface {
	taskstage.Tasks
	Service
	Tenants
	Baselines
	Evidence
	Certificates
	Machines
	Removals

	// Node reads a node. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
}

// Parts are the parts of a machine.
type Parts struct {
	GPUs    []taskcatalog.BaselineGPU // of the baseline
	Devices []broker.Device
	Facts   taskcatalog.Facts // as last reported
	NoFacts bool              // never reported
	NICs    []string          // MAC addresses of the baseline
	// DPUDisks: by its SKU a DPU may present the disks to the machine.
	DPUDisks bool
	// Baselines are all acceptances of baselines by persons.
	Baselines []Accepted
	// Attested are persons' statements about missing parts, since the node was last handed out
	// clean.
	Attested []certificate.Attested
}

// Accepted is a person's acceptance of a node's state.
type Accepted struct {
	By, Reason string
	At         time.Time
}

// Proof is a task that has ended.
type Proof struct {
	certificate.Task
	EndedAt time.Time // by the broker's clock
}
