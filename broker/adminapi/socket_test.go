package adminapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// sockets is a connection, with the broker's end of it in the form for the relay.
func sockets(t *testing.T, pingEvery, pongWithin time.Duration, change ...func(*websocket.DialOptions)) (s *socket, peer *websocket.Conn) {
	t.Helper()
	made := make(chan *socket, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		s := newSocket(r.Context(), conn, pingEvery, pongWithin)
		made <- s
		s.wait()
	}))
	t.Cleanup(server.Close)
	o := &websocket.DialOptions{}
	for _, f := range change {
		f(o)
	}
	peer, _, err := websocket.Dial(t.Context(), server.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.CloseNow() })
	return <-made, peer
}

// soonGone waits until a socket has ended.
func soonGone(t *testing.T, s *socket) {
	t.Helper()
	select {
	case <-s.ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}

// A side that vanishes without notice answers no ping, like a client that does not read.
func TestAnOperatorWhoIsGoneIsKnownToBe(t *testing.T) {
	s, _ := sockets(t, 10*time.Millisecond, 50*time.Millisecond)
	failed := make(chan error, 1)
	go func() {
		_, err := s.Next()
		failed <- err
	}()
	soonGone(t, s)
	if err := <-failed; err == nil || taskcatalog.CodeOf(err, "") != "" {
		t.Errorf("%v", err)
	}
	if s.Send(frame.Ping{}) == nil {
		t.Error("a frame is on its way to nobody")
	}
}

// Anything that arrives is a sign of life: a Pong may queue behind other data.
func TestAnOperatorWhoSendsIsThereWithoutAPong(t *testing.T) {
	pings := make(chan struct{}, 100)
	s, peer := sockets(t, 10*time.Millisecond, time.Second, func(o *websocket.DialOptions) {
		o.OnPingReceived = func(context.Context, []byte) bool { pings <- struct{}{}; return false }
	})
	go func() { _, _, _ = peer.Read(context.Background()) }() // otherwise the peer sees no ping
	go func() {
		for {
			if _, err := s.Next(); err != nil {
				return
			}
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for seen := 0; seen < 3; { // two timed out
		select {
		case <-pings:
			seen++
		case <-tick.C:
			if err := peer.Write(t.Context(), websocket.MessageBinary, mustFrame(frame.Ping{})); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.ctx.Err() != nil {
		t.Error("it was ended")
	}
	soonGone(t, s) // nothing comes any more
}

func TestASocketIsHeldToItsFrames(t *testing.T) {
	for name, c := range map[string]struct {
		kind websocket.MessageType
		sent []byte
	}{
		"text":              {websocket.MessageText, []byte("hello")},
		"half a frame":      {websocket.MessageBinary, []byte{4, 0, 0}},
		"more than a frame": {websocket.MessageBinary, append(mustFrame(frame.Ping{}), 0)},
		"far too much":      {websocket.MessageBinary, make([]byte, frame.Largest+1)},
	} {
		s, peer := sockets(t, time.Hour, time.Hour)
		if err := peer.Write(t.Context(), c.kind, c.sent); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(); taskcatalog.CodeOf(err, "") != frame.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
		_ = s.Close()
	}
	// The largest frame is accepted, and its bytes are not shared with the next frame.
	s, peer := sockets(t, time.Hour, time.Hour)
	for _, text := range []string{"a", "b"} {
		if err := peer.Write(t.Context(), websocket.MessageBinary, mustFrame(frame.Data{Bytes: []byte(strings.Repeat(text, frame.MaxData))})); err != nil {
			t.Fatal(err)
		}
	}
	first, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != nil || strings.Trim(string(first.(frame.Data).Bytes), "a") != "" {
		t.Errorf("%v", err)
	}
}

func mustFrame(f frame.Frame) []byte {
	raw, err := frame.Append(nil, f)
	if err != nil {
		panic(err)
	}
	return raw
}

// Close unblocks a reader that waits for a frame, and a writer that cannot send one.
func TestASocketThatIsClosedHoldsNobody(t *testing.T) {
	s, _ := sockets(t, time.Hour, time.Hour)
	read, wrote := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		for {
			if _, err := s.Next(); err != nil && taskcatalog.CodeOf(err, "") == "" {
				return
			}
		}
	}()
	full := make(chan struct{}, 1)
	go func() {
		defer close(wrote)
		for { // until nothing more fits between the two
			sent := make(chan error, 1)
			go func() { sent <- s.Send(frame.Data{Bytes: make([]byte, frame.MaxData)}) }()
			select {
			case err := <-sent:
				if err != nil {
					return
				}
			case <-time.After(100 * time.Millisecond):
				full <- struct{}{}
				<-sent
				return
			}
		}
	}()
	<-full
	_ = s.Close()
	for _, gone := range []chan struct{}{read, wrote} {
		select {
		case <-gone:
		case <-time.After(20 * time.Second):
			t.Fatal("somebody is held")
		}
	}
}
