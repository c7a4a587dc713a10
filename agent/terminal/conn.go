package terminal

import (
	"context"
	"io"
	"time"
)

// Conn is a connection to the relay: a stream, and possibly datagrams beside it. Close ends every
// blocked call. CloseWrite ends the writing side and keeps the data already written.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Datagrams is implemented by a Conn with datagrams. A datagram may be lost, late, or duplicated.
type Datagrams interface {
	SendDatagram(raw []byte) error // may block; raw may be reused afterwards
	ReceiveDatagram(ctx context.Context) ([]byte, error)
	RTT() time.Duration // 0: not known yet
}

// DialFunc opens a connection to the relay at an address.
type DialFunc func(ctx context.Context, relay string) (Conn, error)
