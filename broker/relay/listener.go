package relay

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

const (
	// ALPN is the protocol's name in the handshake.
	ALPN = "hostler-terminal/1"
	// acceptPause is the pause after a failed accept.
	acceptPause = 100 * time.Millisecond

	// deadAfter is the QUIC idle timeout of a silent node.
	deadAfter = 10 * time.Second

	codeSuperseded                  = "terminal_token_superseded" // also a code of the store
	codeUnknown    taskcatalog.Code = "terminal_token_unknown"
	codeStreams    taskcatalog.Code = "streams_too_many"
	codeHello      taskcatalog.Code = "hello_missing"
)

// Listen opens an address for both protocols; port 0 is any port that is free for both.
func Listen(addr string) (net.Listener, net.PacketConn, error) {
	for try := 0; ; try++ {
		tcp, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		if err == nil {
			return tcp, udp, nil
		}
		_ = tcp.Close()
		if _, port, _ := net.SplitHostPort(addr); port != "0" || try == 10 {
			return nil, nil, err
		}
	}
}

// Serve admits nodes until ctx ends, over QUIC and, where UDP is blocked, over TLS. Serve then
// stops the relay (Stop), closes both listeners, and returns when no connection waits to join a
// session.
func (r *Relay) Serve(ctx context.Context, tcp net.Listener, udp net.PacketConn) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	config := pki.ServerConfig(r.c.Certificate, nil, func(cs tls.ConnectionState) error { _, err := r.peer(ctx, cs); return err })
	config.Time, config.NextProtos, config.SessionTicketsDisabled = r.c.Now, []string{ALPN}, true
	transport := &quic.Transport{
		Conn:                udp,
		StatelessResetKey:   r.resetKey(),
		VerifySourceAddress: retryFirst,
		ConnContext:         r.begin,
	}
	listener, err := transport.ListenEarly(config, &quic.Config{
		HandshakeIdleTimeout: r.c.HelloWithin / 2, // doubled by QUIC for the whole handshake
		MaxIdleTimeout:       deadAfter, KeepAlivePeriod: deadAfter / 3,
		EnableDatagrams:    true,
		MaxIncomingStreams: 2, MaxIncomingUniStreams: -1, // the second stream gives a flood away
		InitialStreamReceiveWindow: 128 << 10, MaxStreamReceiveWindow: outputMost,
		InitialConnectionReceiveWindow: 256 << 10, MaxConnectionReceiveWindow: 2 * outputMost,
	})
	if err != nil {
		return errors.Join(err, tcp.Close(), udp.Close())
	}
	var group sync.WaitGroup
	failed := make(chan error, 2)
	group.Go(func() {
		for {
			conn, err := listener.Accept(ctx)
			if err != nil {
				failed <- err
				return
			}
			group.Go(func() { r.serveQUIC(ctx, conn, &group) })
		}
	})
	group.Go(func() {
		for {
			conn, err := tcp.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				failed <- err
				return
			case err != nil: // such as no free descriptor: present connections stay
				r.c.Log.Warn("the relay cannot accept connections now", zap.Error(err))
				select {
				case <-time.After(acceptPause):
				case <-ctx.Done():
				}
				continue
			}
			group.Go(func() { r.serveTLS(ctx, conn, config) })
		}
	})
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
		if ctx.Err() != nil { // the listener stopped because it was told to
			err = nil
		}
	}
	stop()
	_ = tcp.Close()
	r.Stop() // while the connections can still be told
	_ = listener.Close()
	group.Wait()
	_ = transport.Close()
	_ = udp.Close()
	return err
}

const codeTooMany = "connections_too_many"

var tooMany = taskcatalog.Errorf(codeTooMany, "too many connections from this address")

// peer returns the node of a connection. The node's certificate must be issued by this CA, in force
// and not denied. A certificate from before a restore counts as expired: a later denial may be
// lost.
func (r *Relay) peer(ctx context.Context, cs tls.ConnectionState) (*pki.Peer, error) {
	now := r.c.Now()
	peer, err := pki.VerifyNodePeer(cs, r.c.Roots(), now, r.c.Denied)
	if err == nil && peer.Expired {
		err = taskcatalog.Errorf(pki.CodeCertificateExpired, "cannot accept connection: the certificate of node %s expired (renew it)",
			peer.NodeID)
	}
	if err == nil && r.c.BeforeRestore != nil {
		asking, done := context.WithTimeout(ctx, r.c.HelloWithin)
		defer done()
		var before bool
		if before, err = r.c.BeforeRestore(asking, peer.Serial); before && err == nil {
			err = taskcatalog.Errorf(pki.CodeCertificateExpired,
				"cannot accept connection: the certificate of node %s was issued before the broker's database was restored from a backup (renew it)", peer.NodeID)
		}
	}
	if err != nil {
		r.c.Log.Debug("a connection is refused", zap.Error(err))
	}
	return peer, err
}

func (r *Relay) resetKey() *quic.StatelessResetKey {
	secret := r.c.ResetKey
	if len(secret) == 0 {
		secret = []byte(rand.Text())
	}
	key := quic.StatelessResetKey(sha256.Sum256(append([]byte("hostler.relay.stateless-reset.v1\x00"), secret...)))
	return &key
}

func (r *Relay) serveQUIC(ctx context.Context, conn *quic.Conn, group *sync.WaitGroup) {
	b := conn.Context().Value(beginnerKey{}).(*pendingConn)
	defer b.guest.Leave()
	if !b.made(conn) {
		_ = conn.CloseWithError(1, codeTooMany)
		return
	}
	select { // QUIC times out
	case <-conn.HandshakeComplete(): // only then is the node's certificate verified
	case <-conn.Context().Done():
		return
	case <-ctx.Done():
		_ = conn.CloseWithError(1, string(codeHello))
		return
	}
	waiting, done := context.WithTimeout(ctx, r.c.HelloWithin)
	defer done()
	s, err := conn.AcceptStream(waiting)
	if err != nil {
		_ = conn.CloseWithError(1, string(codeHello))
		return
	}
	w := overQUIC(conn, s, b.guest)
	group.Go(func() { // ends with the connection
		if _, err := conn.AcceptStream(context.Background()); err != nil {
			return
		}
		w.fail(conn, taskcatalog.Errorf(codeStreams, "a connection may have one stream, and a second was opened"))
	})
	r.hello(waiting, conn.ConnectionState().TLS, w)
}

func (r *Relay) serveTLS(ctx context.Context, raw net.Conn, config *tls.Config) {
	guest, ok := r.sources.begin.Enter(raw.RemoteAddr(), func() { _ = raw.Close() })
	if !ok {
		_ = raw.Close()
		return
	}
	defer guest.Leave()
	conn := tls.Server(raw, config)
	w := overTLS(conn, guest)
	w.closed = raw.Close // without waiting for a peer that does not read
	waiting, done := context.WithTimeout(ctx, r.c.HelloWithin)
	defer done()
	if err := conn.HandshakeContext(waiting); err != nil || conn.ConnectionState().NegotiatedProtocol != ALPN {
		_ = w.Close()
		return
	}
	r.hello(waiting, conn.ConnectionState(), w)
}

// hello reads the first frame of a connection, and lets the connection join its session or refuses
// it.
func (r *Relay) hello(ctx context.Context, cs tls.ConnectionState, w *wire) {
	peer, err := r.peer(ctx, cs)
	if err == nil {
		w.guest.Recognise(peer.NodeID)
		err = r.greet(ctx, peer, w)
	}
	if err == nil {
		return // the session owns the connection
	}
	if peer != nil {
		r.c.Log.Warn("a node is refused", zap.String("node", peer.NodeID), zap.Error(err))
	}
	if w.Send(refusal(err)) == nil {
		_ = w.SetReadDeadline(time.Now().Add(byeTime))
		drain(w)
	}
	_ = w.Close()
}

// refusal returns the Bye to a refused side. Lasts is set if the fault was not the side's, if the
// side was only slow, or if it has a certificate to renew: a node that may not return ends its
// terminal.
func refusal(err error) frame.Bye {
	if code := taskcatalog.CodeOf(err, ""); code != "" {
		return frame.Bye{
			Code: code, Text: taskcatalog.Clean(err.Error(), maxText),
			Lasts: code == codeHello || code == pki.CodeCertificateExpired,
		}
	}
	e := broker.AsError(err)
	if e.Code == codeSuperseded { // to a session's process of the previous release, only terminal_token_unknown says nothing about its token
		return frame.Bye{Code: codeUnknown, Text: taskcatalog.Clean(e.Message, maxText), Lasts: true}
	}
	return frame.Bye{
		Code: taskcatalog.Code(e.Code), Text: taskcatalog.Clean(e.Message, maxText),
		Lasts: e.Kind == broker.Internal || e.Kind == broker.Unavailable,
	}
}

func (r *Relay) greet(ctx context.Context, peer *pki.Peer, w *wire) error {
	if err := w.SetReadDeadline(time.Now().Add(r.c.HelloWithin)); err != nil {
		return err
	}
	f, err := w.Next()
	if err != nil {
		if taskcatalog.CodeOf(err, "") == "" {
			err = taskcatalog.Errorf(codeHello, "no Hello arrived in time")
		}
		return err
	}
	h, ok := f.(frame.Hello)
	if !ok {
		return unexpected(f)
	}
	if err := w.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return r.admit(ctx, peer, h, w)
}
