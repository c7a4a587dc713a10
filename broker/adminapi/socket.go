package adminapi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

const (
	// pingEvery and pongWithin detect a lost operator's side within ten seconds, whether or not
	// anything is sent to it.
	pingEvery  = 3 * time.Second
	pongWithin = 6 * time.Second
	// takeFrame is how long the operator's side may take to accept a frame.
	takeFrame = 10 * time.Second
)

// socket is an operator's side of a session on a WebSocket. Each binary message is a frame. socket
// implements relay.Side.
type socket struct {
	conn  *websocket.Conn
	ctx   context.Context
	end   context.CancelFunc
	heard atomic.Int64 // nanoseconds of the machine's clock

	pingEvery, pongWithin time.Duration
}

// newSocket watches a connection until ctx ends or the connection is closed.
func newSocket(ctx context.Context, conn *websocket.Conn, pingEvery, pongWithin time.Duration) *socket {
	conn.SetReadLimit(frame.Largest)
	s := &socket{conn: conn, pingEvery: pingEvery, pongWithin: pongWithin}
	s.ctx, s.end = context.WithCancel(ctx)
	s.hear()
	go s.watch()
	return s
}

func (s *socket) hear() { s.heard.Store(time.Now().UnixNano()) }

// watch sends pings, and closes the connection when nothing has arrived for too long. Any message
// is a sign of life, because a Pong may queue behind data still being sent.
func (s *socket) watch() {
	defer s.conn.CloseNow() //nolint:errcheck // it is over
	tick := time.NewTicker(s.pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, done := context.WithTimeout(s.ctx, s.pongWithin)
		err := s.conn.Ping(ctx)
		done()
		if err != nil && time.Since(time.Unix(0, s.heard.Load())) >= s.pongWithin {
			s.end()
		}
	}
}

// errText is the error for a text message, which is not a frame.
var errText = taskcatalog.Errorf(frame.CodeInvalid, "not a frame: a message of text")

// Next implements relay.Side.
func (s *socket) Next() (frame.Frame, error) {
	kind, raw, err := s.conn.Read(s.ctx) // in a buffer of their own
	switch {
	case err != nil && errors.Is(err, websocket.ErrMessageTooBig):
		return nil, taskcatalog.Errorf(frame.CodeInvalid, "not a frame: a message of more than %d bytes", frame.Largest)
	case err != nil:
		s.end()
		return nil, errConnectionClosed
	}
	s.hear()
	if kind != websocket.MessageBinary {
		return nil, errText
	}
	return frame.Parse(raw)
}

// messages are buffers for frames being sent, shared by all operators.
var messages = sync.Pool{New: func() any { return new([]byte) }}

// errConnectionClosed says that nothing more comes. The error has no code for the cause.
var errConnectionClosed = errors.New("the operator's connection is closed")

// Send implements relay.Side.
func (s *socket) Send(f frame.Frame) error {
	raw := messages.Get().(*[]byte)
	defer messages.Put(raw)
	var err error
	if *raw, err = frame.Append((*raw)[:0], f); err != nil {
		return err
	}
	ctx, done := context.WithTimeout(s.ctx, takeFrame)
	defer done()
	return s.conn.Write(ctx, websocket.MessageBinary, *raw)
}

// Close implements relay.Side. Close does not wait for an operator that has stopped listening.
func (s *socket) Close() error {
	s.end()
	return nil
}

// refuse sends the reason and closes the connection.
func (s *socket) refuse(code taskcatalog.Code, text string) {
	_ = s.Send(frame.Bye{Code: code, Text: text})
	_ = s.Close()
}

// wait returns when the connection has ended.
func (s *socket) wait() { <-s.ctx.Done() }
