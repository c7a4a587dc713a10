// Package frame is what travels between the three parties of a terminal session: the
// session's process on the node, the broker's relay, and the operator's side. The same
// frames go over a QUIC stream, over TLS on TCP where UDP is blocked, and over the
// operator's WebSocket.
//
// # Model
//
// Each direction of a session is a string of bytes that are counted from its beginning.
// A Data frame says where its bytes stand in it. So the same bytes may come twice, by
// another path or after a new connection, and are taken once (Inflow); and what the other
// side has not acknowledged is kept and can be sent again (Outflow). Nothing else is
// needed for an early repeat over a bad link, for going on after a break, or for another
// replica that takes over. An early repeat (Repeat) is a datagram with a Data frame; what of
// it is out of its turn is dropped where it arrives.
//
// An Ack says two things: up to where bytes were taken for good, which lets the sender
// forget them, and up to where more may be sent. The second is the flow control: it is
// given by whoever reads at the end, so that a program which prints without end is held
// up at its terminal, and not in anybody's memory.
//
// # Encoding
//
// One byte of kind, four of length (big endian), then the payload. Integers in payloads
// are big endian as well; Hello, Welcome, Bye and State are JSON, read strictly. A frame of a
// kind that is not known, of a length beyond its kind's bound, or with bytes too many or
// too few, ends the session: both sides are of known versions, and what does not fit is
// an attack or a fault.
package frame
