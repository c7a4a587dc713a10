package onboarding

import (
	"context"

	"github.com/hostler/hostler/broker"
)

// Records are the broker's records of its sites. *store.DB implements them.
type Records interface {
	Site(ctx context.Context, ref string) (broker.Site, error)
	// UsePowerOverride finds the override that precedes the site's default for a machine, and
	// records its use; false: there is none.
	UsePowerOverride(ctx context.Context, siteID, pxeMAC, ipmiIP, hostname string) (broker.PowerOverride, bool, error)
	RoCEAssignments(ctx context.Context, siteID, hostname string) ([]broker.RoCEAssignment, error)
}

// Nodes are the broker's own records of nodes, as far as a chain changes them. A method may be
// called again with the same arguments, because a save or an answer was lost, and then changes
// nothing more. An error of kind Unavailable costs no attempt, and holds the site only if the
// site's own record, token or MAAS fails too. An error of kind Invalid, NotFound or Refused means a
// wrong input.
type Nodes interface {
	Claims
	Makers
	Deployments
	Handovers
	Diagnoses

	// Node reads a node. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
	// Quarantine quarantines a node, unless the node is out of use already.
	Quarantine(ctx context.Context, nodeID, reason string) error
}

// Occupied returns why somebody may be working on a node, whatever the node's runs say; empty:
// nobody is.
func Occupied(n broker.Node) string {
	switch n.Status {
	case broker.BootstrapIssued, broker.Enrolling, broker.Quarantined, broker.Retired, broker.Deleted:
		if !n.TurnoverOwed {
			return ""
		}
		return "the node is " + string(n.Status) + ", and a turnover of it is owed"
	}
	return "the node is " + string(n.Status) + ", and may be in use"
}

// CodeHardwareMismatch refuses a node whose machine does not match the SKU, or is not the machine
// commissioned by MAAS.
const CodeHardwareMismatch = "hardware_mismatch"

// Bundle is user-data for MAAS. The bundle holds the enrol token: nothing prints the token, and no
// state keeps it.
type Bundle struct {
	UserData []byte
	Digest   string   // sha256:…, of the content without the token
	Epoch    int64    // number of enrolments of the node so far
	Warnings []string // for the run's record
}

// String keeps the token out of printed text.
func (b Bundle) String() string { return "[bundle " + b.Digest + "]" }

// GoString is String.
func (b Bundle) GoString() string { return b.String() }

// Device is a part of a machine, recognised by the serial.
type Device struct {
	ID     int    `json:"id"` // MAAS's id
	Name   string `json:"name"`
	Model  string `json:"model"`
	Serial string `json:"serial"`
	IDPath string `json:"id_path,omitempty"`
	Size   int64  `json:"size"` // bytes
}
