// Package recording records terminal sessions, so that a lost or changed part of a record is
// noticed. The main types are Recorder, Block and Report. Package recording does not store blocks;
// a Keeper does.
//
// # Model
//
// A recording is a chain of blocks. A block holds lines of asciicast v2, the position in the
// session's output up to which it goes, and a hash over all its fields and the hash of the previous
// block. The last block is marked as last. The audit log, which is sealed, records the number of
// blocks and the hash of the last block at the end, and also from time to time before. Therefore a
// block that was changed, removed, inserted or cut off is found, and Verify reports the place. A
// recording that continues after a loss records the missing part itself (Cut), and Verify reports
// it too.
//
// A Recorder keeps the terminal's output before the operator sees the output and before the node is
// told to forget it. So output is never only in the relay's memory: after a crash the session
// continues, at any relay, with the byte after the last block (Resume), and an event of the
// recording notes the interruption. If output is lost anyway, an event notes the number of lost
// bytes (Gap).
//
// # Format
//
// The concatenated lines of all blocks are an asciicast v2 file that players can read. Events are
// text: invalid UTF-8 becomes U+FFFD. An incomplete character is kept and shown together with its
// missing bytes, unless the caller settles that no more bytes come (Settle). Times are arrival
// times of bytes, and never decrease. Everything except terminal input and output is a marker ("m")
// that begins with "hostler: ".
//
// # Retention
//
// A recording is dropped as a whole, and only after its end is in the audit log. The audit log also
// records the drop, so Verify distinguishes a dropped recording from missing blocks.
package recording
