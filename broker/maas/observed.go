package maas

import "github.com/hostler/hostler/taskcatalog"

// The mark of a machine, in its workload annotations. Only the owner may write them, and MAAS
// removes them when it takes the machine back.
const (
	MarkNode = "hostler-node"
	MarkRun  = "hostler-run"
)

// Addresses returns the machine's own addresses as MAAS reports them, those of the named interface
// first.
func (m Machine) Addresses(iface string) []string {
	var first []string
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			if i.Name == iface && l.IPAddress != "" {
				first = append(first, l.IPAddress)
			}
		}
	}
	out := []string{}
	for _, a := range Unicast(append(first, m.IPAddresses...)) {
		out = append(out, a.String())
	}
	return out
}

// MarkedFor returns the node that the machine is marked for; empty: none.
func (m Machine) MarkedFor() string { return taskcatalog.Clean(m.Annotations[MarkNode], 64) }

// MarkedBy returns the run that marked the machine; empty: none.
func (m Machine) MarkedBy() string { return taskcatalog.Clean(m.Annotations[MarkRun], 64) }

// Interval returns how often the machine must report its hardware, in seconds; zero: never.
func (m Machine) Interval() (seconds int) {
	if m.EnableHWSync {
		return m.SyncInterval
	}
	return 0
}
