package turnover

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/asking"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// Nodes is the port to the broker's records of nodes and their tasks. A method may be called
// again with the same arguments, because a save or an answer was lost, and then changes nothing
// more. A stage waits out an error of kind Unavailable.
type Nodes interface {
	asking.Tasks
	// Node reads a node. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
	// Disable takes a node out of service and owes it a turnover, if no allocation but the ones
	// in ends is live. forced are the node's allocations from ends, announced as
	// allocation.force_released. A node in another status than from is refused; empty: any.
	// Codes: allocation_live, node_moved, transition_refused.
	Disable(ctx context.Context, nodeID, runID, reason string, from broker.NodeStatus, ends []string) (forced []broker.Allocation, err error)
	// ForceRelease ends live allocations for billing, announced likewise, and leaves the node
	// unchanged: the users are still there. Code: allocation_live, for an allocation outside
	// ends.
	ForceRelease(ctx context.Context, nodeID, runID, reason string, ends []string) (forced []broker.Allocation, err error)
	// Allocations are the allocations since the node was last handed out clean, live ones first.
	// A user that is being let in at this moment is included, or is refused.
	Allocations(ctx context.Context, nodeID string) ([]broker.Allocation, error)
	// Quarantine keeps a node from use, states the reason, and owes a turnover. A node that is
	// being removed stays unchanged.
	Quarantine(ctx context.Context, nodeID, reason string) error
	// Retire takes a node out of service whose agent did not drain it, or could not be removed.
	Retire(ctx context.Context, nodeID, runID, reason string) error
	// CutOff denies the node's certificates, voids its token and closes its tasks: its machine is
	// about to be given back to MAAS.
	CutOff(ctx context.Context, nodeID, runID, reason string) error
	// Wiped notes that MAAS has the machine back: no user is on it any more.
	Wiped(ctx context.Context, nodeID, runID string) error
	// PreviousSystem is the last contact, with its address, from the system on the machine before
	// the run gave it back; zero: never.
	PreviousSystem(ctx context.Context, nodeID, runID string) (at time.Time, remote string, err error)
	// Remove begins to delete a retired node, and Deleted completes the deletion: the id is never
	// used again, and the node is never let in again.
	Remove(ctx context.Context, nodeID, runID, reason string) error
	Deleted(ctx context.Context, nodeID, runID, reason string) error
	// ForgetSecrets removes the secrets kept for a node.
	ForgetSecrets(ctx context.Context, nodeID string) error
	// IdentityConflict is the last time two parties acted with the node's present identity; zero:
	// never.
	IdentityConflict(ctx context.Context, nodeID string) (time.Time, error)
	// Enable lets the node in by a run's certificate that meets the policy, past the obstacles in
	// lifts. Codes: certificate_missing, certificate_falls_short, certificate_stale,
	// kept_out_by_conflict, kept_out_by_person.
	Enable(ctx context.Context, nodeID, runID, certificateID string, lifts Lifts) error
	// Parts are the machine's expected parts and its last report.
	Parts(ctx context.Context, nodeID string) (Parts, error)
	// Reinstalled makes a task's baseline the node's baseline, if it differs from the old
	// baseline only in values that each installation makes for itself. Otherwise nothing changes,
	// and unlike lists the other differences.
	Reinstalled(ctx context.Context, nodeID, runID, taskID string) (unlike []string, err error)
	// Proof is a task of the run as a certificate shows it, with its proof.
	Proof(ctx context.Context, taskID string) (Proof, error)
	// Accepted are the downgrades that an operator accepted in a run, with name and reason.
	Accepted(ctx context.Context, runID string) ([]certificate.Downgrade, error)
	// Certify completes, signs and stores a certificate, once for its id.
	Certify(ctx context.Context, c *certificate.Clean) (certificate.Verdict, error)
}

// Lifts are obstacles to use that a person has accepted.
type Lifts struct {
	Person    bool      // a person has quarantined the node meanwhile
	Conflicts time.Time // conflicts of identity up to this time
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
