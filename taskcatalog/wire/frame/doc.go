// Package frame defines the frames between the three parties of a terminal session: the session's
// process on the node, the broker's relay, and the operator's side. The same frames travel over a
// QUIC stream, over TLS on TCP where UDP is blocked, and over the operator's WebSocket. The package
// does no network I/O; Inflow and Outflow keep the state of a direction.
//
// # Model
//
// Each direction of a session is a byte stream, counted from its beginning. A Data frame carries
// the offset of its bytes. Therefore the same bytes may arrive twice, by another path or after a
// reconnect, and are accepted once (Inflow). Unacknowledged bytes are kept and can be sent again
// (Outflow). Early repeats over a bad link, reconnects, and a takeover by another replica need
// nothing else. An early repeat (Repeat) is a datagram with a Data frame; the receiver drops early
// bytes that are out of order.
//
// An Ack carries two positions: up to where bytes were taken for good, so that the sender can
// forget them, and up to where more may be sent. The second position is the flow control. The final
// reader grants it, so a program with endless output is held up at its terminal and fills no
// party's memory.
//
// # Encoding
//
// One byte of kind, four bytes of length (big endian), then the payload. Integers in payloads are
// big endian as well. Hello, Welcome, Bye and State are JSON, read strictly. A frame of unknown
// kind, of a length beyond its kind's bound, or with too many or too few bytes ends the session:
// both sides know their versions, so such a frame is an attack or a fault.
package frame
