package turnover

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/asking"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// Nodes are the broker's own records of nodes, and their tasks, as far as a turnover
// changes them. A method may be called again with the same arguments, because a save
// or an answer was lost, and then changes nothing more. An error of kind Unavailable
// is waited out.
type Nodes interface {
	asking.Tasks
	// Node reads a node. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
	// Disable takes a node out of service and owes it a turnover, if nobody is on it but
	// the allocations that it may end; forced are those that it has, told of as
	// allocation.force_released. It takes none that is elsewhere than from, unless that
	// is empty. Codes: allocation_live, node_moved, transition_refused.
	Disable(ctx context.Context, nodeID, runID, reason string, from broker.NodeStatus, ends []string) (forced []broker.Allocation, err error)
	// ForceRelease ends the allocations that are live for billing, told of likewise, and
	// leaves the node as it is: their users are still there. Code: allocation_live, where
	// one is on it that it may not end.
	ForceRelease(ctx context.Context, nodeID, runID, reason string, ends []string) (forced []broker.Allocation, err error)
	// Allocations are those since the node was last handed out clean, the live ones
	// first; who is let in at this moment is among them, or is refused.
	Allocations(ctx context.Context, nodeID string) ([]broker.Allocation, error)
	// Quarantine keeps a node from use, says why, and owes it a turnover. One that is
	// being removed stays where it is.
	Quarantine(ctx context.Context, nodeID, reason string) error
	// Retire takes a node out of service that its agent has not drained, or whose
	// agent could not be removed.
	Retire(ctx context.Context, nodeID, runID, reason string) error
	// CutOff takes from a node what it could act by: its machine is about to be given
	// back to MAAS.
	CutOff(ctx context.Context, nodeID, runID, reason string) error
	// Wiped notes that MAAS has the machine back: nobody is on it any more.
	Wiped(ctx context.Context, nodeID, runID string) error
	// PreviousSystem is when the system was heard of last that was on the machine
	// before the run gave it back, and from where; zero: never.
	PreviousSystem(ctx context.Context, nodeID, runID string) (at time.Time, remote string, err error)
	// Remove begins to take a retired node out of the records, Deleted ends that: its
	// id never comes back, and nothing of it is let in.
	Remove(ctx context.Context, nodeID, runID, reason string) error
	Deleted(ctx context.Context, nodeID, runID, reason string) error
	// ForgetSecrets removes what is kept for a node.
	ForgetSecrets(ctx context.Context, nodeID string) error
	// IdentityConflict is when two were seen last that act with the node's present
	// identity; zero: not since it has that.
	IdentityConflict(ctx context.Context, nodeID string) (time.Time, error)
	// Enable lets the node in by a run's certificate that meets the policy, in spite of
	// what lifts says. Codes: certificate_missing, certificate_falls_short,
	// certificate_stale, kept_out_by_conflict, kept_out_by_person.
	Enable(ctx context.Context, nodeID, runID, certificateID string, lifts Lifts) error
	// Parts are what the machine shall be made of, and what it was last seen to be.
	Parts(ctx context.Context, nodeID string) (Parts, error)
	// Reinstalled makes the baseline that a task has taken the node's, if it differs from
	// the one before in nothing but what each installation of a system makes for itself;
	// else it changes nothing, and tells of what else differs.
	Reinstalled(ctx context.Context, nodeID, runID, taskID string) (unlike []string, err error)
	// Proof is a task of the run as a certificate shows it, with what proves it.
	Proof(ctx context.Context, taskID string) (Proof, error)
	// Accepted are the downgrades that an operator has accepted in a run, with who and
	// why.
	Accepted(ctx context.Context, runID string) ([]certificate.Downgrade, error)
	// Certify completes, signs and keeps a certificate, once for its id.
	Certify(ctx context.Context, c *certificate.Clean) (certificate.Verdict, error)
}

// Lifts is what keeps a node out of use and that a person answers for.
type Lifts struct {
	Person    bool      // that a person has put it in quarantine meanwhile
	Conflicts time.Time // that two had its identity, until then
}

// Parts are what a machine is made of.
type Parts struct {
	GPUs    []taskcatalog.BaselineGPU // of the baseline
	Devices []broker.Device
	Facts   taskcatalog.Facts // as last reported
	NoFacts bool              // none ever was
	NICs    []string          // MAC addresses of the baseline
	// DPUDisks: by its SKU a DPU may show the machine its disks.
	DPUDisks bool
	// Baselines are those that persons have accepted for it, ever.
	Baselines []Accepted
	// Attested is what persons say of parts that are gone, since the node was last
	// handed out clean.
	Attested []certificate.Attested
}

// Accepted is a person's word that a node is as it shall be.
type Accepted struct {
	By, Reason string
	At         time.Time
}

// Proof is a task that has ended.
type Proof struct {
	certificate.Task
	EndedAt time.Time // by the broker's clock
}
