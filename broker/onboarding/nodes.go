package onboarding

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
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
	// Bound returns the bound node of the machine, if not deleted; empty: none, or the node that
	// this run made. For a run over an existing node, Bound may return this node if no other is
	// bound to the machine as well.
	Bound(ctx context.Context, site, systemID, runID string) (nodeID string, err error)
	// InUse returns why the run must not take back the machine of a node: the node may be in use,
	// or a turnover that is not the run's own is owed. Empty: the run may take it; the same holds
	// for an unknown node.
	InUse(ctx context.Context, nodeID, runID string) (why string, err error)
	// MadeBy returns the run that made a node; empty: a person made it. Code: node_not_found.
	MadeBy(ctx context.Context, nodeID string) (runID string, err error)
	// Prepare makes the node of a run and its enrol token, or finds the run's node (made before, or
	// the existing node of the run), and binds the node to the machine. The node is enrolling, and
	// stays so when its agent enrols; Activate ends this status. Codes: sku_not_found,
	// hostname_taken.
	Prepare(ctx context.Context, n NewNode) (nodeID string, err error)
	// Bundle renders the user-data of a machine. Repeated calls return the same bundle with the
	// same token, until the token was used, is void or would expire too soon.
	Bundle(ctx context.Context, nodeID string, b BundleFacts) (Bundle, error)
	// Node reads a node. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
	// Activate activates an enrolled node if all conditions of an active node are met; otherwise
	// why says what the node lacks. A node that its turnover lets in later (Onboarding.Keeps) stays
	// unchanged; active is then true if the node meets the conditions. Code:
	// CodeHardwareMismatch.
	Activate(ctx context.Context, nodeID string) (active bool, why string, err error)
	// ExtendToken prolongs the open token of a node that has not enrolled: a deployed machine
	// cannot learn another token. Codes: node_deleted, token_none, token_extended_twice.
	ExtendToken(ctx context.Context, nodeID string, until time.Time, reason string) error
	// Remove deletes a run's node that never enrolled, and consumes its token. kept names an
	// enrolled node, which stays. A run without a node is no error. For a run over an existing
	// node, Remove takes only the token issued for the run.
	Remove(ctx context.Context, runID, reason string) (kept string, err error)
	// Renew has a run's node enrol anew, if only the broker's own checks keep the node out;
	// otherwise why says why the node stays out, and who may let it in. A run without a node is no
	// error.
	Renew(ctx context.Context, runID, reason string) (why string, err error)
	// Quarantine quarantines a node, unless the node is out of use already.
	Quarantine(ctx context.Context, nodeID, reason string) error
	// Reseed has an enrolled node's agent run node.hw_sync_reseed with the machine's own token,
	// once for each key. False: the task has not ended yet.
	Reseed(ctx context.Context, key, nodeID string, token taskcatalog.MAASMachineToken, interval time.Duration) (done bool, err error)
	// Diagnose has an enrolled node's agent run node.diagnostics for a run, once for each key, and
	// does not wait for the result.
	Diagnose(ctx context.Context, key, nodeID, runID string) (taskID string, err error)
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

// NewNode describes the node that a run makes.
type NewNode struct {
	NodeID                     string // of an existing node; empty until the run has made one
	RunID, Site, Hostname, SKU string
	MAASSystemID               string
	Disks                      []Device // as found by MAAS's commissioning: the disks that the node must have
	RequestedBy                string
	ByCommand                  bool // a running machine, on which an operator runs the install command
}

// BundleFacts are the facts from which a first-boot bundle is rendered, besides the broker's own.
type BundleFacts struct {
	RunID    string
	SiteID   string
	SystemID string
	Policy   broker.Policy
	RoCE     []broker.RoCEAssignment
	BootDisk Device
	Disks    []Device
	Expires  time.Time // the enrol token must be valid at least until then
}

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
