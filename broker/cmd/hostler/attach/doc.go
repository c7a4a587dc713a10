// Package attach is the operator's side of a terminal session: what is typed goes to the
// node, what the node's program writes goes through package escape to the operator's
// terminal, over a connection that may break and come back.
//
// # Model
//
// Run is one goroutine that owns all state: how far each direction has come (frame.Inflow,
// frame.Outflow), what was typed and is not in a frame yet, and what came and is not written
// yet. Beside it are a goroutine that reads what is typed, one that writes to the terminal,
// and two a connection, which read and write frames. None waits for another: a terminal that
// takes no output holds no key up, and a program that reads no input no escape, as long as
// there is room for what is typed.
//
// # Invariants
//
//   - What is typed reaches the node once and in its order, however often the connection
//     breaks: what the node has not taken is kept, and sent again from where the Welcome
//     says. Nothing that may have been typed into another session is ever sent.
//   - An Ack says what was written, not what has come: of output there is never more here
//     than the window. So a program that prints without end is held up at its terminal, on
//     the node. Of much output one is sent for an eighth of the window, and for the rest with
//     the next tick; the answer to a key is acknowledged at once.
//   - Of what is typed there is never more here than the window of input and 64 KiB.
//   - Ctrl-C is a byte as any other. It passes by output, and is not made a Signal: the
//     program on the node decides what its terminal makes of it.
//   - The terminal is put right at the end, whatever the end is (escape.Filter.Restore).
//
// # States
//
//	joining   a connection is being made; again after a growing pause, for as long as the
//	          session waits for its operator
//	waiting   connected; the node has not come yet
//	joined    by a Welcome; by a break, or a silence of 15 s → joining
//	leaving   asked to end or to leave; by a Bye, or 3 s later → over
//	over      what has come is written
package attach
