// Package records joins the lists of package turnover to the broker's own parts. Nodes implements
// turnover.Nodes over the store, the task queue and the trust authority; Starts begins the runs.
//
// Three loops run in the leading process. Leftovers removes secrets of deleted nodes. Silence
// reimages nodes with silent agents if a run's policy asks for it, with a limit on simultaneous
// reimages. Automatic turns over nodes that their tenants have left, or
// whose certificate has run out, if the site's policy asks for
// it, with a limit on the runs that have not ended.
//
// The work of this package is not part of the save of the requesting step. If that save is lost,
// the run asks again and finds the earlier work by its own id, by a task's idempotency key, or by
// the certificate's id.
package records
