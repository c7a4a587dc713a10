// Package terminal is the process of a terminal session: a program in a terminal, relayed
// by frames (package taskcatalog/wire/frame) over a connection that may break and come back.
// It knows no task, no queue and no API of the broker, and listens on nothing: it dials.
//
// # Model
//
// The session is what outlasts connections: the program (shell), how far each direction has
// come (frame.Inflow, frame.Outflow), and the token for the next connection. A link is one
// connection that was welcome. What a link sends is no queue: each time the stream takes
// more, the link reads off the session what is due (an answer to a ping, an Ack, one frame
// of output, the end).
//
// Input, output, size and stream are each served by a goroutine of its own, and one never
// waits for another: a program that prints without end and a reader that has stopped do not
// hold an interrupt up. A typed one passes as long as the terminal takes input; as a Signal
// it passes always.
//
// # States
//
//	connecting  no program yet; up to ConnectTimeout, else terminal_relay_unreachable. A
//	            token that is refused is not the end: another may be on its way
//	attached    a link; by a break, a silence of 10 s or a Bye that lasts → detached
//	detached    the program runs on as far as there is room for its output; up to
//	            DetachTimeout, else terminal_detached; by a Welcome → attached. Without a
//	            token that a relay would take, nobody is asked
//	ended       the program has ended, and its output and Exit are on their way or sent;
//	            by a Bye, or DetachTimeout later → over
//	over        SIGHUP to the whole session, SIGKILL after Grace; nothing of it is left
//
// A pass (pass.go) sends the session to another relay, from each state that has one: the
// connection there is, or is being made, is left, and the time to be let in begins anew.
//
// From each of the first three a Bye that does not last, a frame that does not fit and the
// end of the context lead to over at once. The last two are told to the relay in a Bye.
//
// # Invariants
//
//   - No program starts before the first Welcome.
//   - Every byte passes once and in order, wherever connections break: what the relay has
//     not acknowledged for good is kept, and a Welcome says from where it is sent again.
//   - Input ends once: what a later connection brings of it is acknowledged, and for nobody.
//   - What is kept is bounded: 1 MiB of output, whatever the relay allows, and 64 KiB of
//     input, since no more is allowed than the program has taken. The rest waits in the
//     terminal, and the program with it.
//   - The Exit comes after all output, and says that nobody of the program's session is
//     left. Whoever left it (setsid) is for the cgroup of the unit that this runs in.
//   - A signal goes to processes of this session alone: its number is not given away
//     before the program is reaped, and that waits until the others are gone.
//   - The program runs as the user, in a session with this terminal as its controlling one,
//     with no variable and no descriptor of this process. Its shell is one of /etc/shells.
//     It begins in the user's home or, where the user himself cannot be there, in /.
//     No text is ever read by a shell of ours: a command is a program and its words.
//   - An early repeat is a datagram with all that is not acknowledged, if that is at most
//     1,000 bytes: at once, again at growing pauses, six times, never two in 10 ms. What
//     it brings twice, or out of its turn, is dropped where it arrives.
//   - A token is shown to the relay that it is for, and not again once that has answered.
//     Who is told that another has taken his place does not take it back.
//   - TLS 1.3 with both certificates, this protocol's name (ALPN), no resumption, no early
//     data.
//
// # Files
//
// account.go and environ.go say who runs and with what, shell.go is the terminal, session.go
// what outlasts connections, pass.go where they lead, attach.go the way to a link, link.go
// and take.go what it sends and takes, repeat.go the early repeat, dial.go the two transports.
//
// # What it leaves to others
//
// PAM is not asked: limits, cgroup and mount namespace are those of the unit. A token is good
// for one connection, so after a Welcome that is lost on its way the session waits for another.
package terminal
