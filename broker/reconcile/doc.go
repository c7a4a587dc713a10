// Package reconcile compares MAAS's machines with the broker's nodes, records the differences as
// drift, and acts on a drift as the site's policy wants. Watch is its main type.
//
// # Model
//
// A Rule is a row: the machine in MAAS, the status of the node, the severity, the action and the
// text of the alert. Rules is the whole table, and the first matching row counts: a node has one
// drift at a time. Judge is a pure function of one machine, one node and the site's Policy. Watch
// reads, judges, writes and acts; only the leading broker runs a Watch.
//
// Each rule has a Mode at each site. observe, the default, records and reports drift; act also
// performs the row's action; off skips the row. The action for a node whose machine became Ready
// without a run of the broker is quarantine: this package deploys, releases and powers no machine.
// A single rule (retired_deployed) leads to the release of a machine. It is off until somebody
// turns it on, and asks for a decommission run, which people can see, stop and cancel.
//
// # Two signals
//
// The agent's polls are the first signal (package presence moves nodes between active and offline
// by them), MAAS is the second. MAAS's report that a machine is off counts only while its agent is
// silent. MAAS's report that a machine is no longer ours counts in any case, and the record holds
// the agent's last contact.
//
// # Conditions for a change
//
//   - The region's list was read whole. An error, or an empty list where machines are expected,
//     changes nothing.
//   - Two consecutive observations of the node agreed, at least ConfirmSeconds apart. So a machine
//     in transition is skipped, and the second observation is newer than the node's last change.
//   - The machine was then read alone. Only this read proves that a machine is absent; its absence
//     from a list does not.
//   - At most a share of the site's nodes would change in one way within an hour. Nodes that have
//     changed already count, whatever has happened to them since. With more changes the cause is
//     more likely elsewhere: nothing of that kind is written or done, and one alert is raised until
//     the excess has ended.
//   - In the acting transaction the node is still as it was judged, no run has it, no turnover is
//     owed, and the site is not frozen. A run that is begun here takes the node only in the judged
//     state, and without a tenant.
//
// A node in the hands of a run, or with an owed turnover, is observed and never judged: the run
// knows the state of its machine.
//
// # What is written
//
// MAAS's description of a machine is written when it has changed, and a drift when it begins, when
// an action was taken, and when it ends. A round without changes writes one row, the site's. A
// drift ends by itself when two observations find it gone, and on an operator's resolution. A
// resolution is no promise: a drift that still exists is found again. For retired_deployed the
// resolution lasts: the node is left alone for as long as it stays retired.
//
// This package never ends a quarantine. The end of a drift means that MAAS and node agree again,
// and says nothing about the machine's treatment in between.
//
// # What lives in memory
//
// The first of two observations, and when each machine last reported its hardware. A new leader
// starts without both, which only costs time. MAAS's times are not compared with our clock, because
// up to 3.5 they have no zone: a machine is late when its last_sync has not moved for one and a
// half intervals of observation.
package reconcile
