// Package attach is the operator's side of a terminal session: typed bytes go to the node, and the
// output of the node's program goes through package escape to the operator's terminal, over a
// connection that may break and come back.
//
// # Model
//
// Run is one goroutine that owns all state: the position of each direction (frame.Inflow,
// frame.Outflow), the typed bytes that are not in a frame yet, and the output that is not written
// yet. Beside it are a goroutine that reads typed bytes, a goroutine that writes to the terminal, and
// two goroutines per connection, which read and write frames. None waits for another: a terminal that
// accepts no output delays no key, and a program that reads no input delays no escape, as long as
// there is room for typed bytes.
//
// # Invariants
//
//   - Typed bytes reach the node once and in order, however often the connection breaks. Bytes that
//     the node has not taken are kept, and sent again from the position in the Welcome. Bytes that may
//     have been typed into another session are never sent.
//   - An Ack names the output that was written, not the output that arrived, so that unwritten output
//     never exceeds the window. A program that prints without end is thus held up at its terminal, on
//     the node. For bulk output an Ack is sent for each eighth of the window, and for the rest with the
//     next tick; the answer to a key is acknowledged at once.
//   - Unsent typed bytes never exceed the window of input and 64 KiB.
//   - Ctrl-C is an ordinary byte. It overtakes output and is not turned into a Signal: the terminal of
//     the program on the node decides its meaning.
//   - The terminal is restored at the end, however the session ends (escape.Filter.Restore).
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
