package reconcile

import (
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/taskcatalog"
)

// Machine is the observation of a node's machine.
type Machine struct {
	At         time.Time // when MAAS was asked
	Absent     bool      // MAAS has no such machine
	Status     maas.Status
	StatusName string // cleaned
	Power      string // on, off, unknown, error
	IPs        []string
	Address    string // one of IPs, at which the node is reached; empty: there is none
	Mark       string // the node that the machine is marked for; empty: none
	SyncLate   bool   // no hardware report for one and a half intervals
}

// Node is the broker's knowledge of a node.
type Node struct {
	broker.Node
	InRun  bool   // a run has the node
	Live   bool   // a tenant is on the node
	Host   string // the node's address; empty: not known yet
	Marked bool   // the machine was seen with its mark
	Open   string // rule of the node's open drift
	Kept   string // rule of a drift that a person has resolved, and that has lasted since
}

// Held reports whether a node is observed and never acted on.
func (n Node) Held() bool { return n.InRun || n.TurnoverOwed }

func (n Node) silent(now time.Time) bool {
	return now.Sub(n.LastAgentContactAt) > presence.DefaultPolicy.Silence
}

// Finding is a rule that matches.
type Finding struct {
	Rule
	Mode Mode
	Kept bool // a person has decided to keep the drift: nothing is written or done
}

// AlertText returns the alert's text, with MAAS's status.
func (f Finding) AlertText(m Machine) string {
	if m.Absent {
		return f.Text
	}
	return f.Text + " (MAAS: " + m.StatusName + ")"
}

// Judge returns the rule that matches a node and its machine; false: none. An open drift that has
// led to quarantine stays open for as long as MAAS's report is the same.
func Judge(m Machine, n Node, p Policy) (Finding, bool) {
	if n.Held() {
		return Finding{}, false
	}
	for _, r := range Rules {
		mode := p.Mode(r.ID)
		if mode == Off || !r.appliesTo(n) || !r.holds(m, n) {
			continue
		}
		return Finding{Rule: r, Mode: mode, Kept: r.Kept && n.Kept == r.ID}, true
	}
	return Finding{}, false
}

// appliesTo reports whether a rule applies to nodes in this status.
func (r Rule) appliesTo(n Node) bool {
	if slices.Contains(r.Nodes, n.Status) {
		return true
	}
	open, has := RuleOf(n.Open)
	return has && n.Status == broker.Quarantined && r.Action == Quarantine && open.Action == Quarantine
}

// machineOf makes an observation of MAAS's record of a machine, for the node's site.
func machineOf(m maas.Machine, at time.Time, site broker.Site) Machine {
	out := Machine{
		At: at, Status: m.Status, StatusName: taskcatalog.Clean(m.StatusName, 64), Power: taskcatalog.Clean(m.PowerState, 16),
		IPs: m.Addresses(site.DeploySSHIface), Mark: m.MarkedFor(),
	}
	if len(out.IPs) > 0 {
		out.Address = out.IPs[0]
	}
	slices.Sort(out.IPs)
	return out
}
