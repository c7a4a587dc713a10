// Package handover is how the agent tells the process of a terminal session where its relay
// is, and with what token it is let in: over a unix socket, at the session's start and
// whenever it has to go elsewhere.
//
// # Invariants
//
//   - The socket lies in a directory that is root's alone, as is the one above it, and both
//     ends ask the kernel who is at the other (SO_PEERCRED) before a byte of a message is
//     written or read. Who is not the same user is told nothing.
//   - One connection is one request and one answer, strict JSON with an end to its length
//     and to the time that it may take. Connections are served one after the other.
//   - A request without a handover only asks: it changes nothing, and its answer says
//     whether what a task handed over was taken. So an agent that was cut off in between can
//     say the truth.
//   - Nothing of a request is logged here.
package handover
