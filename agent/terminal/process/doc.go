// Package process is the program of a terminal session's unit: it listens for the agent, receives
// the session, and holds it (package terminal) until it is over. Run is the process, End the
// cleanup after it.
//
// # States
//
//	waiting  no handover yet; up to a minute, else terminal_not_handed_over
//	held     a session runs; each further handover sends it to a relay
//	over     the session has ended; a handover is refused now (terminal_over)
//
// # Invariants
//
//   - The process is root's and closed to inspection: it is not dumpable from its first
//     step on, again after each start of a program, and none of its descriptors is
//     inherited.
//   - Key and certificate are read from the agent's state directory for each connection, and
//     not kept: a session follows a renewal and a rotation.
//   - The options judged at the handover are judged again when the program starts.
//   - The log names session, node and task, and codes; never a word of the command, nor
//     typed or shown text.
//   - A login is noted in a file of the runtime directory before it is recorded, and End
//     records its end after the process, however the process has ended.
package process
