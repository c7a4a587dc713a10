package onboarding

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Records are what the broker knows of its sites. *store.DB is one.
type Records interface {
	Site(ctx context.Context, ref string) (broker.Site, error)
	// UsePowerOverride finds the override that goes before the site's default for
	// a machine, and notes that it was used; false: there is none.
	UsePowerOverride(ctx context.Context, siteID, pxeMAC, ipmiIP, hostname string) (broker.PowerOverride, bool, error)
	RoCEAssignments(ctx context.Context, siteID, hostname string) ([]broker.RoCEAssignment, error)
}

// Nodes are the broker's own records of nodes, as far as a chain changes them. A
// method may be called again with the same arguments, because a save or an answer
// was lost, and then changes nothing more. Errors of kind Unavailable hold the
// site; Invalid ones are the input's fault.
type Nodes interface {
	// Bound names the node, not deleted, whose machine that is; empty: none, or the
	// one that this run made. Where it is a run over a node that exists, it may be that
	// node, if no other is bound to the machine as well.
	Bound(ctx context.Context, site, systemID, runID string) (nodeID string, err error)
	// InUse says why the machine of a node is not to be taken back for that run: its
	// node may be in use, or a turnover is owed that is not the run's own. Empty: it
	// may; so it may for a node that there is not.
	InUse(ctx context.Context, nodeID, runID string) (why string, err error)
	// MadeBy names the run that made a node; empty: a person did. Code:
	// node_not_found.
	MadeBy(ctx context.Context, nodeID string) (runID string, err error)
	// Prepare makes the node of a run and its enrol token, or finds the node that
	// the run made before, or is over, and binds it to the machine. It is enrolling, and stays so
	// when its agent enrols: Activate lets it in. Codes: sku_not_found,
	// hostname_taken.
	Prepare(ctx context.Context, n NewNode) (nodeID string, err error)
	// Bundle renders what a machine is deployed with: the same again, with the same
	// token, until that token was used, is void or would expire too soon.
	Bundle(ctx context.Context, nodeID string, b BundleFacts) (Bundle, error)
	// Node reads a node. Code: node_not_found.
	Node(ctx context.Context, nodeID string) (broker.Node, error)
	// Activate makes an enrolled node active if it has all that an active node must
	// have; else why says what it lacks. A node that another run will let in stays as it
	// is (Onboarding.Keeps): true says then that it has all of that. Code:
	// CodeHardwareMismatch.
	Activate(ctx context.Context, nodeID string) (active bool, why string, err error)
	// ExtendToken lets the open token of a node that has not enrolled be good until
	// then: a deployed machine cannot learn another. Codes: node_deleted, token_none,
	// token_extended_twice.
	ExtendToken(ctx context.Context, nodeID string, until time.Time, reason string) error
	// Remove deletes the node that a run made, if it never enrolled, and consumes its
	// token. kept names one that has enrolled, and stays. That there is none is no
	// error. Of a run over a node that exists nothing goes but the token that was issued
	// for it.
	Remove(ctx context.Context, runID, reason string) (kept string, err error)
	// Renew has the node that a run made enrol anew, if nothing but the broker's own
	// checks keep it out; else why says who lets it in. That there is none is no error.
	Renew(ctx context.Context, runID, reason string) (why string, err error)
	// Quarantine keeps a node from use, if it is not so already.
	Quarantine(ctx context.Context, nodeID, reason string) error
	// Reseed has an enrolled node's agent do node.hw_sync_reseed, once for each key,
	// with the machine's own token. False: it has not ended yet.
	Reseed(ctx context.Context, key, nodeID string, token taskcatalog.MAASMachineToken, interval time.Duration) (done bool, err error)
	// Diagnose has an enrolled node's agent do node.diagnostics for a run, once for each
	// key, and waits for nothing.
	Diagnose(ctx context.Context, key, nodeID, runID string) (taskID string, err error)
}

// Occupied says why somebody may be working on a node, whatever its runs say of it;
// empty: nobody is.
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

// CodeHardwareMismatch refuses a node whose machine is not of its SKU, or not the
// one that MAAS has commissioned.
const CodeHardwareMismatch = "hardware_mismatch"

// NewNode is what a run knows of the node that it makes.
type NewNode struct {
	NodeID                     string // of one that exists; empty until the run has made it
	RunID, Site, Hostname, SKU string
	MAASSystemID               string
	Disks                      []Device // as MAAS's commissioning found them: what the node shall have
	RequestedBy                string
	ByCommand                  bool // its machine runs, and is given the install command
}

// BundleFacts are what a first-boot bundle is rendered from, beside what the
// broker knows itself.
type BundleFacts struct {
	RunID    string
	SiteID   string
	SystemID string
	Policy   broker.Policy
	RoCE     []broker.RoCEAssignment
	BootDisk Device
	Disks    []Device
	Expires  time.Time // until then the enrol token must be good, at least
}

// Bundle is user-data for MAAS. It holds the enrol token: nothing prints it, and no
// state keeps it.
type Bundle struct {
	UserData []byte
	Digest   string   // sha256:…, of what is in it but the token
	Epoch    int64    // how often the node has enrolled by now
	Warnings []string // for the run's record
}

// String keeps the token out of whatever is printed.
func (b Bundle) String() string { return "[bundle " + b.Digest + "]" }

// GoString is String.
func (b Bundle) GoString() string { return b.String() }

// Device is a part of a machine that is known again by its serial.
type Device struct {
	ID     int    `json:"id"` // MAAS's
	Name   string `json:"name"`
	Model  string `json:"model"`
	Serial string `json:"serial"`
	IDPath string `json:"id_path,omitempty"`
	Size   int64  `json:"size"` // bytes
}
