// Package availability keeps each node's availability on record: one word for lists, metrics and
// events (see broker.Availability).
//
// broker.Handout is the only judge, and the record is its last answer. Whoever hands out a node asks
// Handout, never the record. The record follows the facts in two ways:
//
//   - A hint names the nodes about which the store has written a fact: status, run, allocation,
//     certificate, device, freeze, policy. These nodes are judged at once.
//   - A sweep judges all nodes twice a minute. It finds what time alone has changed, such as a
//     node that falls silent, and what a lost hint concerns. A sweep takes a fixed number of queries,
//     and writes only nodes whose word or codes have changed. After a change of a policy it reads the
//     certificates of the free nodes, one after another, and records what each lacks by the policy.
//
// Record and event node.availability.changed are written in one transaction, which judges the node
// once more. Watch is the main type. Only the leading broker runs a Watch.
package availability
