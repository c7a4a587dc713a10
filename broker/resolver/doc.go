// Package resolver brings resolver profiles to the nodes that shall have them.
//
// # Model
//
// An operator's want says which nodes shall have which set; the store keeps with
// each node what it shall have and what it confirmed. A Watch, in the process
// that leads, looks at the difference every few seconds and enqueues
// node.resolver_config tasks. Nothing is remembered between two looks: how far a
// want has come is read from the nodes and from the tasks made for it.
//
// # Rules
//
//   - A node that is enrolling gets its set at once: it becomes active only with
//     it, and is quarantined where three tries ended without.
//   - The answer to an enrolment carries that task (AtEnrolment). What it carries
//     is queued as well: an answer may be lost, and only a result counts.
//   - A node that was in service and enrols anew gets with the answer what it took
//     before by the same want; anything else comes in its wave.
//   - All others get it in waves: one node first, then a tenth of those meant, at
//     most MaxWave, and no next wave before the last has ended.
//   - A task that failed stops the want for every node that is not enrolling. It
//     goes on when somebody wants it again.
//   - Nodes that are silent wait, and so do those at a frozen site, unless they are
//     enrolling. They hold up nobody.
package resolver
