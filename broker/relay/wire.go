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

// writeWithin is how long a node may leave unread what it allowed to be sent.
const writeWithin = 10 * time.Second

// stream is what a QUIC stream and a TLS connection have in common.
type stream interface {
	io.ReadWriter
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// wire is the node's side of a session, on a stream.
type wire struct {
	stream
	reader    *frame.Reader
	transport string           // as a frame.State names it
	quic      *quic.Conn       // with datagrams; nil: there are none
	guest     *strangers.Guest // until it has joined
	leave     func()           // and its node that it is gone; nil: it has not joined
	closing   func() error
	closed    func() error
	why       atomic.Pointer[error] // it ended, where that is not what the stream says
}

func overTLS(conn *tls.Conn, guest *strangers.Guest) *wire {
	return &wire{guest: guest, stream: conn, reader: frame.NewReader(conn), transport: frame.OverTCP, closing: conn.CloseWrite, closed: conn.Close}
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
		data.Bytes = bytes.Clone(data.Bytes) // the reader's, until the next
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

// early waits for the next datagram: bytes that are on their way over the stream as well;
// nil, for one that is no frame, as a datagram that was cut. An error with a code is that of
// a frame which is no such thing.
func (w *wire) early() (*frame.Data, error) {
	raw, err := w.quic.ReceiveDatagram(context.Background()) // the connection's end is its end
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
