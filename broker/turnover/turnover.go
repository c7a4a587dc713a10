package turnover

import (
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/taskcatalog"
)

// Mode is the mode of a turnover.
type Mode string

// The modes.
const (
	SoftReset        Mode = "soft_reset"
	Reimage          Mode = "reimage"
	FullDecommission Mode = "full_decommission"
	StorageCleanup   Mode = "storage_cleanup"
)

// Modes lists all modes.
var Modes = []Mode{SoftReset, Reimage, FullDecommission, StorageCleanup}

// KindPrefix is the prefix of the kinds of all turnovers, and of their events.
const KindPrefix = broker.TurnoverKinds

// Kind is the kind of a mode's runs.
func (m Mode) Kind() string { return KindPrefix + "/" + string(m) }

// The scopes of a storage cleanup.
const (
	CleanNone  = "none"
	CleanLocal = "local"
	CleanWeka  = "weka"
	CleanAll   = "all"
)

// EraseNone leaves disks unerased; only files are deleted.
const EraseNone = "none"

// Turnover is the state of a run.
type Turnover struct {
	// The request. Policy is a copy: later changes of the policy apply to later runs.
	NodeID         string                `json:"node_id"`
	Hostname       string                `json:"hostname"`
	Site           string                `json:"site,omitempty"` // a name; empty: none
	SKU            string                `json:"sku,omitempty"`
	Mode           Mode                  `json:"mode"`
	Reason         string                `json:"reason"`
	StorageCleanup string                `json:"storage_cleanup"` // none, local, weka, all
	Erase          string                `json:"erase"`           // none, quick, secure
	Image          string                `json:"image,omitempty"` // asked for; empty: the policy's
	ForceRelease   bool                  `json:"force_release,omitempty"`
	Ends           []string              `json:"ends,omitempty"` // as of the request
	From           broker.NodeStatus     `json:"from,omitempty"` // required status of the node when taken; empty: any
	RequestedBy    string                `json:"requested_by"`
	ModeBecause    string                `json:"mode_because,omitempty"` // why the policy asks for a reimage
	Profile        string                `json:"profile,omitempty"`      // id, of a node of a site
	Follows        string                `json:"follows,omitempty"`      // the run that this run replaces
	Retries        map[string]int        `json:"stage_retries,omitempty"`
	Backoff        int                   `json:"retry_backoff_seconds"`
	Policy         broker.TurnoverPolicy `json:"policy"`

	// Machine is the state of the work in MAAS; empty for a node without a machine in MAAS.
	Machine onboarding.Onboarding `json:"machine,omitzero"`

	// Findings and progress.
	Was           broker.NodeStatus `json:"was,omitempty"`           // the node's status when the run took it
	TakenAt       time.Time         `json:"taken_at,omitzero"`       // when the run took the node
	WipedAt       time.Time         `json:"wiped_at,omitzero"`       // when MAAS had the machine back
	Silent        bool              `json:"silent,omitempty"`        // the former agent did not answer; no further task
	SecretsLeft   bool              `json:"secrets_left,omitempty"`  // secrets of a deleted node, for a person to remove
	HeardAt       time.Time         `json:"heard_at,omitzero"`       // last contact of the former system that was reported
	ConflictAt    time.Time         `json:"conflict_at,omitzero"`    // conflict of the node's identity that stopped the run
	ConflictTaken time.Time         `json:"conflict_taken,omitzero"` // until when a person has accepted conflicts
	Tasks         []Done            `json:"tasks,omitempty"`         // the last of each stage, in order
	Warnings      []string          `json:"warnings,omitempty"`      // for people
	Findings      int               `json:"findings,omitempty"`      // of the last validation
	MeetsPolicy   bool              `json:"meets_policy,omitempty"`  // of the certificate
	Shortfalls    []string          `json:"shortfalls,omitempty"`    // codes, if insufficient
	Issued        string            `json:"certificate_id,omitempty"`
}

// Done is a task of the run that has ended.
type Done struct {
	Stage string `json:"stage"`
	ID    string `json:"task_id"`
	Type  string `json:"type"`
	// For distinguishes several tasks of a stage, by user for example.
	For string `json:"for,omitempty"`
}

// Request is an operator's request for a turnover.
type Request struct {
	Mode           Mode
	StorageCleanup string // empty: local
	Erase          string // of the disks other than the system's; empty: none
	Image          string // that a reimage installs; empty: the policy's
	ForceRelease   bool
	Ends           []string // with ForceRelease, the allocations to end; no other is ended
	RemoveRecord   bool     // full_decommission: MAAS shall forget the machine at the end
	Reason         string
	RequestedBy    string
	ModeBecause    string            // why the policy asks for a reimage; empty: a person or an image asked for it, or it is none
	Follows        string            // the soft reset ended by its node's silence; empty: none
	From           broker.NodeStatus // status that the node must still have when it is taken; empty: any
}

// Place is the node's site with the settings for a turnover.
type Place struct {
	Policy broker.Policy
	// Site, Profile and SKU are set for a machine of MAAS.
	Site    broker.Site
	Profile broker.Profile
	SKU     broker.SKU
	// Adopted says that a run of adoption made the node: its machine may have no mark.
	Adopted bool
}

// New is the first state of a run, with its required locks. Codes: turnover_invalid, node_status,
// reason_missing, and the codes of onboarding.NewReclaim.
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
		return bad("turnover_invalid", "erase %q is not one of none, quick, secure", req.Erase)
	case !slices.Contains(Modes, req.Mode):
		return bad("turnover_invalid", "%q is not a mode (soft_reset, reimage, full_decommission, storage_cleanup)", string(req.Mode))
	case !slices.Contains([]string{CleanNone, CleanLocal, CleanWeka, CleanAll}, req.StorageCleanup):
		return bad("turnover_invalid", "storage cleanup %q is not one of none, local, weka, all", req.StorageCleanup)
	case req.Mode == StorageCleanup && req.StorageCleanup == CleanNone:
		return bad("turnover_invalid", "a storage cleanup cleans local, weka or all")
	case req.RemoveRecord && req.Mode != FullDecommission:
		return bad("turnover_invalid", "only a full_decommission deletes the machine from MAAS")
	case req.Image != "" && req.Mode != Reimage:
		return bad("turnover_invalid", "only a reimage installs an image")
	case req.Image != "" && !broker.ValidImage(req.Image):
		return bad("turnover_invalid", "image %q is not of a form such as ubuntu/noble or custom/IMAGE", taskcatalog.Clean(req.Image, 128))
	case req.Reason == "":
		return bad("reason_missing", "the turnover needs a reason, which is recorded (--reason R)")
	}
	if !req.ForceRelease {
		req.Ends = nil
	}
	if !slices.Contains(startStatuses[req.Mode], n.Status) {
		return Turnover{}, nil, broker.Errorf(broker.Refused, "node_status",
			"cannot turn over node %s: the node is %s, and %s needs a node that is %s", n.ID, n.Status, req.Mode,
			listed(startStatuses[req.Mode]))
	}
	s := Turnover{
		NodeID: n.ID, Hostname: n.Hostname, Site: n.Site, SKU: n.SKU, Mode: req.Mode, Reason: req.Reason,
		StorageCleanup: req.StorageCleanup,
		Erase:          req.Erase, Image: req.Image, ForceRelease: req.ForceRelease, Ends: req.Ends, From: req.From,
		RequestedBy: req.RequestedBy, ModeBecause: req.ModeBecause,
		Profile: at.Profile.ID, Follows: req.Follows, Silent: req.Follows != "", Retries: at.Policy.StageRetries,
		Backoff: at.Policy.RetryBackoffSeconds, Policy: at.Policy.Turnover(),
	}
	locks := []string{"node/" + n.ID}
	switch inMAAS := n.MAASSystemID != "" && at.Site.ID != ""; {
	case req.Mode != Reimage && req.Mode != FullDecommission, req.Mode == FullDecommission && !inMAAS:
		return s, locks, nil
	case !inMAAS:
		return bad("turnover_invalid",
			"the node is bound to no machine in MAAS, and only MAAS can reimage (soft_reset cleans the node without MAAS)")
	}
	machine, more, err := onboarding.NewReclaim(at.Site, at.Profile, at.SKU, onboarding.ReclaimRequest{
		NodeID: n.ID, Hostname: n.Hostname, MAASSystemID: n.MAASSystemID, Epoch: n.Epoch, Keeps: broker.Retired, Adopted: at.Adopted,
		Erase: req.Erase, Redeploys: req.Mode == Reimage, RemoveRecord: req.RemoveRecord,
	})
	if req.Image != "" {
		machine.Policy.DistroSeries = req.Image
	}
	s.Machine = machine
	return s, append(locks, more...), err
}

// startStatuses are the node statuses that a mode may begin with.
var startStatuses = map[Mode][]broker.NodeStatus{
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

// done notes a task that has ended, in place of the stage's previous task.
func (s *Turnover) done(d Done) {
	s.Tasks = slices.DeleteFunc(s.Tasks, func(o Done) bool { return o.Stage == d.Stage && o.For == d.For })
	s.Tasks = append(s.Tasks, d)
}

// lastTask finds the last task of a stage; false: none.
func (s *Turnover) lastTask(stage string) (Done, bool) {
	at := slices.IndexFunc(s.Tasks, func(d Done) bool { return d.Stage == stage && d.For == "" })
	if at < 0 {
		return Done{}, false
	}
	return s.Tasks[at], true
}
