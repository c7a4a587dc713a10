// Package resolver delivers resolver profile sets to their assigned nodes. Its main type is Watch.
// Package resolver does not check sets; the node does.
//
// # Model
//
// An operator's want assigns a set to nodes. The store keeps, for each node, the assigned set and
// the confirmed set. A Watch, in the leading process, compares them every few seconds and enqueues
// node.resolver_config tasks. A Watch remembers nothing between two looks: the progress of a want
// follows from the nodes and from the want's tasks.
//
// # Rules
//
//   - A node that is enrolling gets its set at once. It becomes active only with the set, and is
//     quarantined after three tries without success.
//   - The answer to an enrolment carries the node's task (AtEnrolment). The carried task is queued
//     as well: an answer may be lost, and only a result counts.
//   - A node that was in service and enrols again gets, with the answer, a set that it accepted
//     before by the same want. Any other set comes in the node's wave.
//   - All other nodes get the set in waves: one node first, then a tenth of the assigned nodes, at
//     most MaxWave. No wave begins before the previous wave has ended.
//   - A failed task stops the want for every node that is not enrolling. The want continues when an
//     operator wants the set again.
//   - Silent nodes wait, and so do nodes at a frozen site, unless they are enrolling. They block no
//     other node.
package resolver
