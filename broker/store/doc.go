// Package store keeps the broker's state in SQLite or PostgreSQL. Both engines share one schema and
// one SQL text. The main type is DB; Open returns a DB. The package holds SQL and nothing else: it
// talks to no node, no MAAS and no secret store.
//
// # Model
//
// A file begins with its noun: node, task, certificate, token, terminal, audit, site, agent,
// rollout, run. Runs, their claims and saves, batches and holds are in the chains files, as
// chain.Store specifies. The restore files limit a database that was restored from a backup. Files
// that begin with sql, sqlite or postgres hold the engines and no noun; package sqlkit builds and
// runs statements. An exported method owns its transaction and writes its audit row inside the
// transaction. An unexported method takes the caller's transaction. A refusal inside a transaction
// rolls the transaction back, and leaves an audit row where the refusal is worth a row.
//
// # Two engines
//
// Both engines run the same statements, with $1 placeholders; sqlkit.Dialect holds all differences
// in SQL. Times are microseconds in UTC, so that both engines compare times alike. JSON is text. No
// column is NULL.
//
// On SQLite one goroutine writes (sqlkit.Writer). Commits are grouped: closures that arrive while
// the disk is busy share the next transaction, each closure in its own savepoint. No caller is
// answered before that transaction is durable. Reads use a separate pool. On PostgreSQL each write is its
// own transaction and is retried where the server asks for a retry, so closures may run more than
// once. Rows are locked in one order: a node's row before the rows of its tasks.
//
// # Several brokers
//
// On PostgreSQL any number of brokers act as a single broker: claims lock the node's row, sweeps
// skip rows that another sweep has locked, leases run by the server's clock. Hints wake waiting
// callers on every replica. Hints may be lost; only the tables count. Lead gives periodic work to
// one replica, over the connection that holds the leader's lock, so that a replica without the lock
// cannot write that work.
//
// # What a crash leaves
//
// Acknowledged writes are durable. A write that was not acknowledged is present as a whole or not
// at all. A package is present once its last row is. The schema migrates one version at a time,
// each in a transaction. A schema newer than this broker is refused and left unchanged.
package store
