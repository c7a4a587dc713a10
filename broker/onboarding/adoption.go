package onboarding

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// Makers tell who made a node.
type Makers interface {
	// MadeBy returns the run that made a node; empty: a person made it. Code: node_not_found.
	MadeBy(ctx context.Context, nodeID string) (runID string, err error)
}

// AdoptionKind is the kind of runs that bind an already deployed machine to a new node.
const AdoptionKind = broker.AdoptionKind

// AdoptionRequest is an operator's description of a deployed machine.
type AdoptionRequest struct {
	SystemID string
	Hostname string // empty: taken from MAAS; otherwise MAAS must have the same hostname
	Place    broker.NodePlace
}

// NewAdoption returns the first state of a run and the locks that the run needs. A SKU without an
// id counts as no SKU: the machine is then compared with nothing. Codes: adoption_invalid,
// site_disabled, profile_disabled.
func NewAdoption(site broker.Site, profile broker.Profile, sku broker.SKU, req AdoptionRequest) (Onboarding, []string, error) {
	bad := func(format string, args ...any) (Onboarding, []string, error) {
		return Onboarding{}, nil, broker.Errorf(broker.Invalid, "adoption_invalid", "cannot adopt: "+format, args...)
	}
	hostname, ok := "", true
	if req.Hostname != "" {
		hostname, ok = broker.CanonicalHostname(req.Hostname)
	}
	if err := req.Place.Check(); err != nil {
		return bad("machine %s: %s", taskcatalog.Clean(req.SystemID, 64), broker.AsError(err).Message)
	}
	switch {
	case !maas.SystemIDForm.MatchString(req.SystemID):
		return bad("%q is not a system_id of MAAS", taskcatalog.Clean(req.SystemID, 64))
	case !ok:
		return bad("%q is not a valid hostname for machine %s", taskcatalog.Clean(req.Hostname, 100), req.SystemID)
	case profile.SiteID != site.ID:
		return bad("site %s has no profile %s", site.Name, profile.Name)
	case site.Status != broker.SiteActive:
		return Onboarding{}, nil, broker.Errorf(broker.Refused, "site_disabled",
			"cannot adopt machine %s: site %s is %s (hostler site enable %s)", req.SystemID, site.Name, site.Status, site.Name)
	case profile.Status != broker.SiteActive:
		return Onboarding{}, nil, broker.Errorf(broker.Refused, "profile_disabled", "cannot adopt machine %s: profile %s is %s",
			req.SystemID, profile.Name, profile.Status)
	}
	s := Onboarding{
		SiteID: site.ID, Site: site.Name, ProfileID: profile.ID, Profile: profile.Name,
		Policy: site.PolicyOf(profile).MachinePolicy, SKU: sku,
		Hostname: hostname, Adopts: req.SystemID, Place: req.Place,
	}
	locks := []string{"machine/" + s.Site + "/" + s.Adopts}
	if hostname != "" {
		locks = append(locks, "hostname/"+s.Site+"/"+hostname)
	}
	return s, locks, nil
}

// Adoption is the list of stages from a deployed machine to an active node. No stage, and no undo
// of a stage, makes a call that changes MAAS.
func (c *Chains) Adoption() chain.Chain[Onboarding] {
	return chain.Chain[Onboarding]{
		Kind: AdoptionKind, Form: form, Probe: c.Probe, Failing: c.diagnose,
		Stages: append([]stage{c.LoadSite()}, c.classifyFaults([]stage{
			{Name: "find_in_maas", Do: c.findDeployed, Retry: retries("find_in_maas"), Limit: within(records), About: aboutLook},
			{Name: "compare_with_sku", Do: c.compareWithSKU, Retry: retries("compare_with_sku"), Limit: within(records), About: aboutLook},
			{Name: "bind_node", Do: c.bindNode, Undo: c.unbindNode, Retry: retries("bind_node"), Limit: within(records), About: aboutBind},
			{Name: "wait_for_agent_enrollment", Do: c.waitForAdopted, Limit: adoptionLimit, About: expected(5 * time.Minute)},
		})...),
	}
}

// adoptionLimit is how long an operator has to run the install command.
func adoptionLimit(s Onboarding) chain.Limit {
	return chain.Limit{After: seconds(s.Policy.EnrollmentTokenTTLSeconds), Class: enrollmentFailure, Code: "failed_enrollment"}
}

// findDeployed reads the machine that the request names.
func (c *Chains) findDeployed(ctx context.Context, r *run) error {
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	s := &r.State
	m, err := at.region.Machine(ctx, s.Adopts)
	switch {
	case maas.ClassOf(err) == maas.NotFound:
		return s.unknown()
	case err != nil:
		return at.unseen(ctx, err)
	}
	at.recordObserved(m)
	if err := c.adoptable(ctx, at); err != nil {
		return err
	}
	if s.Hostname, err = at.sameName(); err != nil {
		return err
	}
	bmcs, err := at.region.Addresses(ctx, listAge)
	if err != nil {
		return at.unseen(ctx, err)
	}
	if at.Locked {
		s.warn("machine " + at.displayName() + " is locked in MAAS: unlock it there before its node is reimaged or decommissioned")
	}
	s.SystemID, s.Owner, s.IPMIIP = m.SystemID, m.Owner, taskcatalog.Clean(bmcs[m.SystemID], 64)
	if s.Place.Zone == "" {
		s.Place.Zone = zoneOf(m)
	}
	r.Lock("hostname/" + s.Site + "/" + s.Hostname)
	r.Note(map[string]string{"system_id": m.SystemID, "owner": m.Owner}, "machine %s is %s, owned by %s", at.displayName(),
		taskcatalog.Clean(m.StatusName, 64), taskcatalog.Clean(m.Owner, 64))
	return nil
}

// zoneOf returns the zone of a machine in MAAS; empty: the machine is in the zone that MAAS gives to all
// machines, or the zone's name is no word of a place.
func zoneOf(m maas.Machine) string {
	zone := strings.ToLower(m.Zone.Name)
	if zone == "default" || !broker.PlaceWord.MatchString(zone) {
		return ""
	}
	return zone
}

// unknown is the failure of a machine that MAAS has no record of.
func (s *Onboarding) unknown() *chain.Failure {
	return chain.Fail(inputError, "MAAS of site %s has no machine %s (see its page in MAAS for the system_id)", s.Site,
		s.Adopts).With("machine_unknown", nil)
}

// sameName returns the machine's hostname in MAAS, which must equal the hostname of the request.
func (at *place) sameName() (string, error) {
	has, ok := broker.CanonicalHostname(at.Hostname)
	switch given := at.state.Hostname; {
	case !ok:
		return given, chain.Fail(inputError, "the name of machine %s in MAAS, %q, is not a valid hostname", at.SystemID,
			taskcatalog.Clean(at.Hostname, 100)).With("hostname_invalid", nil)
	case given != "" && given != has && !strings.EqualFold(given, at.FQDN):
		return given, chain.Fail(ambiguity, "machine %s has the name %s instead of %s", at.SystemID, has, given).With("hostname_mismatch",
			map[string]string{"given": given, "maas": has})
	case given != "":
		return given, nil
	}
	return has, nil
}

// adoptable refuses a machine that is not deployed or already belongs to a node. A mark is another
// broker's claim, unless the mark names a deleted node of this broker.
func (c *Chains) adoptable(ctx context.Context, at *place) error {
	switch user := at.state.MAASUser; {
	case at.Status == maas.Broken:
		return chain.Fail(ambiguity, "machine %s is marked Broken in MAAS, and only a Deployed machine can be adopted", at.displayName()).
			With("machine_broken", map[string]string{"maas_status": at.StatusName}).
			Next("find out why; mark it fixed in MAAS, which makes it Deployed if it was Deployed before, then rerun")
	case at.Status != maas.Deployed:
		return chain.Fail(ambiguity,
			"machine %s is %s, and only a Deployed machine can be adopted (hostler onboarding start installs a machine from bare metal)",
			at.displayName(), taskcatalog.Clean(at.StatusName, 64)).
			With("machine_not_deployed", map[string]string{"maas_status": at.StatusName})
	case at.Owner == "":
		return chain.Fail(ambiguity, "machine %s has no owner in MAAS", at.displayName()).With("owner_unknown", nil)
	case at.state.Owner != "" && at.Owner != at.state.Owner:
		return at.refuseForeign("it was of " + taskcatalog.Clean(at.state.Owner, 64) + " when this run began")
	case at.Owner != user:
		return chain.Fail(ambiguity,
			"machine %s belongs to the MAAS user %s, and the token of site %s belongs to %s: no run could release the machine, so its node could be neither reimaged nor decommissioned",
			at.displayName(), taskcatalog.Clean(at.Owner, 64), at.state.Site, taskcatalog.Clean(user, 64)).With("machine_of_other_user",
			map[string]string{"owner": at.Owner, "user": user}).
			Next("deploy the machine as %s in MAAS, or set a token of the machine's owner for the site (hostler site credentials %s --maas-token-file FILE), then rerun", taskcatalog.Clean(user, 64), at.state.Site)
	}
	if node, run := at.Annotations[maas.MarkNode], at.Annotations[maas.MarkRun]; node != "" || run != "" {
		gone, err := c.ownDeletedMark(ctx, node, run)
		if err != nil {
			return err
		}
		if !gone {
			return at.refuseForeign("an onboarding holds the machine, at this broker or another")
		}
	}
	return c.unbound(ctx, at)
}

// ownDeletedMark reports whether a mark names a deleted node of this broker and the run that made
// this node. Both must match: half of our mark may stand beside half of another broker's.
func (c *Chains) ownDeletedMark(ctx context.Context, node, run string) (bool, error) {
	n, err := c.Nodes.Node(ctx, node)
	if err == nil && n.Status == broker.Deleted {
		var by string
		by, err = c.Nodes.MadeBy(ctx, node)
		if err == nil {
			return by == run, nil
		}
	}
	if err != nil && broker.AsError(err).Kind != broker.NotFound {
		return false, storeFault(err)
	}
	return false, nil
}

// compareWithSKU compares the result of MAAS's commissioning with the SKU, and keeps the disks as
// the disks that the node must have.
func (c *Chains) compareWithSKU(ctx context.Context, r *run) error {
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	if err := c.adoptable(ctx, at); err != nil {
		return err
	}
	s := &r.State
	s.BootDisk, s.Disks = nil, nil
	for _, d := range at.Disks {
		s.Disks = append(s.Disks, deviceOf(d))
	}
	if !slices.ContainsFunc(s.Disks, func(d Device) bool { return d.Serial != "" }) {
		s.warn("MAAS knows no disk of machine " + at.displayName() +
			" by its serial number, so the broker cannot verify that the agent runs on this machine (check hostler node show before the node has a tenant)")
	}
	if s.SKU.ID == "" {
		r.Note(map[string]any{"disks": s.Disks}, "no SKU was named: the machine has %d disks, and is compared with no SKU", len(s.Disks))
		return nil
	}
	boot, err := fits(s.SKU, at.Machine)
	if err != nil {
		return err
	}
	s.BootDisk = &boot
	r.Note(map[string]any{"disks": s.Disks}, "the machine matches SKU %s, as far as MAAS reports", s.SKU.ID)
	return nil
}

// bindNode makes the node. The enrol token comes with the install command, which an operator asks
// for; no run's state holds the token.
func (c *Chains) bindNode(ctx context.Context, r *run) error {
	s := &r.State
	id, err := c.Nodes.Prepare(ctx, NewNode{
		RunID: r.ID, Site: s.Site, Hostname: s.Hostname, SKU: s.SKU.ID, MAASSystemID: s.SystemID, Disks: s.Disks,
		Place: s.Place, RequestedBy: r.RequestedBy, ByCommand: true,
	})
	if err != nil {
		return storeFault(err)
	}
	s.NodeID = id
	r.Lock("node/" + id)
	r.Note(map[string]string{"node_id": id}, "node %s is machine %s", id, s.SystemID)
	return nil
}

// unbindNode removes the node. A node that has enrolled stays and is quarantined, except when the
// run restarts.
func (c *Chains) unbindNode(ctx context.Context, r *run) error {
	kept, err := c.Nodes.Remove(ctx, r.ID, "adoption was undone")
	switch {
	case err != nil:
		return storeFault(err)
	case kept == "":
		r.State.NodeID = ""
		return nil
	case r.Restarting:
		return nil
	}
	r.Note(map[string]string{"node_id": kept}, "node %s had enrolled, and is quarantined", kept)
	return storeFault(c.Nodes.Quarantine(ctx, kept, "adoption was undone after the node had enrolled"))
}

// waitForAdopted waits for the agent and activates the node if the machine is the expected one.
// Otherwise the node is quarantined.
func (c *Chains) waitForAdopted(ctx context.Context, r *run) error {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return storeFault(err)
	}
	switch n.Status {
	case broker.Active, broker.Offline: // activated by a person after a mismatch
		return nil
	case broker.Enrolling:
	case broker.Quarantined:
		return c.quarantined(ctx, r, n)
	default:
		return chain.Fail(enrollmentFailure, "node %s is %s: %s", n.ID, n.Status, n.StatusReason).With("failed_enrollment", nil)
	}
	if s.Mismatch != "" {
		if err := c.Nodes.Quarantine(ctx, n.ID, s.Mismatch); err != nil {
			return storeFault(err)
		}
		return unlike(n, s.Mismatch)
	}
	if n.Epoch == 0 {
		return chain.Again(soon, "node %s: its agent has not made contact (hostler node token issue %s prints the install command again)",
			n.ID, n.ID)
	}
	at, err := c.look(ctx, r) // the machine may have been taken away meanwhile
	if err != nil {
		return err
	}
	if err := c.adoptable(ctx, at); err != nil {
		return err
	}
	active, lacks, err := c.Nodes.Activate(ctx, n.ID)
	switch {
	case err != nil && broker.AsError(err).Code == CodeHardwareMismatch:
		// Saved before the quarantine, so that the reason is on record when the node is found
		// quarantined.
		s.Mismatch = broker.AsError(err).Message
		return chain.Again(0, "%s", s.Mismatch)
	case err != nil:
		return storeFault(err)
	case !active:
		return chain.Again(soon, "node %s: %s", n.ID, lacks)
	}
	r.Note(map[string]string{"node_id": n.ID}, "node %s is active", n.ID)
	return nil
}

// quarantined reports the state of a node that was quarantined for its hardware or by a person.
// Meanwhile a part may have been put back or accepted, or the command may have been run on the
// right machine. Only a person activates such a node.
func (c *Chains) quarantined(ctx context.Context, r *run, n broker.Node) error {
	active, lacks, err := c.Nodes.Activate(ctx, n.ID)
	switch {
	case err != nil && broker.AsError(err).Code == CodeHardwareMismatch:
		r.State.Mismatch = broker.AsError(err).Message
		return unlike(n, r.State.Mismatch)
	case err != nil:
		return storeFault(err)
	}
	r.State.Mismatch = ""
	if active { // a person activated the node meanwhile
		return nil
	}
	return chain.Fail(enrollmentFailure, "node %s is quarantined (%s): %s", n.ID, n.StatusReason, lacks).With("failed_enrollment", nil)
}

// unlike is the failure of a node quarantined for its hardware.
func unlike(n broker.Node, why string) error {
	return chain.Fail(mismatch,
		"%s; the node is quarantined (see hostler node device list %s; to accept a replaced disk: hostler node device accept %s SERIAL --reason R; then run hostler node activate %s, and resume)",
		why, n.ID, n.ID, n.ID).With(CodeHardwareMismatch, nil)
}

var (
	aboutLook = about("nothing: MAAS is only read", "", time.Minute)
	aboutBind = about("the broker: a node record", "", time.Minute)
)
