package reconcile

import (
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
)

// Severity is how bad a drift is.
type Severity string

// The severities, worst first.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
)

// Level is the severity of the alert that a drift raises.
type Level string

// The levels.
const (
	AlertCritical Level = "critical"
	AlertWarn     Level = "warn"
	AlertInfo     Level = "info"
	AlertDebug    Level = "debug" // counted, and reported to nobody
)

// Action is the response to a drift in mode act.
type Action string

// The actions.
const (
	AlertOnly    Action = "tell"         // nothing but the alert
	Quarantine   Action = "quarantine"   // the node is quarantined; its allocations stay as they are
	Readdress    Action = "readdress"    // the node gets the address that MAAS reports
	Reseed       Action = "reseed"       // the node's agent runs node.hw_sync_reseed
	Decommission Action = "decommission" // a run gives the machine back
)

// Mode is a site's setting for a rule.
type Mode string

// The modes.
const (
	Observe Mode = "observe"
	Act     Mode = "act"
	Off     Mode = "off"
)

// Modes lists all modes.
var Modes = []Mode{Observe, Act, Off}

// Rule is a row of the table.
type Rule struct {
	ID       string
	MAAS     string              // the machine, in words
	Nodes    []broker.NodeStatus // statuses of the node; empty: there is no node
	Severity Severity
	Action   Action
	Alert    Level
	Text     string // of the alert
	Expected string // the expected state in MAAS
	Default  Mode
	Kept     bool // a person's resolution lasts as long as the drift

	holds func(Machine, Node) bool
}

var (
	inUse = []broker.NodeStatus{broker.Active, broker.Offline}
	idle  = []broker.NodeStatus{broker.Draining, broker.Retired}
)

// MAAS's statuses, grouped by their meaning for a node that should be Deployed. Each status is in
// one of these lists.
var (
	released    = []maas.Status{maas.New, maas.Ready, maas.Reserved, maas.Retired, maas.Releasing, maas.DiskErasing}
	reallocated = []maas.Status{maas.Allocated, maas.Deploying}
	failed      = []maas.Status{
		maas.Broken, maas.Missing, maas.FailedCommissioning, maas.FailedDeployment, maas.ReleasingFailed,
		maas.FailedDiskErasing, maas.FailedEnteringRescueMode, maas.FailedExitingRescueMode, maas.FailedTesting,
	}
	commission = []maas.Status{maas.Commissioning}
	maintained = []maas.Status{maas.Testing, maas.RescueMode, maas.EnteringRescueMode, maas.ExitingRescueMode}
	deployed   = []maas.Status{maas.Deployed}
)

func hasStatus(statuses ...[]maas.Status) func(Machine, Node) bool {
	of := slices.Concat(statuses...)
	return func(m Machine, _ Node) bool { return !m.Absent && slices.Contains(of, m.Status) }
}

// and matches a machine that is Deployed and also satisfies more.
func and(more func(Machine, Node) bool) func(Machine, Node) bool {
	at := hasStatus(deployed)
	return func(m Machine, n Node) bool { return at(m, n) && more(m, n) }
}

// Rules is the table. The first matching row counts.
var Rules = []Rule{
	{
		ID: "absent", MAAS: "absent", Nodes: inUse, Severity: Critical, Action: Quarantine, Alert: AlertCritical, Default: Observe,
		Text: "the machine was deleted from MAAS", Expected: "Deployed",
		holds: func(m Machine, _ Node) bool { return m.Absent },
	},
	{
		ID: "released", MAAS: "Ready, or on the way there", Nodes: inUse, Severity: Critical, Action: Quarantine, Alert: AlertCritical,
		Default: Observe,
		Text:    "the machine was released, and not by a run of the broker", Expected: "Deployed",
		holds: hasStatus(released),
	},
	{
		ID: "redeployed", MAAS: "Allocated or Deploying", Nodes: inUse, Severity: Critical, Action: Quarantine, Alert: AlertCritical,
		Default: Observe,
		Text:    "the machine is being deployed again, and not by a run of the broker", Expected: "Deployed",
		holds: hasStatus(reallocated),
	},
	{
		ID: "hardware_failed", MAAS: "Broken, Missing, or anything that failed", Nodes: inUse, Severity: High, Action: Quarantine,
		Alert: AlertCritical, Default: Observe,
		Text: "MAAS has found the machine's hardware failed", Expected: "Deployed",
		holds: hasStatus(failed),
	},
	{
		ID: "recommissioned", MAAS: "Commissioning", Nodes: inUse, Severity: Medium, Action: AlertOnly, Alert: AlertWarn, Default: Observe,
		Text: "the machine is being commissioned", Expected: "Deployed",
		holds: hasStatus(commission),
	},
	{
		ID: "in_maintenance", MAAS: "Testing or rescue mode", Nodes: inUse, Severity: Medium, Action: AlertOnly, Alert: AlertWarn,
		Default: Observe,
		Text:    "the machine is being tested or is in rescue mode", Expected: "Deployed",
		holds: hasStatus(maintained),
	},
	{
		ID: "mark_changed", MAAS: "Deployed, with another node's mark or without the one that it had", Nodes: inUse, Severity: Critical,
		Action: Quarantine, Alert: AlertCritical, Default: Observe,
		Text:     "the machine no longer has this node's mark: it was deployed again, or the mark was changed in MAAS",
		Expected: "Deployed, with the node's mark",
		holds:    and(func(m Machine, n Node) bool { return m.Mark != n.ID && (m.Mark != "" || n.Marked) }),
	},
	{
		ID: "powered_off", MAAS: "Deployed, power off", Nodes: inUse, Severity: High, Action: AlertOnly, Alert: AlertWarn, Default: Observe,
		Text: "the machine is switched off, and its agent makes no contact", Expected: "Deployed, power on",
		holds: and(func(m Machine, n Node) bool { return m.Power == "off" && n.silent(m.At) }),
	},
	{
		ID: "agent_silent", MAAS: "Deployed", Nodes: inUse, Severity: Medium, Action: AlertOnly, Alert: AlertWarn, Default: Observe,
		Text: "the machine runs according to MAAS, and its agent makes no contact", Expected: "Deployed",
		holds: and(func(m Machine, n Node) bool { // an active node too: in a mass silence none is marked offline
			return n.Status == broker.Offline || n.silent(m.At)
		}),
	},
	{
		ID: "readdressed", MAAS: "Deployed, with other addresses", Nodes: []broker.NodeStatus{broker.Active}, Severity: Medium,
		Action: Readdress, Alert: AlertInfo, Default: Observe,
		Text: "the machine's address has changed", Expected: "Deployed, with the node's address",
		holds: and(func(m Machine, n Node) bool {
			return m.Address != "" && n.Host != "" && !slices.Contains(m.IPs, n.Host)
		}),
	},
	{
		ID: "hw_sync_stale", MAAS: "Deployed, and does not report its hardware", Nodes: []broker.NodeStatus{broker.Active},
		Severity: Medium, Action: Reseed, Alert: AlertWarn, Default: Observe,
		Text:     "the machine has not reported its hardware for more than one and a half intervals",
		Expected: "Deployed, with a fresh last_sync",
		holds:    and(func(m Machine, _ Node) bool { return m.SyncLate }),
	},
	{
		ID: "retired_deployed", MAAS: "Deployed", Nodes: []broker.NodeStatus{broker.Retired}, Severity: Low, Action: Decommission,
		Alert: AlertInfo, Default: Off, Kept: true,
		Text: "the node is retired and its machine still deployed", Expected: "Ready",
		holds: hasStatus(deployed),
	},
	{
		ID: "retired_taken", MAAS: "absent, Ready, Allocated or Deploying", Nodes: idle, Severity: High, Action: AlertOnly,
		Alert: AlertWarn, Default: Observe,
		Text:     "the machine of a node that is out of use was released, deployed again or deleted, and not by a run of the broker",
		Expected: "Deployed",
		holds:    func(m Machine, n Node) bool { return m.Absent || hasStatus(released, reallocated)(m, n) },
	},
	{
		ID: Unmanaged, MAAS: "any", Action: AlertOnly, Alert: AlertDebug, Default: Observe,
		Text:  "the machine belongs to no node",
		holds: func(Machine, Node) bool { return false },
	},
}

// Unmanaged is the rule of machines that belong to no node: they are counted, and nothing is ever
// done about them.
const Unmanaged = "unmanaged"

// RuleOf finds a row.
func RuleOf(id string) (Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return Rules[i], true
}
