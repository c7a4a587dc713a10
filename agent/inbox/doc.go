// Package inbox decides whether a delivered envelope becomes a task. Its main type is Inbox, with
// the methods Admit and Startable.
//
// The checks have a fixed order: parse, signature, node and epoch, validity, replay, catalog,
// schema, allow and capability, tenant. The first failed check ends the admission with its own
// code, so that a code tells how far an attacker came. The params are not read before the signature
// is verified. Package inbox writes nothing: the ledger records an admitted task.
package inbox
