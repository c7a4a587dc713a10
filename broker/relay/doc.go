// Package relay connects the two sides of each terminal session: the process on the node and the
// operator. A Relay records the terminal's output and ends sessions that must not continue. Package
// relay does not authorise operators; callers of Attach do.
//
// # Model
//
// A session is one goroutine that owns all state of the session (session.go). Each side is a link:
// goroutines that read and write frames (link.go). The session treats both sides alike, as a Side:
// a QUIC stream or a TLS connection from the node (wire.go, listener.go), and the operator's
// connection. The two sides never wait for each other: the next frame for a side is computed when
// the side can take a frame, so nothing queues up.
//
// Output is taken from the node, given to the recorder, and only when that has kept it is
// the output shown to the operator and acknowledged to the node (output.go, recording.go). Input goes to
// the node at once, or, if input is recorded, once the recording has kept it. Therefore a relay
// that ends in any way has forwarded nothing that is missing in a recording. Input is acknowledged
// to the operator when the node acknowledges it. Over QUIC small frames of either direction are
// also sent early as datagrams (frame.Repeat); early bytes that are out of order or already
// received are dropped.
//
// # States
//
//	opening   the session exists; its node has not connected
//	open      both sides are connected
//	detached  one side is gone: the operator, who gets the last of the screen on return, or
//	          the node, which returns with the token of its last Welcome
//	closing   no side is admitted any more; the recording is being ended
//	closed    the end of the session and of its recording is in the audit log
//
// An exited program is not a separate state. The node is released once all output of the program is
// kept. The session stays open or detached until the operator has seen the last of the screen and
// the exit status, for at most the detach time. At another relay the operator gets the exit status.
//
// A relay that stops, or finds that another relay has the session, releases the session without
// closing the session: both sides are told to reconnect. Any relay ends a session that no relay
// holds (Relay.Reap), including a session that stays closing because its recording could not be
// ended.
//
// # Invariants
//
//   - Output that is not kept is neither shown nor acknowledged. A recording that cannot be kept
//     ends its session (recording_failed).
//   - The audit log records the length of a recording at each move of its session, every two
//     minutes while the recording grows, and when a relay releases the session. A relay that
//     continues or ends a recording notes in it, and in the audit log, how much is missing of the
//     length that the audit log knows.
//   - Only the relay that the session's row names changes the session. Each write to the store
//     requires this, and a relay that is no longer named releases the session.
//   - No side fills memory. Held output is at most the window (256 KiB, up to 1 MiB for an operator
//     who takes that much within a quarter of a second) beyond the operator's position, or, without
//     an operator, beyond the kept output, plus the last screenful. Until the first operator has
//     been welcomed, output is held from its beginning and the node is held up, except at a relay
//     that continues another relay's session. Held input is at most one input window beyond the
//     node's position and, if input is recorded, beyond the kept input. A node that sends beyond
//     its limit ends the session (frame_beyond_limit).
//   - No side uses up a processor: small frames are read at a limited rate, and frames without news
//     are counted (frame_flood).
//   - Received bytes are copied once, where they are read. The operator's frames and the recorded
//     bytes share the same memory, which is never changed. The node gets acknowledgements of much
//     output in batches of 32 KiB or more, and of the rest with the next tick.
//   - A token admits one connection, of one session's node, in one epoch. A minted token is valid
//     for half a minute and for one key. The token of a Welcome lasts as long as the session, for
//     the key that received it or a key certified later for the node in the same epoch. The store
//     compares hashes, and replaces them in the same transaction. Because a Welcome may be lost,
//     the token that it answered stays valid for the same key until the successor token is used.
//     After that its use is an attack (terminal_token_used). A token that was replaced before its
//     first use is refused and does not count as an attack by its owner
//     (terminal_token_superseded), because the owner may not have been told. The node sees
//     terminal_token_unknown with Lasts, because every version of a session's process waits after
//     that code. A minted token invalidates the token in use only when the minted token is used.
//   - A node that breaks the protocol ends its session, and the audit log records the violation. An
//     operator who breaks the protocol loses the connection, and the session waits. A replaced
//     operator is told not to return (connection_replaced, without Lasts); the session
//     continues.
//   - The node is told the size of the terminal with each new connection of the node and of an
//     operator, because a new operator's screen is empty. The operator is told the node's state
//     with each Welcome and each change (frame.State).
//   - Input ends once. Input from an operator who joins after the end of input is acknowledged and
//     dropped: neither the node nor the recording gets it. An operator who sends after ending his
//     own input loses the connection (frame_after_end).
//   - A side that is silent for DeadAfter and does not answer a Ping is disconnected, over either
//     protocol. A restarted relay resets the QUIC connections of its predecessor (Config.ResetKey).
//   - An address is counted only after a TCP handshake or a QUIC Retry has proved it (quicretry.go).
//     Connections that have not joined a session are bounded per address, or IPv6 /64, and in
//     total. Above the bound, the oldest connection of the address with the most connections is
//     closed, and nodes with a known address take precedence over strangers (package strangers).
//     Joined connections are bounded per node (sources.go).
//   - A node with too many refused tries is ignored for a while, before the store is asked. So such
//     a node uses up neither the relay's time (attempts.go) nor the audit log, which has the first
//     refusal of a kind and counts the others. Only refusals count: of many simultaneous tries a
//     few are processed, and the others wait for their turn or come again.
//   - The times in a recording are the times at which bytes arrived. An incomplete character waits
//     50 ms for its rest.
//   - Time is an input: limits use Config.Now, checked every Config.Tick. Only limits of a
//     connection, not of the session, use the system's clock.
//   - A session taken over from another relay is read only after that relay can no longer change
//     it.
//   - A certificate on the deny list is refused. Within a tick of Config.Denied reporting it, the
//     session of a denied certificate ends. If the certificate is denied because the node's key was
//     rotated, only the connection ends: the node reconnects with the new certificate. If the store
//     does not answer, the relay asks again for ten seconds; then the session ends.
//   - A certificate from before a restore of the database is refused in the handshake. The node
//     first renews the certificate, if renewal is permitted.
package relay
