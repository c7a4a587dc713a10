package relay_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// crowd is a group of strangers who begin handshakes with a relay and do not finish them.
type crowd struct {
	testing.TB
	addr   string
	config *tls.Config
	within context.Context
	leave  func() // returns when all have left
	all    sync.WaitGroup
	sent   atomic.Int64 // bytes
}

func newCrowd(t testing.TB, addr string, roots *x509.CertPool, now func() time.Time) *crowd {
	config := pki.ClientConfig(roots, nil, now)
	config.NextProtos, config.ServerName = []string{relay.ALPN}, "localhost"
	within, done := context.WithCancel(ctx)
	c := &crowd{TB: t, addr: addr, config: config, within: within}
	c.leave = func() { done(); c.all.Wait() }
	t.Cleanup(c.leave)
	return c
}

// other is a loopback address that no node uses.
func other(n int) net.IP { return net.ParseIP(fmt.Sprintf("127.7.%d.%d", n/250, 1+n%250)) }

// begin starts a stranger's handshake from an address, and returns when the relay has counted it.
func (c *crowd) begin(over string, from net.IP) {
	c.Helper()
	begun := make(chan struct{})
	c.all.Go(func() { c.come(over, from, func() { close(begun) }) })
	select {
	case <-begun:
	case <-time.After(patience):
		c.Fatalf("a handshake from %v over %s does not begin", from, over)
	}
}

// come runs a handshake until the relay or the crowd ends it.
func (c *crowd) come(over string, from net.IP, begun func()) {
	slow := c.config.Clone()
	slow.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		begun()
		<-c.within.Done()
		return nil, errors.New("never")
	}
	if over == "tls" {
		raw, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext(c.within, "tcp", c.addr)
		if err != nil {
			return
		}
		_ = tls.Client(meteredConn{raw, &c.sent}, slow).HandshakeContext(c.within)
		_ = raw.Close()
		return
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: from})
	if err != nil {
		c.Error(err)
		return
	}
	transport := &quic.Transport{Conn: metered{socket, &c.sent}}
	_, _ = transport.Dial(c.within, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(c.addr)), slow, &quic.Config{HandshakeIdleTimeout: time.Minute})
	_ = transport.Close()
	_ = socket.Close()
}

// metered counts the bytes sent.
type metered struct {
	net.PacketConn
	sent *atomic.Int64
}

func (c metered) WriteTo(b []byte, to net.Addr) (int, error) {
	c.sent.Add(int64(len(b)))
	return c.PacketConn.WriteTo(b, to)
}

type meteredConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c meteredConn) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// An attacker who uses up the share of each of his few addresses shuts no node out: his connections
// replace one another.
func TestAFewAddressesShutNoNodeOut(t *testing.T) {
	for _, over := range both {
		t.Run(over, func(t *testing.T) {
			s := newSite(t, func(c *relay.Config) { c.PerSource, c.Unfinished, c.HelloWithin = 3, 12, time.Minute })
			c := newCrowd(t, s.addr, s.ca.Roots(), s.clock.Now)
			for n := range 12 {
				c.begin(over, other(n%4))
			}
			for _, mine := range both { // a witness unknown to the relay
				if _, is := s.tried(mine, s.enroll("witness-"+mine)).(frame.Bye); !is {
					t.Errorf("the witness is shut out over %s", mine)
				}
			}
			n, _ := s.join(over, s.token, frame.Hello{})
			n.write(0, "here")
		})
	}
}

// If an attacker has more addresses than the relay has room for connections, strangers wait, but
// nodes that the relay has heard do not.
func TestANodeThatIsKnownGetsInWhoeverFillsTheRelay(t *testing.T) {
	for _, over := range both {
		t.Run(over, func(t *testing.T) {
			s := newSite(t, func(c *relay.Config) { c.PerSource, c.Unfinished, c.HelloWithin = 3, 6, time.Minute })
			n, w := s.join(over, s.token, frame.Hello{})
			n.close()
			c := newCrowd(t, s.addr, s.ca.Roots(), s.clock.Now)
			for n := range 6 {
				c.begin(over, other(n))
			}
			for range 8 { // each time after the previous connection has joined
				n, w = s.join(over, w.Token, frame.Hello{})
				n.close()
			}
		})
	}
}

// tried returns the answer to a node that sends a Ping instead of a Hello; nil: no answer.
func (s *site) tried(over string, n pkitest.Node) frame.Frame {
	s.Helper()
	c := s.dial(over, n)
	defer c.close()
	c.send(frame.Ping{})
	f, _ := c.reader.Next()
	return f
}

// Thirty-two addresses keep as many handshakes open as they can, and begin a new handshake for each
// that the relay ends. Meanwhile a node that the relay has not heard connects again and again.
// sent-KiB counts the crowd's bytes; held-MiB is the memory of relay and crowd, which are one
// process.
func BenchmarkACrowdAtTheRelay(b *testing.B) {
	for _, over := range both {
		for _, crowded := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/crowd=%t", over, crowded), func(b *testing.B) {
				x := newBench(b, func(c *relay.Config) { c.PerSource = 0 })
				before := inUse()
				c := newCrowd(b, x.addr, x.ca.Roots(), time.Now)
				var begun atomic.Int64
				if crowded {
					for n := range 32 * 32 {
						c.all.Go(func() {
							for c.within.Err() == nil {
								c.come(over, other(n%32), func() { begun.Add(1) })
								select { // its pace
								case <-time.After(time.Second):
								case <-c.within.Done():
								}
							}
						})
					}
					for begun.Load() < 1024 {
						<-time.After(10 * time.Millisecond)
					}
				}
				var took []time.Duration
				failed := 0
				b.ResetTimer()
				for range b.N {
					at := time.Now()
					if x.knock(over) != nil {
						failed++
						continue
					}
					took = append(took, time.Since(at))
				}
				b.StopTimer()
				held := inUse()
				c.leave()
				slices.Sort(took)
				if len(took) > 0 {
					b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-node-p50")
					b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-node-p99")
				}
				b.ReportMetric(float64(failed), "shut-out")
				b.ReportMetric(float64(c.sent.Load())/1024, "sent-KiB")
				b.ReportMetric(float64(held-min(held, before))/(1<<20), "held-MiB(both-sides)")
			})
		}
	}
}

// knock connects the node, sends a Ping instead of a Hello, and waits for the refusal.
func (x *bench) knock(over string) error {
	within, done := context.WithTimeout(ctx, patience)
	defer done()
	config := pki.ClientConfig(x.ca.Roots(), &x.node.Cert, time.Now)
	config.NextProtos, config.ServerName = []string{relay.ALPN}, "localhost"
	var stream io.ReadWriter
	if over == "tls" {
		c, err := (&tls.Dialer{Config: config}).DialContext(within, "tcp", x.addr)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // it is over
		stream = c
	} else {
		c, err := quic.DialAddr(within, x.addr, config, &quic.Config{})
		if err != nil {
			return err
		}
		defer c.CloseWithError(0, "") //nolint:errcheck // it is over
		if stream, err = c.OpenStreamSync(within); err != nil {
			return err
		}
	}
	raw, _ := frame.Append(nil, frame.Ping{})
	if _, err := stream.Write(raw); err != nil {
		return err
	}
	_, err := frame.NewReader(stream).Next()
	return err
}
