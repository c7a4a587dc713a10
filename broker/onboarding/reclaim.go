package onboarding

import (
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// Reclaim is the task of a run over an existing node's machine, and the results of the run.
type Reclaim struct {
	// The request.
	Erase string `json:"erase"` // none, quick, secure
	// Fallback is release_fallback_no_erase, as it was when the run began. Fallback applies only to
	// a redeployed machine, whose certificate keeps the next tenant away; nothing holds back a
	// machine that leaves.
	Fallback     bool `json:"fallback,omitempty"`
	Redeploys    bool `json:"redeploys,omitempty"`     // the machine is redeployed
	Adopted      bool `json:"adopted,omitempty"`       // an adoption made the node: its machine may have no mark
	RemoveRecord bool `json:"remove_record,omitempty"` // MAAS shall forget the machine

	// Findings and actions of the run.
	User         string    `json:"user,omitempty"`          // MAAS user that owns the machine; with AskedAt, the intent
	AskedAt      time.Time `json:"asked_at,omitzero"`       // when the run decided to release the machine
	Token        string    `json:"token,omitempty"`         // digest of the machine's own token before the release
	TokenDiffers bool      `json:"token_differs,omitempty"` // the machine has another token since
	Sends        string    `json:"sends,omitempty"`         // what the release of the intent makes MAAS do to the disks
	Attempt      int       `json:"attempt,omitempty"`       // in which a release was sent last
	Erasing      bool      `json:"erasing,omitempty"`       // this release was seen erasing the disks
	Failed       int       `json:"failed,omitempty"`        // erases that failed
	Did          string    `json:"did,omitempty"`           // what MAAS did to the disks; empty: not known yet
	Downgrade    string    `json:"downgrade,omitempty"`     // why less was done than was requested
	ReadyAt      time.Time `json:"ready_at,omitzero"`       // when the machine had no owner again
	Unheard      time.Time `json:"unheard,omitzero"`        // time of the latest change request without an answer
	OffAttempt   int       `json:"off_attempt,omitempty"`   // in which the power was switched off last
	Deletes      bool      `json:"deletes,omitempty"`       // MAAS was asked to forget the machine
	Removed      bool      `json:"removed,omitempty"`       // MAAS has forgotten the machine
}

// ReclaimRequest is a node whose machine is to be taken back.
type ReclaimRequest struct {
	NodeID       string
	Hostname     string
	MAASSystemID string
	IPMIIP       string // empty: MAAS is asked
	Epoch        int64  // of the node: number of enrolments so far
	// Keeps is the status in which the node stays; empty: the run's stages move it.
	Keeps broker.NodeStatus
	// Adopted says that a run of adoption made the node. The machine then needs no mark as proof of
	// its deployment for this node.
	Adopted bool
	Erase   string // empty: none
	// Redeploys says that the machine will be redeployed.
	Redeploys bool
	// RemoveRecord says that MAAS shall forget the machine at the end.
	RemoveRecord bool
}

// NewReclaim returns the first state of the MAAS side of a run over an existing node, and the locks
// that the run needs. A run that does not redeploy the machine needs neither profile nor SKU: zero
// values suffice, and Policy then falls back on the site's own. Codes: reclaim_invalid,
// site_disabled, profile_disabled.
func NewReclaim(site broker.Site, profile broker.Profile, sku broker.SKU, n ReclaimRequest) (Onboarding, []string, error) {
	bad := func(format string, args ...any) (Onboarding, []string, error) {
		return Onboarding{}, nil, broker.Errorf(broker.Invalid, "reclaim_invalid",
			"cannot release the machine of node "+taskcatalog.Clean(n.NodeID, 64)+": "+format, args...)
	}
	if n.Erase == "" {
		n.Erase = maas.EraseNone
	}
	hostname, ok := broker.CanonicalHostname(n.Hostname)
	switch {
	case n.NodeID == "":
		return bad("the machine belongs to no node")
	case !ok:
		return bad("its hostname is not valid")
	case !maas.SystemIDForm.MatchString(n.MAASSystemID):
		return bad("%q is not a system_id of MAAS", taskcatalog.Clean(n.MAASSystemID, 64))
	case !slices.Contains([]string{maas.EraseNone, maas.EraseQuick, maas.EraseSecure}, n.Erase):
		return bad("erase %q is not one of none, quick, secure", taskcatalog.Clean(n.Erase, 32))
	case profile.ID != "" && profile.SiteID != site.ID:
		return bad("site %s has no profile %s", site.Name, profile.Name)
	case n.Redeploys && (profile.ID == "" || sku.ID == ""):
		return bad("a new deployment needs a profile and a SKU")
	case n.Redeploys && n.RemoveRecord:
		return bad("a machine that is deployed again stays in MAAS")
	case site.Status != broker.SiteActive && n.Redeploys:
		return Onboarding{}, nil, broker.Errorf(broker.Refused, "site_disabled",
			"cannot deploy the machine of node %s again: site %s is %s (hostler site enable %s)", n.NodeID, site.Name, site.Status,
			site.Name)
	case profile.Status != broker.SiteActive && n.Redeploys:
		return Onboarding{}, nil, broker.Errorf(broker.Refused, "profile_disabled",
			"cannot deploy the machine of node %s again: profile %s is %s", n.NodeID, profile.Name, profile.Status)
	}
	if profile.ID == "" {
		profile.Policy = broker.DefaultPolicy()
	}
	policy := site.PolicyOf(profile)
	s := Onboarding{
		SiteID: site.ID, Site: site.Name, ProfileID: profile.ID, Profile: profile.Name, Policy: policy.MachinePolicy, SKU: sku,
		Hostname: hostname, SystemID: n.MAASSystemID, NodeID: n.NodeID, Epoch: n.Epoch, Keeps: n.Keeps,
		Reclaim: &Reclaim{
			Erase: n.Erase, Fallback: policy.ReleaseFallbackNoErase && n.Redeploys, Redeploys: n.Redeploys, Adopted: n.Adopted,
			RemoveRecord: n.RemoveRecord,
		},
	}
	locks := []string{"hostname/" + s.Site + "/" + hostname, "machine/" + s.Site + "/" + s.SystemID}
	if n.IPMIIP != "" {
		s.IPMIIP = maas.BMCAddress(n.IPMIIP)
		locks = append(locks, "ipmi/"+s.Site+"/"+s.IPMIIP)
	}
	return s, locks, nil
}

// ReleaseMachine is the stage that gives a node's machine back to MAAS, with erased disks if
// requested.
func (c *Chains) ReleaseMachine() chain.Stage[Onboarding] {
	return c.classifyFaults([]stage{{
		Name: "release_maas_node", Done: c.isReleased, Do: c.releaseMachine, Undo: c.awaitSettled,
		Retry: retries("release_maas_node"), Limit: reclaimLimit, About: aboutRelease,
	}})[0]
}

// PowerOff is the stage that ensures that the machine is off.
func (c *Chains) PowerOff() chain.Stage[Onboarding] {
	return c.classifyFaults([]stage{{
		Name: "power_off_maas_node", Done: c.isOff, Do: c.powerOff, Undo: c.awaitSettled,
		Retry: retries("power_off_maas_node"), Limit: offLimit, About: aboutOff,
	}})[0]
}

// RemoveRecord is the stage that has MAAS forget the machine.
func (c *Chains) RemoveRecord() chain.Stage[Onboarding] {
	return c.classifyFaults([]stage{{
		Name: "remove_maas_record", Done: c.isForgotten, Do: c.forgetRecord, Undo: c.awaitSettled,
		Retry: retries("remove_maas_record"), Limit: within(records), Optional: true, About: aboutForget,
	}})[0]
}

// reclaimLimit excludes the time in which MAAS erases disks. A machine that does not become Ready
// is left to a person.
func reclaimLimit(s Onboarding) chain.Limit {
	return chain.Limit{After: switching + s.Erased, Class: bmcFailure, Code: "failed_release_timeout"}
}

func offLimit(Onboarding) chain.Limit {
	return chain.Limit{After: switching, Class: bmcFailure, Code: "failed_power_off"}
}

func aboutRelease(s Onboarding) chain.About {
	what, how, expected := "the installed system of the machine", "", 2*time.Minute
	if r := s.Reclaim; r != nil && r.Erase != maas.EraseNone {
		what, how, expected = "the content of the machine's disks", ", and erases its disks ("+r.Erase+")", 30*time.Minute
	}
	return chain.About{Touches: "MAAS: releases the machine" + how, Destructive: what, Expected: expected}
}

func aboutForget(s Onboarding) chain.About {
	if s.Reclaim == nil || !s.Reclaim.RemoveRecord {
		return chain.About{Touches: "nothing: MAAS keeps its record of the machine"}
	}
	return chain.About{
		Touches: "MAAS: deletes its record of the machine", Destructive: "MAAS's record of the machine, and its events",
		Expected: time.Minute,
	}
}

var aboutOff = about("the machine: its power is switched off by MAAS", "", time.Minute)
