// Package inbox decides whether a delivered envelope becomes a task.
//
// The checks stand in a fixed order: parse, signature, node and epoch, validity,
// replay, catalog, schema, allow and capability, tenant. The first that does not
// hold ends it with its own code, so that a code says how far an attacker came.
// Nothing of the params is looked at before the signature holds, and nothing is
// written: what is admitted is for the ledger to accept.
package inbox
