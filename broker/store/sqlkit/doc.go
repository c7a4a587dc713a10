// Package sqlkit builds and runs the statements of broker/store. The package names no table, no
// column and no noun of Hostler. Only broker/store imports sqlkit, and sqlkit imports nothing of
// ours.
//
// The main type is Runner: a transaction or a pool, which runs statements. Where collects the
// conditions of a statement. Collect and Count read the rows of an answer. Dialect holds all
// differences in SQL between the two engines. Prepared keeps statements; Counted counts them.
// Writer groups the commits of a SQLite database. Clock is the clock of a PostgreSQL server.
//
// Every statement has $1 placeholders, which both engines understand. A value reaches the database
// as an argument, and never as part of a statement's text. A time is stored as microseconds in UTC,
// so that both engines compare times alike; any other value without a column of its own is JSON.
//
// The package opens no database, migrates no schema and decides nothing about retries: the engines of
// broker/store do.
package sqlkit
