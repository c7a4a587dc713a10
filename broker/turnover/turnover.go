package turnover

import (
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/taskcatalog"
)

// Mode is which turnover a run is.
type Mode string

// The modes.
const (
	SoftReset        Mode = "soft_reset"
	Reimage          Mode = "reimage"
	FullDecommission Mode = "full_decommission"
	StorageCleanup   Mode = "storage_cleanup"
)

// Modes are all of them.
var Modes = []Mode{SoftReset, Reimage, FullDecommission, StorageCleanup}

// KindPrefix is that of the kinds of all turnovers, and of what is told of them.
const KindPrefix = broker.TurnoverKinds

// Kind is the kind of a mode's runs.
func (m Mode) Kind() string { return KindPrefix + "/" + string(m) }

// NoSite stands for the site of a run whose node has none. It is the name of no site.
const NoSite = "-"

// The words for what is cleaned of storage.
const (
	CleanNone  = "none"
	CleanLocal = "local"
	CleanWeka  = "weka"
	CleanAll   = "all"
)

// EraseNone leaves disks as they are, but for their files.
const EraseNone = "none"

// Turnover is the state of a run.
type Turnover struct {
	// What was asked for. Policy is a copy: a change of it is for later runs.
	NodeID         string                `json:"node_id"`
	Hostname       string                `json:"hostname"`
	Site           string                `json:"site,omitempty"` // a name; empty: none
	SKU            string                `json:"sku,omitempty"`
	Mode           Mode                  `json:"mode"`
	Reason         string                `json:"reason"`
	StorageCleanup string                `json:"storage_cleanup"` // none, local, weka, all
	Erase          string                `json:"erase"`           // none, quick, secure
	ForceRelease   bool                  `json:"force_release,omitempty"`
	Ends           []string              `json:"ends,omitempty"` // as of the request
	From           broker.NodeStatus     `json:"from,omitempty"` // where the node must be when it is taken; empty: anywhere
	RequestedBy    string                `json:"requested_by"`
	Profile        string                `json:"profile,omitempty"` // id, of a node of a site
	Follows        string                `json:"follows,omitempty"` // the run in whose place this one is
	Retries        map[string]int        `json:"stage_retries,omitempty"`
	Backoff        int                   `json:"retry_backoff_seconds"`
	Policy         broker.TurnoverPolicy `json:"policy"`

	// Machine is what MAAS does with the node's machine; of a node without one it
	// stays empty.
	Machine onboarding.Onboarding `json:"machine,omitzero"`

	// What was found and done.
	Was           broker.NodeStatus `json:"was,omitempty"`           // of the node, when the run took it
	TakenAt       time.Time         `json:"taken_at,omitzero"`       // when that was
	WipedAt       time.Time         `json:"wiped_at,omitzero"`       // when MAAS had the machine back
	Silent        bool              `json:"silent,omitempty"`        // its former agent did not answer, and is asked nothing more
	SecretsLeft   bool              `json:"secrets_left,omitempty"`  // those of a node that is gone, which a person is to remove
	HeardAt       time.Time         `json:"heard_at,omitzero"`       // when the system of before was heard of last, and a person was told
	ConflictAt    time.Time         `json:"conflict_at,omitzero"`    // when two had the node's identity, and the run was stopped by that
	ConflictTaken time.Time         `json:"conflict_taken,omitzero"` // until when a person answers for it that there were
	Tasks         []Done            `json:"tasks,omitempty"`         // the last of each stage, in their order
	Warnings      []string          `json:"warnings,omitempty"`      // for people
	Findings      int               `json:"findings,omitempty"`      // of the last validation
	MeetsPolicy   bool              `json:"meets_policy,omitempty"`  // the certificate does
	Shortfalls    []string          `json:"shortfalls,omitempty"`    // codes, where it falls short
	Issued        string            `json:"certificate_id,omitempty"`
}

// Done is a task of the run that has ended.
type Done struct {
	Stage string `json:"stage"`
	ID    string `json:"task_id"`
	Type  string `json:"type"`
	// For is what it was done for, where a stage has several: a user, for example.
	For string `json:"for,omitempty"`
}

// Request is what an operator asks for.
type Request struct {
	Mode           Mode
	StorageCleanup string // empty: local
	Erase          string // of the disks that the system does not run from; empty: none
	ForceRelease   bool
	Ends           []string // with ForceRelease, the allocations that it was asked of: no other one is ended
	RemoveRecord   bool     // full_decommission: MAAS shall forget the machine at the end
	Reason         string
	RequestedBy    string
	Follows        string            // a run that its node's silence has ended; empty: none
	From           broker.NodeStatus // where the node must still be when it is taken; empty: anywhere
}

// Place is where a node stands, and what a turnover goes by there.
type Place struct {
	Policy broker.Policy
	// Site, Profile and SKU are those of a machine of MAAS.
	Site    broker.Site
	Profile broker.Profile
	SKU     broker.SKU
	// Adopted says that a run of adoption made the node: its machine may have no mark.
	Adopted bool
}

// New is the first state of a run, and the locks that it must have. Codes:
// turnover_invalid, node_status, reason_missing, and those of onboarding.NewReclaim.
func New(n broker.Node, at Place, req Request) (Turnover, []string, error) {
	bad := func(code, format string, args ...any) (Turnover, []string, error) {
		return Turnover{}, nil, broker.Errorf(broker.Invalid, code, "cannot turn over node "+n.ID+": "+format, args...)
	}
	if req.StorageCleanup == "" {
		req.StorageCleanup = CleanLocal
	}
	if req.Erase == "" {
		req.Erase = EraseNone
	}
	switch {
	case !slices.Contains([]string{EraseNone, taskcatalog.EraseQuick, taskcatalog.EraseSecure}, req.Erase):
		return bad("turnover_invalid", "erase %q is none of none, quick and secure", req.Erase)
	case !slices.Contains(Modes, req.Mode):
		return bad("turnover_invalid", "%q is no mode (soft_reset, reimage, full_decommission, storage_cleanup)", string(req.Mode))
	case !slices.Contains([]string{CleanNone, CleanLocal, CleanWeka, CleanAll}, req.StorageCleanup):
		return bad("turnover_invalid", "storage cleanup %q is none of none, local, weka and all", req.StorageCleanup)
	case req.Mode == StorageCleanup && req.StorageCleanup == CleanNone:
		return bad("turnover_invalid", "a storage cleanup cleans local, weka or all")
	case req.RemoveRecord && req.Mode != FullDecommission:
		return bad("turnover_invalid", "only a full_decommission has MAAS forget the machine")
	case req.Reason == "":
		return bad("reason_missing", "it needs a reason, which is recorded (--reason R)")
	}
	if !req.ForceRelease {
		req.Ends = nil
	}
	if !slices.Contains(from[req.Mode], n.Status) {
		return Turnover{}, nil, broker.Errorf(broker.Refused, "node_status", "cannot turn over node %s: it is %s, and %s is for one that is %s", n.ID, n.Status, req.Mode, listed(from[req.Mode]))
	}
	s := Turnover{
		NodeID: n.ID, Hostname: n.Hostname, Site: n.Site, SKU: n.SKU, Mode: req.Mode, Reason: req.Reason, StorageCleanup: req.StorageCleanup,
		Erase: req.Erase, ForceRelease: req.ForceRelease, Ends: req.Ends, From: req.From, RequestedBy: req.RequestedBy, Profile: at.Profile.ID, Follows: req.Follows, Silent: req.Follows != "", Retries: at.Policy.StageRetries, Backoff: at.Policy.RetryBackoffSeconds, Policy: at.Policy.Turnover(),
	}
	locks := []string{"node/" + n.ID}
	switch inMAAS := n.MAASSystemID != "" && at.Site.ID != ""; {
	case req.Mode != Reimage && req.Mode != FullDecommission, req.Mode == FullDecommission && !inMAAS:
		return s, locks, nil
	case !inMAAS:
		return bad("turnover_invalid", "MAAS has no machine of it, and a reimage is MAAS's to do (soft_reset cleans it where it stands)")
	}
	machine, more, err := onboarding.NewReclaim(at.Site, at.Profile, at.SKU, onboarding.ReclaimRequest{
		NodeID: n.ID, Hostname: n.Hostname, MAASSystemID: n.MAASSystemID, Epoch: n.Epoch, Keeps: broker.Retired, Adopted: at.Adopted,
		Erase: req.Erase, Redeploys: req.Mode == Reimage, RemoveRecord: req.RemoveRecord,
	})
	s.Machine = machine
	return s, append(locks, more...), err
}

// from are the statuses of a node that a mode may begin with.
var from = map[Mode][]broker.NodeStatus{
	SoftReset:        {broker.Active, broker.Offline, broker.Quarantined, broker.Draining, broker.Retired},
	Reimage:          {broker.Active, broker.Offline, broker.Quarantined, broker.Draining, broker.Retired},
	FullDecommission: {broker.Active, broker.Offline, broker.Quarantined, broker.Draining, broker.Retired},
	StorageCleanup:   {broker.Active, broker.Offline, broker.Quarantined, broker.Draining, broker.Retired},
}

func listed(statuses []broker.NodeStatus) (out string) {
	for i, s := range statuses {
		switch {
		case i > 0 && i == len(statuses)-1:
			out += " or "
		case i > 0:
			out += ", "
		}
		out += string(s)
	}
	return out
}

// done notes a task that has ended, in place of the stage's last one.
func (s *Turnover) done(d Done) {
	s.Tasks = slices.DeleteFunc(s.Tasks, func(o Done) bool { return o.Stage == d.Stage && o.For == d.For })
	s.Tasks = append(s.Tasks, d)
}

// of finds the last task of a stage; false: it has had none.
func (s *Turnover) of(stage string) (Done, bool) {
	at := slices.IndexFunc(s.Tasks, func(d Done) bool { return d.Stage == stage && d.For == "" })
	if at < 0 {
		return Done{}, false
	}
	return s.Tasks[at], true
}
