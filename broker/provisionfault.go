package broker

import (
	"fmt"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// ProvisionFault is a failure to provision a node for a reason of the node's own.
type ProvisionFault struct {
	NodeID  string `json:"node_id"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ProvisionFailures counts the failures to provision a node since it was last provisioned, or since a
// person let it in again.
type ProvisionFailures struct {
	Failures      int
	Code, Message string    // of the last failure
	AllocationID  string    // that the last failure ended
	At            time.Time // of the last failure
	HeldAt        time.Time // since then the node is handed to nobody; zero: it may be handed out
}

// Add counts a failure. From the limit on, the node is held. A limit below 1 is the default.
func (p *ProvisionFailures) Add(f ProvisionFault, allocationID string, limit int, at time.Time) {
	if limit < 1 {
		limit = DefaultPolicy().ProvisionFailuresToHold
	}
	p.Failures++
	p.Code, p.Message, p.AllocationID, p.At = f.Code, f.Message, allocationID, at
	if p.HeldAt.IsZero() && p.Failures >= limit {
		p.HeldAt = at
	}
}

// String describes the failures of a held node for people.
func (p ProvisionFailures) String() string {
	return fmt.Sprintf("%d provisions in a row failed because of the node, the last at %s (%s: %s)", p.Failures, p.At.UTC().Format(time.RFC3339),
		p.Code, taskcatalog.Clean(p.Message, 300))
}
