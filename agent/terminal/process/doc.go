// Package process is what a terminal session's unit runs: it listens for the agent, is handed
// the session, and holds it (package terminal) until it is over.
//
// # States
//
//	waiting  nobody has handed anything over yet; up to a minute, else terminal_not_handed_over
//	held     a session runs; each further handover sends it to a relay
//	over     the session has ended; what is handed over now is refused (terminal_over)
//
// # Invariants
//
//   - The process is root's and cannot be looked into: it is not dumpable from its first
//     step on, again after each start of a program, and none of its descriptors is inherited.
//   - Key and certificate are read from the agent's state directory for each connection, and
//     not kept: a session follows a renewal and a rotation.
//   - What was judged when a session was handed over is judged again when its program starts.
//   - The log names session, node and task, and codes; never a word of the command, nor
//     anything that was typed or shown.
//   - A login is noted in a file of the runtime directory before it is recorded, and its end
//     is recorded by who comes after the process (End), however that has ended.
package process
