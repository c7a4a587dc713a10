package terminal

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

// ALPN is the protocol name that both ends of a connection to a relay must negotiate.
const ALPN = "hostler-terminal/1"

// The delay before TCP is tried beside QUIC, and the limit of both.
const (
	tcpAfter    = time.Second
	dialTimeout = 15 * time.Second
)

// Dial dials a relay: by QUIC, and also by TLS on TCP if QUIC does not answer soon. The first
// connection established is used. config holds certificate and roots; it is not changed.
func Dial(ctx context.Context, address string, config *tls.Config) (Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("cannot dial the relay: %w", err)
	}
	config = config.Clone()
	config.NextProtos, config.MinVersion = []string{ALPN}, tls.VersionTLS13
	config.ClientSessionCache = nil // no resumption, so no early data
	if config.ServerName == "" {
		config.ServerName = host
	}
	return race(ctx, tcpAfter,
		func(ctx context.Context) (Conn, error) { return dialQUIC(ctx, address, config) },
		func(ctx context.Context) (Conn, error) { return dialTCP(ctx, address, config) })
}

// race starts second after a delay, or as soon as first has failed. It returns the first connection
// established and closes the other.
func race(ctx context.Context, after time.Duration, first, second func(context.Context) (Conn, error)) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	type result struct {
		conn Conn
		err  error
	}
	results, failed := make(chan result), make(chan struct{})
	go func() {
		conn, err := first(ctx)
		if err != nil {
			close(failed)
		}
		results <- result{conn, err}
	}()
	go func() {
		select {
		case <-time.After(after):
		case <-failed:
		case <-ctx.Done():
		}
		conn, err := second(ctx)
		results <- result{conn, err}
	}()
	var won result
	var errs error
	for range 2 {
		r := <-results
		switch {
		case r.err != nil:
			errs = errors.Join(errs, r.err)
		case won.conn == nil:
			won = r
			cancel()
		default:
			r.conn.Close()
		}
	}
	if won.conn == nil {
		return nil, errs
	}
	return won.conn, nil
}

// dialQUIC dials from a socket not bound to an address of the node: after an address change the
// next packet leaves from the new address, and the relay follows.
func dialQUIC(ctx context.Context, address string, config *tls.Config) (Conn, error) {
	// For an unresolvable name the library would leak its socket.
	to, err := resolve(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("cannot dial the relay: %w", err)
	}
	conn, err := quic.DialAddr(ctx, to, config, &quic.Config{
		HandshakeIdleTimeout: dialTimeout,
		KeepAlivePeriod:      pingAfter,
		MaxIdleTimeout:       deadAfter,
		EnableDatagrams:      true,
		// The relay opens no stream, and sends no more than allowed.
		MaxIncomingStreams: -1, MaxIncomingUniStreams: -1,
		InitialStreamReceiveWindow: 2 * inputWindow, MaxStreamReceiveWindow: 2 * inputWindow,
		InitialConnectionReceiveWindow: 2 * inputWindow, MaxConnectionReceiveWindow: 2 * inputWindow,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot dial the relay over QUIC: %w", err)
	}
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the stream to the relay: %w", err), conn.CloseWithError(0, ""))
	}
	return &quicConn{Stream: stream, conn: conn}, nil
}

func resolve(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(found[0], port), nil
}

// quicConn is a Conn with Datagrams.
type quicConn struct {
	*quic.Stream
	conn *quic.Conn
}

func (c *quicConn) CloseWrite() error { return c.Stream.Close() }
func (c *quicConn) Close() error      { return c.conn.CloseWithError(0, "") }

func (c *quicConn) SendDatagram(raw []byte) error { return c.conn.SendDatagram(raw) }
func (c *quicConn) RTT() time.Duration            { return c.conn.ConnectionStats().SmoothedRTT }

func (c *quicConn) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	return c.conn.ReceiveDatagram(ctx)
}

func dialTCP(ctx context.Context, address string, config *tls.Config) (Conn, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingAfter, Count: int(deadAfter / pingAfter)},
		Control:         boundSilence,
	}, Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot dial the relay over TCP: %w", err)
	}
	c := conn.(*tls.Conn)
	if c.ConnectionState().NegotiatedProtocol != ALPN {
		return nil, errors.Join(errors.New("cannot dial the relay over TCP: the answer did not come from a relay"), c.Close())
	}
	return c, nil
}

// boundSilence limits how long the kernel resends unacknowledged data; its default is a quarter of
// an hour.
func boundSilence(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter/time.Millisecond))
	})
	return errors.Join(err, failed)
}
