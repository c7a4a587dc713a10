package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// sendWithin is the longest time that the broker may take to accept a frame.
const sendWithin = 15 * time.Second

// sockets returns a transport for WebSockets, with the same roots. The transport speaks HTTP/1.1
// only, because WebSockets need it.
func sockets(of *http.Transport) *http.Transport {
	t := of.Clone()
	t.ForceAttemptHTTP2 = false
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	t.DisableKeepAlives = true
	return t
}

// Attachment is a connection to the relay of a terminal session.
type Attachment struct {
	conn *websocket.Conn
	ctx  context.Context
	end  context.CancelFunc
}

// AttachTerminal joins a session with a ticket. The ticket travels in a header that no log records.
func (c *Client) AttachTerminal(ctx context.Context, id, ticket string) (*Attachment, error) {
	return c.attach(ctx, at("terminals", id, "attach"), id, ticket)
}

func (c *Client) attach(ctx context.Context, path, id, ticket string) (*Attachment, error) {
	header := http.Header{"User-Agent": {"hostler/" + c.opts.Version}}
	if err := c.authorize(ctx, header); err != nil {
		return nil, err
	}
	conn, res, err := websocket.Dial(ctx, c.opts.Broker+api.Path(path), &websocket.DialOptions{
		HTTPClient:      &http.Client{Transport: c.sockets, CheckRedirect: c.http.CheckRedirect},
		HTTPHeader:      header,
		Subprotocols:    []string{api.TerminalProtocol, api.TerminalTicketPrefix + ticket},
		CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err != nil && res != nil && res.StatusCode != http.StatusSwitchingProtocols:
		return nil, problemOf(res)
	case err != nil && res != nil:
		return nil, broker.Errorf(broker.Internal, "answer_malformed",
			"cannot attach terminal %s: the broker's answer does not open a WebSocket (compare hostler version with hostler status)", id)
	case err != nil:
		return nil, c.unreached(ctx, err)
	}
	if conn.Subprotocol() != api.TerminalProtocol {
		_ = conn.CloseNow()
		return nil, broker.Errorf(broker.Internal, "answer_malformed",
			"cannot attach terminal %s: the broker does not speak %s (compare hostler version with hostler status)", id,
			api.TerminalProtocol)
	}
	conn.SetReadLimit(frame.Largest)
	a := &Attachment{conn: conn}
	a.ctx, a.end = context.WithCancel(context.Background())
	return a, nil
}

// errBroken ends a connection, whatever the cause.
var errBroken = errors.New("the connection to the broker broke")

// Next waits for a frame. An error with a code reports a message that is not a valid frame; an
// error without a code means that nothing more comes.
func (a *Attachment) Next() (frame.Frame, error) {
	kind, raw, err := a.read()
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return nil, taskcatalog.Errorf(frame.CodeInvalid, "not a frame: a message of more than %d bytes", frame.Largest)
	case err != nil:
		return nil, errBroken
	case kind != websocket.MessageBinary:
		return nil, taskcatalog.Errorf(frame.CodeInvalid, "not a frame: a message of text")
	}
	return frame.Parse(raw)
}

// read returns a message in a buffer of its own. Most messages are short; the others may be as long
// as a frame.
func (a *Attachment) read() (websocket.MessageType, []byte, error) {
	kind, from, err := a.conn.Reader(a.ctx)
	if err != nil {
		return 0, nil, err
	}
	raw := make([]byte, 0, 512)
	for {
		n, err := from.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		switch {
		case errors.Is(err, io.EOF):
			return kind, raw, nil
		case err != nil:
			return 0, nil, err
		case len(raw) == cap(raw):
			raw = slices.Grow(raw, frame.Largest)
		}
	}
}

// Send returns when the frame is on its way.
func (a *Attachment) Send(f frame.Frame) error {
	raw, err := frame.Append(nil, f)
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(a.ctx, sendWithin)
	defer done()
	return a.conn.Write(ctx, websocket.MessageBinary, raw)
}

// Close does not wait for a broker that has stopped listening.
func (a *Attachment) Close() error {
	a.end()
	return a.conn.CloseNow()
}
