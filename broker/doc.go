// Package broker holds the words of the broker's domain: nodes and their
// status, tasks, operators and their roles, the audit log, and the errors that
// carry a code. It imports none of its children; they all import it.
//
// # Three state machines
//
// A node's status, a run's status and MAAS's machine status are three types.
// Node status changes only through Transition, which knows the whole table
// and who owns each line of it.
package broker
