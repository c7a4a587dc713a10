package terminal

import (
	"context"
	"io"
	"time"
)

// Conn is one connection to the relay: a stream, and perhaps datagrams beside it. Close
// ends every call that waits. CloseWrite says that nothing more comes, and keeps what was
// written.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Datagrams is what a Conn also is where it has some. A datagram may be lost, come late, or
// come twice.
type Datagrams interface {
	SendDatagram(raw []byte) error // may wait; raw is the caller's again
	ReceiveDatagram(ctx context.Context) ([]byte, error)
	RTT() time.Duration // 0: not known yet
}

// DialFunc opens a connection to the relay at an address.
type DialFunc func(ctx context.Context, relay string) (Conn, error)
