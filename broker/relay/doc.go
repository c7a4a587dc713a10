// Package relay joins the two sides of each terminal session, the process on the node and
// the operator, records what the terminal writes, and ends the session when it must not go
// on.
//
// # Model
//
// A session is one goroutine that owns all of its state (session.go). Each side is a link:
// goroutines that read frames and write them (link.go). Both sides are the same Side to it:
// a QUIC stream or a TLS connection from the node (wire.go, listener.go), and whatever
// stands for the operator. Two sides that are joined never wait for each other: what a side
// shall be sent next is worked out when it can take it, so nothing queues up.
//
// Output is taken from the node, given to the recorder, and only when that has kept it is
// it shown to the operator and acknowledged to the node (output.go, tape.go). Input goes to
// the node at once or, where it is recorded, when that is kept, so that a relay that ends in
// any way has forwarded nothing that no recording has; the operator's acknowledgement of it is the node's own. Over QUIC small
// frames of either direction come early as well, by datagrams (frame.Repeat): what of them
// is out of its turn or was here before is dropped.
//
// # States
//
//	opening   the session is made; its node has not come
//	open      both sides are there
//	detached  one is gone: the operator, who gets the last of the screen when he is back, or
//	          the node, which comes with the token of its last Welcome
//	closing   nobody is let in any more; the recording is being ended
//	closed    its end is in the audit log, and so is that of its recording
//
// A program that has ended is no state of its own: its node is let go of once all that it
// wrote is kept, and the session is open or detached until the operator has seen the last of
// the screen and the exit status, for the detach time at most. At another relay he gets the
// exit status.
//
// A relay that stops, or finds that another has the session, lets go of it without closing
// it: both sides are told to come again. A session that no relay has is ended by any
// (Relay.Reap), also one that stays closing as its recording could not be ended.
//
// # Invariants
//
//   - Nothing is shown or acknowledged that is not kept. A recording that cannot be kept
//     ends its session (recording_failed).
//   - The audit log knows how far a recording is, at each move of its session and every two
//     minutes while it grows, also by a relay that lets go of it. Whoever goes on with one, or
//     ends it, has it say what is gone.
//   - A session is changed by the relay alone that its row names: each write to the store
//     requires it, and a relay of which that is not true any more lets go.
//   - Nobody fills memory: of output there is never more than the window (256 KiB, and up to
//     1 MiB for who takes that much within a quarter of a second) beyond what the operator
//     has taken or, where he is gone, beyond what is kept, and the last screenful. Before the
//     first one has been welcome it is held from its beginning, and the node held up, but at
//     a relay that goes on with the session of another;
//     of input no more than its window that the node has not taken, nor, where it is
//     recorded, that is not kept. The node may send up to that, and what it sends beyond
//     ends the session (frame_beyond_limit).
//   - No side costs a processor: small frames are read at a pace, and frames that bring
//     nothing new are counted (frame_flood).
//   - Bytes that came are copied once, where they are read: the operator's frames and what is
//     recorded are parts of the same, which nobody changes. Of much output the node is told
//     together, 32 KiB or more, and of the rest with the next tick.
//   - A token lets in one connection, of one session's node, in one epoch. One that was
//     minted is good for half a minute and for one key. The one of a Welcome lasts as long
//     as the session, and is for the key that got it, or one that was certified for the
//     node in the same epoch since. The store compares hashes, and replaces them in the same
//     transaction. As a Welcome may be lost, the token that it answered is good again, for
//     the same key, until its successor is used; then it is an attack (terminal_token_used).
//     One that was never used when another took its place is refused, and is no attack by whose
//     it is (terminal_token_superseded): nobody may have told him. He is told that it is not
//     known (terminal_token_unknown, which lasts), as each version of a session waits after that.
//     A token that is minted takes nothing from the one in use before it is used itself.
//   - A node that breaks the protocol ends its session, and is in the audit log. An operator
//     who does loses his connection, and the session waits for him. One whose place another
//     takes is told not to come back (connection_replaced, which does not last): the session
//     goes on without him.
//   - The node is told the size of the terminal with each connection of its own and of an
//     operator, whose screen has nothing on it yet, and the operator where the node is with
//     each Welcome and change (frame.State).
//   - Input ends once. What an operator types who joins after that is acknowledged and is for
//     nobody, neither the node nor the recording; who goes on after his own end loses his
//     connection (frame_after_end).
//   - A side that says nothing for DeadAfter, and does not answer a Ping, is let go of, over
//     either protocol. A relay that began anew resets the QUIC connections of the one before
//     (Config.ResetKey).
//   - An address is counted only once it is shown to be somebody's: by a TCP handshake or a
//     QUIC Retry. Connections that have not joined a session are bounded, of each address, or
//     IPv6 /64, and of all. Where there are too many, the oldest of the address with the most
//     ends, and nodes whose address is known come before strangers (package strangers). Those
//     that have joined are bounded of each node (sources.go).
//   - A node that shows what is refused is not looked at any more for a while, before the
//     store is asked: it fills nobody's time (attempts.go), nor the audit log, which has
//     the first of a kind and counts the others. Only what was refused counts: of many tries
//     at once a few are looked at, and the others wait for their turn, or come again.
//   - The times in a recording are those at which bytes came. The rest of a character is
//     waited for 50 ms.
//   - Time is an input: limits go by Config.Now, looked at every Config.Tick. Only what is
//     about a connection, and not the session, goes by the system's clock.
//   - A session that is taken from another relay is read after that one can change nothing of
//     it any more.
//   - A certificate on the deny list is refused, and within a tick of Config.Denied saying
//     so ends the session that it holds; or only the connection, where it is denied since
//     the node's key was rotated: the node comes again with the new one. A store that does
//     not say which is asked again for ten seconds, and then the session ends.
//   - A certificate from before the database was restored from a backup does not get through
//     the handshake: its node renews it first, where it may.
package relay
