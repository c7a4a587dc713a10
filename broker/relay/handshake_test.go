package relay_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// deaf is a socket that receives nothing, like that of a sender with a forged address.
type deaf struct {
	net.PacketConn
	sent atomic.Int32
}

func (d *deaf) ReadFrom([]byte) (int, net.Addr, error) {
	buf := make([]byte, 2048)
	for {
		if n, from, err := d.PacketConn.ReadFrom(buf); err != nil {
			return n, from, err
		}
	}
}

func (d *deaf) WriteTo(b []byte, to net.Addr) (int, error) {
	d.sent.Add(1)
	return d.PacketConn.WriteTo(b, to)
}

func udp(t testing.TB) net.PacketConn {
	t.Helper()
	c := must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A sender with a forged address uses up nothing of the address owner's share.
func TestAnAddressThatIsNotShownIsNotCharged(t *testing.T) {
	s := newSite(t, func(c *relay.Config) { c.PerSource, c.Unfinished = 1, 1 })
	within, done := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer done()
	to := must(net.ResolveUDPAddr("udp", s.addr))(t)
	for range 3 {
		d := &deaf{PacketConn: udp(t)}
		all.Go(func() {
			tr := &quic.Transport{Conn: d}
			_, _ = tr.Dial(within, to, s.clientTLS(s.node), &quic.Config{})
			_ = tr.Close()
		})
		s.eventually("it has tried", func() bool { return d.sent.Load() > 0 })
	}
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.write(0, "here")
}

// Unfinished handshakes are bounded in total, and end in time.
func TestHandshakesThatDoNotEndAreBounded(t *testing.T) {
	for _, over := range both {
		t.Run(over, func(t *testing.T) {
			s := newSite(t, func(c *relay.Config) { c.Unfinished = 4 })
			hold, begun := make(chan struct{}), make(chan struct{}, 4)
			slow := s.clientTLS(s.node)
			slow.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				begun <- struct{}{}
				<-hold
				return nil, errors.New("never")
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if over == "tls" {
						_, _ = tls.Dial("tcp", s.addr, slow)
						return
					}
					_, _ = quic.DialAddr(ctx, s.addr, slow, &quic.Config{})
				})
				<-begun
			}
			if err := s.tryBoth(s.clientTLS(s.node)); err == nil {
				t.Error("one more is let in")
			}
			close(hold)
			all.Wait()
			s.eventually("there is room again", func() bool { return s.tryBoth(s.clientTLS(s.node)) == nil })
			s.join(over, s.token, frame.Hello{})
		})
	}
}

// Joined connections take no room from connections that begin.
func TestWhoHasJoinedIsNoBeginner(t *testing.T) {
	s := newSite(t, func(c *relay.Config) { c.Unfinished = 1 })
	_, w := s.join("quic", s.token, frame.Hello{})
	_, w = s.join("tls", w.Token, frame.Hello{})
	s.join("quic", w.Token, frame.Hello{})
}

// street carries packets between one client and the relay at its other end, which can be exchanged.
type street struct {
	net.PacketConn
	to atomic.Pointer[net.UDPAddr]
}

func newStreet(t testing.TB, to string) *street {
	t.Helper()
	s := &street{PacketConn: udp(t)}
	s.leads(t, to)
	var client atomic.Pointer[net.UDPAddr]
	outer := udp(t)
	carry := func(from net.PacketConn, on func(b []byte, addr *net.UDPAddr)) {
		buf := make([]byte, 2048)
		for {
			n, addr, err := from.ReadFrom(buf)
			if err != nil {
				return
			}
			on(buf[:n], addr.(*net.UDPAddr))
		}
	}
	go carry(s.PacketConn, func(b []byte, addr *net.UDPAddr) {
		client.Store(addr)
		_, _ = outer.WriteTo(b, s.to.Load())
	})
	go carry(outer, func(b []byte, from *net.UDPAddr) {
		if from.String() == s.to.Load().String() {
			_, _ = s.PacketConn.WriteTo(b, client.Load())
		}
	})
	return s
}

func (s *street) leads(t testing.TB, to string) {
	s.to.Store(must(net.ResolveUDPAddr("udp", to))(t))
}

// The nodes of a relay that died silently learn of its death from the relay that replaces it,
// without waiting for a timeout.
func TestARelayThatBeganAnewResetsConnections(t *testing.T) {
	key := func(c *relay.Config) { c.ResetKey = []byte("the same for as long as a broker is") }
	s := newSite(t, key)
	way := newStreet(t, s.addr)
	direct := s.addr
	s.addr = way.LocalAddr().String()
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.write(0, "here")
	s.addr = direct
	s.begin(key) // to the node this relay is in the first relay's place
	way.leads(t, s.addr)
	began := time.Now()
	n.send(frame.Data{Offset: 4, Bytes: make([]byte, 500)})
	<-n.quic.Context().Done()
	if reset := (*quic.StatelessResetError)(nil); !errors.As(context.Cause(n.quic.Context()), &reset) {
		t.Errorf("it ended with %v", context.Cause(n.quic.Context()))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
