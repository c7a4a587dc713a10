// Package presence moves nodes between active and offline by their agents' contacts, and does
// nothing else: silence changes no other status.
//
// # The rules of silence
//
//   - A node whose agent was heard within the threshold is active; otherwise it is offline.
//   - Silence counts only while this broker could have heard agents. The count starts again after a
//     start of the watch, after a failed read of the database, and after a full stop of polls. A
//     full stop takes at least two active nodes: with a single node, a fault of the node and a
//     fault of the network look the same.
//   - When more than a share of a site's nodes would fall silent, and at least a few nodes, the
//     cause is more likely between the site and the broker: no status changes at the site.
//   - The silence of a whole site, of so many nodes at once, or of all nodes is reported once, and
//     once more when it has ended, whether statuses change or not. The record outlives the leader.
//   - While a turnover is owed, no transition leads to active.
//
// A reachable node is heard at least once in the time for which a poll is held. Nodes that are
// overdue by then count towards the share before they pass the threshold: a site that goes dark is
// seen as one event, not as a few nodes every ten seconds.
//
// Judge is a pure function of the observations; Watch, the main type, reads, judges and writes.
// Only the leading broker runs a Watch.
package presence
