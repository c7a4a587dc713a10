// Package recording is the record of terminal sessions, which cannot be lost without
// anybody seeing it.
//
// # Model
//
// A recording is a chain of blocks. A block holds lines of asciicast v2, says up to which
// byte of the session's output it goes, and has a hash over all that it says and over the
// hash of the block before. The last one says that it is the last, and the audit log, which
// is sealed, gets how many there are and the hash of that one; and the same from time to time
// before. So a block that was changed, taken out, put in or cut off is found, and Verify says
// where: also when the recording has gone on since, which says what was gone (Cut).
//
// A Recorder keeps what the terminal has written before the operator is shown it, and
// before the node is told that it may forget it. Between these two nothing is ever only in
// the relay's memory: after a crash the session goes on with the byte after the last block,
// wherever that happens (Resume), and that it was cut is an event of the recording. Output
// that is gone all the same is an event as well (Gap), with how many bytes it was.
//
// # Format
//
// The lines of all blocks one after another are a file of asciicast v2 as players read it.
// Its events are text: bytes that are no UTF-8 are U+FFFD in it, and a character whose
// bytes have not all come is kept with the next ones, and shown with them, unless whoever
// records settles that none come. Times are those at which bytes came, and never go back.
// What is not output of the terminal is a marker ("m") that begins with "hostler: ".
//
// # Retention
//
// A recording is dropped as a whole, only after its end is in the audit log, and that it was
// is there too: Verify tells it from blocks that are gone.
package recording
