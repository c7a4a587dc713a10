// Package broker holds the vocabulary of the broker's domain: nodes and their status, sites,
// tasks, operators and their roles, the audit log, and errors with a code. The central types are
// Node, Task, Site and Error. The package imports none of its children; the children import this
// package. It stores nothing and calls nothing outside the process: the children do.
//
// # Three state machines
//
// A node's status, a run's status and MAAS's machine status are three types. Node status changes
// only through Transition, which holds the whole table and the owner of each line
// (docs/reference/states.md has the drawing).
package broker
