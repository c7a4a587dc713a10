// Package audit seals the audit log, so that a later change of the log is detected. Its main type
// is Sealer, which the leader runs; Verify checks the log.
//
// # Model
//
// The transaction of a change also writes the audit row. Within a second the leader gives rows their
// place in one chain: the seal of a row is the hash of the former seal, the row's position,
// and every field of the row. Each minute and at every 1,000 rows the leader signs the end of the
// chain with the statement key. This signed head is kept beside the rows, in a file of the broker's
// data directory (HeadFiles), and in the log; file or log leave the machine.
//
// # What the seals prove
//
// Verify walks the chain from its start and names the first row that has a wrong seal
// or is missing. A row that was changed, removed, inserted or moved breaks the chain there. Somebody with
// the database can rebuild the chain from that point on, but cannot sign heads: the old heads then
// name seals that no longer exist. A removed head is detected at every 1,000th row, because the
// chain never goes on there without a head. Rows removed from the end are detected by the recorded
// tip and, if the tip was changed too, by every head since.
//
// The seals cannot prove that a row was true before it was sealed. They cannot prove that nothing
// was lost between the last head and an attack by somebody who also rewrites the tip: this is at
// most a minute. They cannot prove that the heads since the last 1,000th row are complete; the log
// has these heads. A row that such an attacker adds at the end is sealed like any other.
package audit
