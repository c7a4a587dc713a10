package onboarding

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
)

// Deployments are the nodes of machines that runs deploy.
type Deployments interface {
	// Prepare makes the node of a run and its enrol token, or finds the run's node (made before, or
	// the existing node of the run), and binds the node to the machine. The node is enrolling, and
	// stays so when its agent enrols; Activate ends this status. Codes: sku_not_found,
	// hostname_taken.
	Prepare(ctx context.Context, n NewNode) (nodeID string, err error)
	// Installed records the image that MAAS has installed on the machine of a run's node, for the enrolment
	// that comes next.
	Installed(ctx context.Context, i Installation) error
	// Bundle renders the user-data of a machine. Repeated calls return the same bundle with the
	// same token, until the token was used, is void or would expire too soon.
	Bundle(ctx context.Context, nodeID string, b BundleFacts) (Bundle, error)
	// Remove deletes a run's node that never enrolled, and consumes its token. kept names an
	// enrolled node, which stays. A run without a node is no error. For a run over an existing
	// node, Remove takes only the token issued for the run.
	Remove(ctx context.Context, runID, reason string) (kept string, err error)
	// Renew has a run's node enrol anew, if only the broker's own checks keep the node out;
	// otherwise why says why the node stays out, and who may let it in. A run without a node is no
	// error.
	Renew(ctx context.Context, runID, reason string) (why string, err error)
}

// NewNode describes the node that a run makes.
type NewNode struct {
	NodeID                     string // of an existing node; empty until the run has made one
	RunID, Site, Hostname, SKU string
	MAASSystemID               string
	Disks                      []Device // as found by MAAS's commissioning: the disks that the node must have
	RequestedBy                string
	Place                      broker.NodePlace
	ByCommand                  bool // a running machine, on which an operator runs the install command
}

// Installation is an image that MAAS has installed for a run.
type Installation struct {
	NodeID, RunID string
	Image         string // as broker.ImageName gives it
	Epoch         int64  // of the agent that the installation brings
}

// BundleFacts are the facts from which a first-boot bundle is rendered, besides the broker's own.
type BundleFacts struct {
	RunID    string
	SiteID   string
	SystemID string
	Policy   broker.MachinePolicy
	RoCE     []broker.RoCEAssignment
	BootDisk Device
	Disks    []Device
	Expires  time.Time // the enrol token must be valid at least until then
}

// renderCloudInit makes the node and checks that the machine's bundle can be rendered. The bundle
// is rendered again where it is used: the bundle holds the enrol token, and the run's state must
// not.
func (c *Chains) renderCloudInit(ctx context.Context, r *run) error {
	s := &r.State
	id, err := c.Nodes.Prepare(ctx, NewNode{
		NodeID: s.NodeID, RunID: r.ID, Site: s.Site, Hostname: s.Hostname, SKU: s.SKU.ID, MAASSystemID: s.SystemID, Disks: s.Disks,
		Place: s.Place, RequestedBy: r.RequestedBy,
	})
	if err != nil {
		return storeFault(err)
	}
	if s.Reclaim != nil && id != s.NodeID {
		return chain.Fail(ambiguity, "the machine of node %s would be deployed for node %s", s.NodeID, id).With("node_changed", nil)
	}
	if s.NodeID = id; s.Claim == nil { // after a claim the machine carries the bundle that was rendered before
		b, err := c.bundle(ctx, r)
		if err != nil {
			return err
		}
		s.BundleDigest = b.Digest
	}
	r.Lock("node/" + id)
	r.Note(map[string]string{"node_id": id, "bundle": s.BundleDigest}, "node %s is %s", id, broker.Enrolling)
	return nil
}

func (c *Chains) bundle(ctx context.Context, r *run) (Bundle, error) {
	s := &r.State
	facts := BundleFacts{
		RunID: r.ID, SiteID: s.SiteID, SystemID: s.SystemID, Policy: s.Policy, Disks: s.Disks,
		Expires: r.Now.Add(seconds(s.Policy.EnrollmentTokenTTLSeconds)),
	}
	if s.BootDisk != nil {
		facts.BootDisk = *s.BootDisk
	}
	if s.Policy.EnablePhase2RoCE {
		rows, err := c.Records.RoCEAssignments(ctx, s.SiteID, s.Hostname)
		if err != nil {
			return Bundle{}, storeFault(err)
		}
		facts.RoCE = rows
	}
	b, err := c.Nodes.Bundle(ctx, s.NodeID, facts)
	if err != nil {
		return Bundle{}, storeFault(err)
	}
	for _, w := range b.Warnings {
		s.warn(w)
	}
	return b, nil
}

// forgetNode removes the node and its token. An enrolled node stays, out of use. A run that starts
// over needs this node and has the node enrol anew, unless a person keeps the node out.
func (c *Chains) forgetNode(ctx context.Context, r *run) error {
	kept, err := c.Nodes.Remove(ctx, r.ID, "the run was undone")
	if err != nil {
		return storeFault(err)
	}
	switch {
	case r.State.Reclaim != nil: // the node existed before this run, whose own list keeps the node from use
		r.State.BundleDigest = ""
		return nil
	case kept != "" && r.Restarting:
		why, err := c.Nodes.Renew(ctx, r.ID, "onboarding begins from the first stage")
		if err != nil {
			return storeFault(err)
		}
		if why != "" {
			r.State.warn(why)
			r.Note(map[string]string{"node_id": kept}, "%s", why)
		}
		return nil
	case kept != "":
		if err := c.Nodes.Quarantine(ctx, kept, "onboarding was undone after the node had enrolled"); err != nil {
			return storeFault(err)
		}
		r.Note(map[string]string{"node_id": kept}, "node %s had enrolled, and is quarantined", kept)
		return nil
	}
	r.State.NodeID, r.State.BundleDigest = "", ""
	return nil
}

// deployAccepted reports whether MAAS is deploying the machine for this run or has finished doing
// so. A second request would be refused or, worse, start over.
func (c *Chains) deployAccepted(ctx context.Context, r *run) (bool, error) {
	at, err := c.look(ctx, r)
	if err != nil {
		return false, err
	}
	if !at.marked() {
		return false, nil
	}
	switch at.Status {
	case maas.Deploying, maas.Deployed, maas.FailedDeployment:
		return true, nil
	}
	return false, nil
}

// deploy claims the machine and has MAAS deploy it, with a single change per step and a look before
// each change.
func (c *Chains) deploy(ctx context.Context, r *run) error {
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	if at.Locked {
		return at.locked()
	}
	if taken, err := c.claimMachine(ctx, at); err != nil || !taken {
		return err
	}
	if at.Status != maas.Allocated {
		return at.refuseForeign("the machine is marked, and neither allocated nor deploying")
	}
	s := &r.State
	if s.Policy.RequireHWSync {
		if err := at.wantInterval(ctx); err != nil {
			return err
		}
	}
	b, err := c.bundle(ctx, r)
	if err != nil {
		return err
	}
	s.BundleDigest, s.Epoch, s.SSH = b.Digest, b.Epoch, SSHSeed{}
	s.Erased = 0
	s.Deploys++
	err = at.region.Deploy(ctx, at.SystemID, maas.Deployment{
		Series: s.Policy.DistroSeries, UserData: b.UserData, Sync: s.Policy.RequireHWSync, Agent: agentName(r.ID),
		Comment: "hostler run " + r.ID,
	})
	if err != nil {
		return at.powerFault(ctx, err)
	}
	r.Note(map[string]any{"system_id": at.SystemID, "image": maas.Image(s.Policy.DistroSeries), "bundle": b.Digest, "deploys": s.Deploys},
		"MAAS deploys machine %s", at.displayName())
	return nil
}

// wantInterval sets how often hosts of the region report their hardware. A machine gets the
// interval when it is deployed, and keeps it. The whole region shares the setting, and other
// deployments want other values, so the deploying step sets the interval.
func (at *place) wantInterval(ctx context.Context) error {
	wants, err := broker.SyncInterval(at.state.Policy.HardwareSyncInterval)
	if err != nil {
		return storeFault(err)
	}
	has, err := at.region.SyncInterval(ctx)
	switch {
	case err != nil:
		return at.unseen(ctx, err)
	case has == wants:
		return nil
	}
	if err := at.region.SetSyncInterval(ctx, at.state.Policy.HardwareSyncInterval); err != nil {
		return at.changeFault(ctx, err)
	}
	return nil
}

// release gives the machine back to MAAS, if the machine is this run's.
func (c *Chains) release(ctx context.Context, r *run) error {
	s := &r.State
	if s.SystemID == "" || s.Claim == nil {
		return nil
	}
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	m, err := at.region.Machine(ctx, s.SystemID)
	switch {
	case maas.ClassOf(err) == maas.NotFound && err != nil:
		r.Note(nil, "machine %s is not in MAAS any more", s.SystemID)
	case err != nil:
		return at.unseen(ctx, err)
	case at.unsure():
		at.recordObserved(m)
		return at.outcomeUnknown()
	default:
		at.recordObserved(m)
		if err := c.releaseClaim(ctx, at); err != nil {
			return err
		}
		if at.Status != maas.Ready && at.Status != maas.New {
			r.Note(map[string]string{"maas_status": at.StatusName}, "machine %s does not belong to this run, and was not changed",
				at.displayName())
		}
	}
	s.Claim, s.DeployedAt, s.DeployFailure, s.SSH = nil, zero, "", SSHSeed{}
	return nil
}

// waitForDeployed waits until the installed system has fetched its user-data from MAAS. The fetch
// does not prove a working system.
func (c *Chains) waitForDeployed(ctx context.Context, r *run) error {
	seen := r.State.Seen.ObservedAt
	at, err := c.findInSharedList(ctx, r)
	if err != nil {
		return err
	}
	if at.Status == maas.Deploying && at.marked() {
		return chain.Again(patience(r, lookAgain), "machine is Deploying")
	}
	if err := at.look(ctx); err != nil {
		return err
	}
	switch {
	case !at.marked():
		return at.refuseForeign("the machine belonged to this run and was changed in MAAS")
	case at.Status == maas.Deploying:
		return chain.Again(patience(r, lookAgain), "machine is Deploying")
	case at.Status == maas.FailedDeployment:
		why := at.failureReason(ctx)
		details := at.details()
		details["maas_events"] = why.events
		return chain.Fail(deployFailure, "MAAS could not deploy machine %s: %s", at.displayName(), why).With("failed_deploy", details)
	case at.Status != maas.Deployed:
		return at.refuseForeign("the machine was to become Deployed, and was changed in MAAS (rerun deploys it again; or cancel)")
	}
	s := &r.State
	if err := c.Nodes.Installed(ctx, Installation{
		NodeID: s.NodeID, RunID: r.ID, Image: broker.ImageName(s.Policy.DistroSeries), Epoch: s.Epoch + 1,
	}); err != nil {
		return storeFault(err)
	}
	if wants, err := broker.SyncInterval(s.Policy.HardwareSyncInterval); err == nil && at.EnableHWSync && at.interval() != wants {
		s.warn(fmt.Sprintf("machine %s reports its hardware every %v instead of every %v: the region's %s was changed during the deployment", at.displayName(), at.interval(), wants, maas.SyncSetting))
	}
	s.DeployedAt, s.SyncBaseline = r.Now, at.baseline(ctx, seen)
	r.Note(map[string]any{"ips": s.Seen.IPs, "power": s.Seen.Power}, "machine %s is Deployed", at.displayName())
	return nil
}
