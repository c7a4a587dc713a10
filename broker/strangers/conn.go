package strangers

import (
	"context"
	"net"
	"net/http"
	"time"
)

// askWithin is how long a connection may stay without a request, its handshake included.
const askWithin = 10 * time.Second

// conn is a connection in a room.
type conn struct {
	net.Conn
	guest *Guest
	late  *time.Timer // closes the connection if no request comes
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.late.Stop()
	c.guest.Leave()
	return c.Conn.Close()
}

type listener struct {
	net.Listener
	room *Room
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		guest, ok := l.room.Enter(raw.RemoteAddr(), func() { _ = raw.Close() })
		if !ok {
			_ = raw.Close()
			continue
		}
		c := &conn{Conn: raw, guest: guest}
		c.late = time.AfterFunc(askWithin, func() { _ = raw.Close() })
		return c, nil
	}
}

type connKey struct{}

// Admit makes a server take its connections through the room, and returns the listener that the
// server must serve.
func (r *Room) Admit(server *http.Server, l net.Listener) net.Listener {
	handler, context1 := server.Handler, server.ConnContext
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if c := connOf(req.Context()); c != nil {
			c.late.Stop()
		}
		handler.ServeHTTP(w, req)
	})
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if context1 != nil {
			ctx = context1(ctx, c)
		}
		if mine := below(c); mine != nil {
			ctx = context.WithValue(ctx, connKey{}, mine)
		}
		return ctx
	}
	server.ConnState = func(c net.Conn, is http.ConnState) {
		if mine := below(c); mine != nil && (is == http.StateActive || is == http.StateIdle) {
			mine.guest.Busy(is == http.StateActive)
		}
	}
	return listener{l, r}
}

// below finds the room's connection below TLS; nil: none.
func below(c net.Conn) *conn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	mine, _ := c.(*conn)
	return mine
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// Vouch says that the sender of the request of ctx has proved its name. From then on neither the
// connection nor the request counts as a stranger's.
func Vouch(ctx context.Context, name string) {
	if c := connOf(ctx); c != nil {
		c.guest.Vouch(name)
	}
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		v.end()
	}
}
