package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/broker/strangers"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// writeWithin is the time in which a node must read bytes that it allowed.
const writeWithin = 10 * time.Second

// stream is the common interface of a QUIC stream and a TLS connection.
type stream interface {
	io.ReadWriter
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// wire is the node's side of a session, over a stream.
type wire struct {
	stream
	reader    *frame.Reader
	transport string           // as a frame.State names it
	quic      *quic.Conn       // with datagrams; nil: there are none
	guest     *strangers.Guest // until the connection has joined
	leave     func()           // uncounts the node's connection; nil: it has not joined
	closing   func() error
	closed    func() error
	why       atomic.Pointer[error] // the reason of the end, if the stream does not show it
}

func overTLS(conn *tls.Conn, guest *strangers.Guest) *wire {
	return &wire{
		guest: guest, stream: conn, reader: frame.NewReader(conn), transport: frame.OverTCP, closing: conn.CloseWrite,
		closed: conn.Close,
	}
}

func overQUIC(conn *quic.Conn, s *quic.Stream, guest *strangers.Guest) *wire {
	w := &wire{
		guest: guest, stream: s, reader: frame.NewReader(s), transport: frame.OverQUIC,
		closing: s.Close, closed: func() error { return conn.CloseWithError(0, "") },
	}
	if conn.ConnectionState().SupportsDatagrams.Remote {
		w.quic = conn
	}
	return w
}

// Next implements Side.
func (w *wire) Next() (frame.Frame, error) {
	f, err := w.reader.Next()
	if err != nil {
		if why := w.why.Swap(nil); why != nil {
			return nil, *why
		}
	}
	if data, ok := f.(frame.Data); ok {
		data.Bytes = bytes.Clone(data.Bytes) // the reader reuses the bytes
		return data, nil
	}
	return f, err
}

// Send implements Side.
func (w *wire) Send(f frame.Frame) error {
	raw, err := frame.Append(nil, f)
	if err != nil {
		return err
	}
	if err := w.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return err
	}
	if _, err := w.Write(raw); err != nil {
		return err
	}
	if f.Kind() == frame.KindBye {
		return w.closing()
	}
	return nil
}

// Close implements Side.
func (w *wire) Close() error {
	if w.leave != nil {
		w.leave()
	}
	return w.closed()
}

// fail ends the connection for a reason that its stream does not show.
func (w *wire) fail(conn *quic.Conn, err error) {
	w.why.Store(&err)
	_ = conn.CloseWithError(1, string(taskcatalog.CodeOf(err, "")))
}

// early waits for the next datagram: bytes that the stream carries as well. A nil result stands for
// a datagram without a valid frame, such as a truncated frame. An error with a code reports a frame
// of the wrong kind.
func (w *wire) early() (*frame.Data, error) {
	raw, err := w.quic.ReceiveDatagram(context.Background()) // ends with the connection
	if err != nil {
		return nil, err
	}
	f, err := frame.Parse(raw)
	if err != nil {
		return nil, nil
	}
	data, ok := f.(frame.Data)
	if !ok {
		return nil, unexpected(f)
	}
	return &data, nil
}
