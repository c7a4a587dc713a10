// Package records joins the lists of package turnover to the broker's own parts. Nodes is
// turnover.Nodes over the store, the task queue and the trust authority; Starts begins
// the runs.
//
// Two things are done here from time to time, by the one that leads: what was left of
// nodes that are gone is removed (Leftovers), and nodes whose agents are silent are
// reimaged where a run's policy says so, and not too many at once (Silence).
//
// What is done here is not part of the save of the step that asks for it: a run asks
// again when that save is lost, and finds what is there, by its own id, by a task's
// idempotency key, or by the certificate's id.
package records
