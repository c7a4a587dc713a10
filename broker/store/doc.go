// Package store is SQL and nothing but SQL: what the broker knows, on SQLite or
// PostgreSQL, from one schema and one text.
//
// # Model
//
// A noun has a file: nodes, tokens, enrollments, certificates, denials,
// contacts, tasks (with claims, results and sweeps), audit and seals, operators,
// trust, baselines, packages, mints, terminals, recordings, policy, chains (runs, their claims and saves,
// batches and holds, as chain.Store says), restores (what a database that came out of a backup lets in). An exported method owns its
// transaction and writes its audit row inside it; an unexported one takes the
// transaction it is in. What is refused inside a transaction undoes it, and
// leaves an audit row behind where the refusal is worth one.
//
// # Two engines
//
// The statements are the same, with $1 placeholders; dialect.go is all that
// differs in them. Times are microseconds in UTC, so that both compare them
// alike; JSON is text; nothing is NULL.
//
// On SQLite one goroutine writes (writer.go). Commits are in groups: closures
// that arrive while the disk is busy share the next transaction, each in a
// savepoint, and nobody is answered before that transaction is durable. Reads
// go to a pool beside it. On PostgreSQL every write is a transaction of its own,
// retried where the server asks for it, so closures may run more than once.
// Rows are locked in one order, the node's before its tasks'.
//
// # Several brokers
//
// On PostgreSQL any number of brokers are one: claims lock the node's row,
// sweeps skip what another sweeps, leases run by the server's clock. Hints wake
// whoever waits, on every replica; they may be lost, and what counts is in the
// tables. Lead gives periodic work to one of them, over the connection that
// holds the lock, so that work without the lock cannot be written.
//
// # What a crash leaves
//
// What was acknowledged is there; what was not is there whole or not at all. A
// package is there once its last row is. The schema moves a step at a time,
// each in a transaction; a newer one is refused and left alone.
package store
