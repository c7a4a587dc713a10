package reconcile

import (
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/taskcatalog"
)

// Machine is what was observed of a node's machine.
type Machine struct {
	At         time.Time // when it was asked for
	Absent     bool      // MAAS has no such machine
	Status     maas.Status
	StatusName string // cleaned
	Power      string // on, off, unknown, error
	IPs        []string
	Address    string // of them, where the node is reached; empty: it has none
	Mark       string // which node it is marked for; empty: none
	SyncLate   bool   // it has not reported its hardware for one and a half intervals
}

// Node is what the broker knows.
type Node struct {
	broker.Node
	InRun  bool   // a run has it
	Live   bool   // a tenant is on it
	Host   string // its address; empty: not known yet
	Marked bool   // its machine was seen with its mark
	Open   string // rule of its open drift
	Kept   string // rule of a drift that a person has resolved, and that has not gone since
}

// Held reports whether a node is observed and never acted on.
func (n Node) Held() bool { return n.InRun || n.TurnoverOwed }

func (n Node) silent(now time.Time) bool {
	return now.Sub(n.LastAgentContactAt) > presence.DefaultPolicy.Silence
}

// Finding is a rule that holds.
type Finding struct {
	Rule
	Mode Mode
	Kept bool // a person has said that it shall stay so: nothing is written or done
}

// Says is the alert, with what MAAS said.
func (f Finding) Says(m Machine) string {
	if m.Absent {
		return f.Text
	}
	return f.Text + " (MAAS: " + m.StatusName + ")"
}

// Judge says which rule holds for a node and its machine; false: none. An open
// drift that has led to quarantine stays one for as long as MAAS says the same.
func Judge(m Machine, n Node, p Policy) (Finding, bool) {
	if n.Held() {
		return Finding{}, false
	}
	for _, r := range Rules {
		mode := p.Mode(r.ID)
		if mode == Off || !r.meets(n) || !r.holds(m, n) {
			continue
		}
		return Finding{Rule: r, Mode: mode, Kept: r.Kept && n.Kept == r.ID}, true
	}
	return Finding{}, false
}

// meets reports whether a rule is about nodes like this one.
func (r Rule) meets(n Node) bool {
	if slices.Contains(r.Nodes, n.Status) {
		return true
	}
	open, has := RuleOf(n.Open)
	return has && n.Status == broker.Quarantined && r.Action == Quarantine && open.Action == Quarantine
}

// machineOf is what a machine's record says, for the node's site.
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
