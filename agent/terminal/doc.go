// Package terminal is the process of a terminal session: a program in a terminal, relayed by frames
// (package taskcatalog/wire/frame) over a connection that may break and come back. Its main
// function is Run. The package knows no task, no queue and no API of the broker, and listens on
// nothing: it dials.
//
// # Model
//
// The session outlasts connections: the program (shell), the position of each direction
// (frame.Inflow, frame.Outflow), and the token for the next connection. A link is a connection that
// got a Welcome. A link has no send queue: each time the stream takes more, the link reads from the
// session's state what to send next (an answer to a ping, an Ack, a frame of output, the end).
//
// Input, output, size and stream are each served by a goroutine of their own, and none waits for
// another: a program that prints without end and a reader that has stopped do not delay an
// interrupt. A typed interrupt passes as long as the terminal takes input; as a Signal it always
// passes.
//
// # States
//
//	connecting  no program yet; up to ConnectTimeout, else terminal_relay_unreachable. A
//	            refused token is not the end: another may be on its way
//	attached    a link; after a break, a silence of 10 s or a Bye that lasts → detached
//	detached    the program runs on as far as there is room for its output; up to
//	            DetachTimeout, else terminal_detached; after a Welcome → attached. Without a
//	            token that a relay would take, no relay is dialed
//	ended       the program has ended, and its output and Exit are on their way or sent;
//	            after a Bye, or DetachTimeout later → over
//	over        SIGHUP to the whole session, SIGKILL after Grace; no process is left
//
// A pass (pass.go) sends the session to another relay, from each state that has a relay: the
// present connection or attempt is abandoned, and the limit for a Welcome restarts.
//
// From each of the first three states a Bye that does not last, an invalid frame and the end of the
// context lead to over at once. An invalid frame and the context's end are reported to the relay in
// a Bye.
//
// # Invariants
//
//   - No program starts before the first Welcome.
//   - Every byte passes once and in order, wherever connections break: output is kept
//     until the relay has acknowledged it for good, and a Welcome says from where it is
//     sent again.
//   - Input ends once: input that a later connection brings is acknowledged and discarded.
//   - The buffers are bounded: 1 MiB of output, whatever the relay allows, and 64 KiB of
//     input, because no more is allowed than the program has taken. The rest waits in the
//     terminal, and the program with it.
//   - The Exit comes after all output, and means that no process of the program's session
//     is left. A process that left the session (setsid) is ended with the cgroup of the
//     unit around this process.
//   - A signal goes to processes of this session alone: the kernel does not reuse the
//     session's number before the program is reaped, and the reaping waits until the other
//     processes are gone.
//   - The program runs as the user, in a session with this terminal as its controlling
//     terminal, without any variable or descriptor of this process. Its shell is in
//     /etc/shells. It starts in the user's home or, if the user cannot enter it, in /.
//     No shell of ours ever reads text: a command is a program and its words.
//   - An early repeat is a datagram with all unacknowledged output, if that is at most
//     1,000 bytes: at once, again at growing pauses, six times, never two in 10 ms.
//     Duplicate or out-of-order data is dropped by the receiver.
//   - A token is shown only to its own relay, and not again once this relay has answered.
//     A session told that another connection took its place does not take the place back.
//   - TLS 1.3 with both certificates, this protocol's name (ALPN), no resumption, no early
//     data.
//
// # Files
//
// account.go and environ.go choose the user and the environment, shell.go is the terminal,
// session.go the state that outlasts connections, pass.go the passes, attach.go the way to a link,
// link.go and take.go sending and receiving, repeat.go the early repeat, dial.go the two
// transports.
//
// # What the package leaves to others
//
// PAM is not used: limits, cgroup and mount namespace are those of the unit. A token is good for a
// single connection, so after a lost Welcome the session waits for another token.
package terminal
