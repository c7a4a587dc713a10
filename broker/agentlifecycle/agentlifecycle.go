package agentlifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// KindPrefix is the prefix of the kinds of this package's runs, and of their events.
const KindPrefix = broker.AgentKinds

// List names the stages that a run goes through.
type List string

// The lists.
const (
	Update      List = "update"
	Certificate List = "certificate"
	Config      List = "config"
	Install     List = "install"
	Reimage     List = "reimage"
)

// Lists lists all lists.
var Lists = []List{Update, Certificate, Config, Install, Reimage}

// Kind is the kind of a list's runs.
func (l List) Kind() string { return KindPrefix + "/" + string(l) }

// Target is the release that a node shall have.
type Target struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	SHA256  string `json:"sha256,omitempty"` // hex, of the program
	Digest  string `json:"digest,omitempty"` // of the release
}

// Package is the published package that a person installs.
type Package struct {
	URL      string `json:"url"`
	SHA256   string `json:"sha256"`
	Filename string `json:"filename"`
}

// Work is the state of a run: work on the agent of one node.
type Work struct {
	NodeID        string                  `json:"node_id"`
	Hostname      string                  `json:"hostname"`
	Site          string                  `json:"site,omitempty"`
	List          List                    `json:"list"`
	Mode          broker.DeliveryMode     `json:"mode"`
	Scenario      broker.DeliveryScenario `json:"scenario"`
	Safety        broker.SafetyPolicy     `json:"safety_policy"`
	Target        *Target                 `json:"target,omitempty"` // nil: the program stays unchanged
	AllowRollback bool                    `json:"allow_rollback,omitempty"`
	Force         bool                    `json:"force,omitempty"` // also a version that failed on the node before
	Ends          []string                `json:"ends,omitempty"`  // of a forced reimage: allocations live at the request
	Reason        string                  `json:"reason,omitempty"`
	RequestedBy   string                  `json:"requested_by"`
	Package       *Package                `json:"package,omitempty"`
	Because       string                  `json:"because,omitempty"` // why a person is needed

	// Findings and progress.
	Was         broker.NodeStatus `json:"was,omitempty"`
	From        string            `json:"from_version,omitempty"`
	Unfit       []string          `json:"unfit,omitempty"` // why the node could not be handed out before; codes
	Epoch       int64             `json:"epoch,omitempty"`
	BegunAt     time.Time         `json:"begun_at,omitzero"`
	DeliveredAt time.Time         `json:"delivered_at,omitzero"` // when the new agent was in place, as far as known
	ReportAsked bool              `json:"report_asked,omitempty"`
	Tasks       []string          `json:"tasks,omitempty"`
	Turnover    string            `json:"turnover,omitempty"` // of a reimage: the run of the turnover
}

// Request is an operator's request.
type Request struct {
	Mode          broker.DeliveryMode
	Scenario      broker.DeliveryScenario
	Safety        broker.SafetyPolicy
	AllowRollback bool
	Force         bool
	Reason        string
	RequestedBy   string
}

// Place holds the facts about a node at the request of a run.
type Place struct {
	Node     broker.Node
	Standing broker.Standing
	Live     []broker.Occupant
	// Release is the requested release, or the wanted release of the node; nil: none. Floor is
	// the lowest version that may be installed on the node.
	Release *Target
	Floor   string
	Package *Package
	Now     time.Time
}

// New is the first state of a run, with its required locks. Codes: agent_lifecycle_invalid,
// node_status, agent_in_sync, release_missing, release_below_floor, reason_missing,
// allocation_live.
func New(at Place, req Request) (Work, []string, error) {
	n := at.Node
	none := func(kind broker.Kind, code, format string, args ...any) (Work, []string, error) {
		return Work{}, nil, broker.Errorf(kind, code, "cannot work on the agent of node "+n.ID+": "+format, args...)
	}
	switch {
	case !slices.Contains(broker.DeliveryModes, req.Mode):
		return none(broker.Invalid, "agent_lifecycle_invalid", "%q is not a mode (reimage, manual_install, rebootstrap)",
			taskcatalog.Clean(string(req.Mode), 40))
	case !slices.Contains(broker.DeliveryScenarios, req.Scenario):
		return none(broker.Invalid, "agent_lifecycle_invalid", "%q is not a scenario (%s)", taskcatalog.Clean(string(req.Scenario), 40),
			scenarios())
	case !slices.Contains(broker.SafetyPolicies, req.Safety):
		return none(broker.Invalid, "agent_lifecycle_invalid", "%q is not a safety policy (idle, after_drain, forced)",
			taskcatalog.Clean(string(req.Safety), 40))
	case req.Reason == "" && (req.Safety == broker.Forced || req.AllowRollback || req.Force || req.Mode == broker.ByReimage):
		return none(broker.Invalid, "reason_missing", "the request needs a reason, which is recorded (--reason R)")
	case n.Status == broker.Removing || n.Status == broker.Deleted:
		return none(broker.Refused, "node_status", "the node is %s", n.Status)
	}
	s := Work{
		NodeID: n.ID, Hostname: n.Hostname, Site: n.Site, Mode: req.Mode, Scenario: req.Scenario, Safety: req.Safety,
		AllowRollback: req.AllowRollback, Force: req.Force,
		Reason: req.Reason, RequestedBy: req.RequestedBy, From: n.AgentVersion, Epoch: n.Epoch,
	}
	if s.Scenario == broker.DriftReconcile && s.Mode == broker.ByRebootstrap && !at.Standing.Drift.Drifted() {
		return none(broker.Refused, "agent_in_sync",
			"the agent is in sync (to install the same release again: --scenario repair_reinstall)")
	}
	s.List, s.Because = listOf(at, s.Mode, s.Scenario)
	if s.needsRelease(at.Standing.Drift) {
		switch t := at.Release; {
		case t == nil:
			return none(broker.Refused, "release_missing", "no suitable release of the agent is published (hostler agent-release publish)")
		case at.Floor != "" && release.ValidVersion(t.Version) && release.Compare(t.Version, at.Floor) < 0 && !s.AllowRollback:
			return none(broker.Refused, string(release.CodeBelowFloor),
				"release %s is below the floor %s (to roll back nevertheless: --allow-rollback with a reason, as platform_admin)",
				t.Version, at.Floor)
		default:
			s.Target = t
		}
		if s.List == Install {
			s.Package = at.Package
		}
	}
	if s.Safety == broker.OnlyIdle {
		if err := busy(n, at.Live); err != nil {
			return Work{}, nil, err
		}
	}
	if s.Safety == broker.Forced && s.List == Reimage {
		for _, a := range at.Live {
			s.Ends = append(s.Ends, a.ID)
		}
	}
	locks := []string{"agent/" + n.ID}
	if s.List != Reimage { // its turnover takes the node
		locks = append(locks, "node/"+n.ID)
	}
	return s, locks, nil
}

func scenarios() string {
	names := make([]string, len(broker.DeliveryScenarios))
	for i, s := range broker.DeliveryScenarios {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// busy refuses a node with live allocations, and names them. Code: allocation_live.
func busy(n broker.Node, live []broker.Occupant) error {
	if len(live) == 0 {
		return nil
	}
	return broker.Errorf(broker.Refused, "allocation_live",
		"cannot work on the agent of node %s: allocation %s is on the node (wait until the allocation has ended: --safety after_drain; or --safety forced with a reason, as platform_admin)", n.ID, named(live))
}

func named(live []broker.Occupant) string {
	names := make([]string, len(live))
	for i, a := range live {
		names[i] = a.Describe()
	}
	return strings.Join(names, ", ")
}

// silentAfter is how long an agent may be unheard and still counts as answering: a poll is held
// for less than a minute.
const silentAfter = 3 * time.Minute

// listOf is the list for a mode and a scenario, in the node's present state. because says why a
// person is needed for a mode that needs none.
func listOf(at Place, mode broker.DeliveryMode, scenario broker.DeliveryScenario) (list List, because string) {
	n := at.Node
	switch mode {
	case broker.ByReimage:
		return Reimage, ""
	case broker.ByManualInstall:
		return Install, ""
	}
	switch scenario {
	case broker.BootstrapInstall:
		return Install, "a machine without an agent takes no tasks"
	case broker.CertificateRepair:
		list = Certificate
	case broker.ConfigRepair:
		list = Config
	case broker.DriftReconcile:
		list = map[broker.AgentDrift]List{broker.AgentCertificate: Certificate, broker.AgentConfigDrift: Config}[at.Standing.Drift]
	}
	if list == "" {
		list = Update
	}
	switch needs := requiredTasks[list]; {
	case n.Epoch == 0:
		because = "its agent has not enrolled"
	case !at.Now.Before(n.CertNotAfter):
		because = "the certificate of its agent has expired"
	case at.Now.Sub(n.LastAgentContactAt) > silentAfter:
		because = "its agent does not answer"
	case needs != "" && !slices.Contains(n.TaskTypes, needs):
		because = "its agent does not support " + needs
	default:
		return list, ""
	}
	return Install, because
}

// requiredTasks are the task types that a list requires.
var requiredTasks = map[List]string{Update: "node.self_update@1", Certificate: "node.rotate_identity@1"}

// needsRelease reports whether the run ends with a certain program on the node.
func (s *Work) needsRelease(drift broker.AgentDrift) bool {
	switch {
	case s.List == Update:
		return true
	case s.List != Install && s.List != Reimage:
		return false
	case s.Scenario == broker.DriftReconcile:
		return drift == broker.AgentVersionDrift || drift == broker.AgentUnknown
	}
	return s.Scenario == broker.InPlaceUpgrade || s.Scenario == broker.RepairReinstall
}
