// Package audit seals the audit log, so that whoever changes it later is seen.
//
// # Model
//
// A row is written in the transaction that it describes. The leader gives rows
// their place in one chain, within a second: the seal of a row is the hash of
// the seal before it, its position, and everything the row says. Each minute and
// at every 1,000 rows the leader signs the end of the chain with the statement
// key. That head is kept beside the rows, in a file of the broker's data directory
// (HeadFiles), and in the log; file or log leave the machine.
//
// # What it proves
//
// Verify walks the chain from its start and names the first row whose seal does
// not hold or which is missing. A row that was changed, taken out, put in
// between or moved breaks the chain there. Someone with the database can rebuild
// the chain from that point on, but not the heads: they then name seals that are
// no longer there. To take the heads out is seen at every 1,000th row: the chain
// never goes on without one. Rows taken from the end are missed by the recorded
// tip, and, if that was changed too, by every head since.
//
// What it cannot prove: that a row written before it was sealed is true; that
// nothing was lost between the last head and an attack by someone who rewrites
// the tip too, at most a minute; that the heads since the last 1,000th row are
// all there were, for which the log has them. A row that such a person adds at the end is
// sealed like any other.
package audit
