// Package relay joins the two sides of each terminal session, the process on the node and
// the operator, records what the terminal writes, and ends the session when it must not go
// on.
//
// # Model
//
// A session is one goroutine that owns all of its state (session.go). Each side is a link:
// two goroutines that read frames and write them (link.go). Both sides are the same Side to
// it: a QUIC stream or a TLS connection from the node (wire.go, listener.go), and whatever
// stands for the operator. Two sides that are joined never wait for each other: what a side
// shall be sent next is worked out when it can take it, so nothing queues up.
//
// Output is taken from the node, given to the recorder, and only when that has kept it is
// it shown to the operator and acknowledged to the node (output.go). Input goes to the node
// at once; the operator's acknowledgement of it is the node's own.
//
// # States
//
//	opening   the session is made; its node has not come
//	open      both sides are there
//	detached  one is gone: the operator, who gets the last of the screen when he is back, or
//	          the node, which comes with the token of its last Welcome
//	closing   nobody is let in any more; the recording is being ended
//	closed    its end is in the audit log
//
// A relay that stops, or finds that another has gone on with a recording, lets go of the
// session without closing it.
//
// # Invariants
//
//   - Nothing is shown or acknowledged that is not kept. A recording that cannot be kept
//     ends its session (recording_failed).
//   - Nobody fills memory: of output there is never more than the window beyond what the
//     operator has taken or, where he is gone, beyond what is kept, and the last screenful;
//     of input no more than its window. The node may send up to that, and what it sends
//     beyond ends the session (frame_beyond_limit).
//   - A token lets in one connection, of one session's node, in one epoch, with one key. The
//     store compares hashes and forgets it in the same transaction; each Welcome has the
//     next one. Should a Welcome be lost, only a token that is minted anew lets the node in.
//   - A node that breaks the protocol ends its session, and is in the audit log. An operator
//     who does loses his connection, and the session waits for him.
//   - Time is an input: limits go by Config.Now, looked at every Config.Tick.
//   - A certificate on the deny list is refused, and ends the sessions it holds, within a
//     tick of Config.Denied saying so.
package relay
