package broker

import "time"

// NodeStatus is the coarse, operator-facing state of a node
// (docs/reference/states.md has the drawing).
type NodeStatus string

// The statuses.
const (
	BootstrapIssued NodeStatus = "bootstrap_issued"
	Enrolling       NodeStatus = "enrolling"
	Active          NodeStatus = "active"
	Offline         NodeStatus = "offline"
	Quarantined     NodeStatus = "quarantined"
	Draining        NodeStatus = "draining"
	Retired         NodeStatus = "retired"
	Removing        NodeStatus = "removing"
	Deleted         NodeStatus = "deleted"
)

// NodeStatuses lists all statuses in the order of a node's life.
var NodeStatuses = []NodeStatus{
	BootstrapIssued, Enrolling, Active, Offline, Quarantined, Draining, Retired, Removing, Deleted,
}

// Node is one machine's record. Its id is never used again.
type Node struct {
	ID           string
	Hostname     string
	Site         string // empty for a node without a site
	SKU          string
	Place        NodePlace
	Status       NodeStatus
	StatusReason string
	TurnoverOwed bool   // nothing leads to active while it is set
	Epoch        int64  // counts enrolments; 0 before the first
	Bootstrap    string // cloud-init | command

	MAASSystemID string
	Labels       map[string]string
	TaskTypes    []string          // name@version, as reported
	Capabilities map[string]string // as reported
	AgentVersion string
	ReportDigest string // of task types, capabilities and facts

	// Resolver profiles, by digest: assigned to the node (empty: none), in force on the node, and
	// in force before that.
	ResolverWanted, ResolverDigest, ResolverBefore string
	ResolverWant                                   int64 // the want that ResolverWanted comes from

	TrustVersion       int64 // of the bundle that the node confirmed
	BaselineDigest     string
	EnrolledAt         time.Time
	IdentitySince      time.Time // when the node's present key was first certified
	LastAgentContactAt time.Time
	CertNotAfter       time.Time
	CreatedAt          time.Time
	UpdatedAt          time.Time
}

// SilentAfter is the longest time without contact before a node counts as silent. A silent node
// is handed to no tenant, even while its status is held (see package presence).
const SilentAfter = 3 * time.Minute

// Silent reports whether the broker has not heard the node for longer than SilentAfter.
func (n Node) Silent(now time.Time) bool { return now.Sub(n.LastAgentContactAt) > SilentAfter }
