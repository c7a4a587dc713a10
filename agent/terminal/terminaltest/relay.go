package terminaltest

import (
	"bytes"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/terminal"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// window is the total of output taken.
const window = 1 << 16

// Relay is a relay on loopback.
type Relay struct {
	Address string
	Calls   chan *Peer
}

// Peer is a node's connection.
type Peer struct {
	*tls.Conn
	Reader *frame.Reader
	Key    string        // digest of the shown key
	In     *frame.Inflow // the received output
	typed  uint64
}

// New begins a relay that ends with the test.
func New(t testing.TB, authority *pkitest.Authority) *Relay {
	t.Helper()
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &authority.Server, nil }
	config := pki.ServerConfig(get, authority.Roots(), func(cs tls.ConnectionState) error {
		_, err := pki.VerifyNodePeer(cs, authority.Roots(), time.Now(), func(string) bool { return false })
		return err
	})
	config.NextProtos = []string{terminal.ALPN}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Address: tcp.Addr().String(), Calls: make(chan *Peer, 4)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			raw, err := tcp.Accept()
			if err != nil {
				return
			}
			conn := tls.Server(raw, config)
			if conn.Handshake() != nil {
				conn.Close()
				continue
			}
			key, _ := pki.PublicKeyDigest(conn.ConnectionState().PeerCertificates[0].PublicKey)
			in := frame.NewInflow(0)
			in.Allow(window)
			r.Calls <- &Peer{Conn: conn, Reader: frame.NewReader(conn), Key: key, In: in}
		}
	})
	t.Cleanup(func() { tcp.Close(); all.Wait() })
	return r
}

// Welcome takes the next connection up to its Welcome.
func (r *Relay) Welcome(t testing.TB, w frame.Welcome) (*Peer, frame.Hello) {
	t.Helper()
	select {
	case p := <-r.Calls:
		t.Cleanup(func() { p.Close() })
		f, err := p.Reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		hello, is := f.(frame.Hello)
		if !is {
			t.Fatalf("a connection begins with %+v", f)
		}
		w.Version, w.Limit = frame.Version, window
		p.typed = hello.Taken
		p.Send(t, w)
		return p, hello
	case <-time.After(30 * time.Second):
		t.Fatal("nobody came to the relay")
		return nil, frame.Hello{}
	}
}

// Send sends a frame.
func (p *Peer) Send(t testing.TB, f frame.Frame) {
	t.Helper()
	raw, err := frame.Append(nil, f)
	if err == nil {
		_, err = p.Write(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Type sends input.
func (p *Peer) Type(t testing.TB, text string) {
	t.Helper()
	p.Send(t, frame.Data{Offset: p.typed, Bytes: []byte(text)})
	p.typed += uint64(len(text))
}

// Until reads output until text has come.
func (p *Peer) Until(t testing.TB, text string) string {
	t.Helper()
	var all []byte
	for !bytes.Contains(all, []byte(text)) {
		_ = p.SetReadDeadline(time.Now().Add(time.Minute))
		f, err := p.Reader.Next()
		if err != nil {
			t.Fatalf("%v comes before %q: %q", err, text, all)
		}
		switch f := f.(type) {
		case frame.Data:
			fresh, err := p.In.Take(f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fresh...)
		case frame.Ping:
			p.Send(t, frame.Pong(f))
		case frame.Bye:
			t.Fatalf("%+v comes before %q: %q", f, text, all)
		}
	}
	return string(all)
}

// Gone reads until the node's Bye, or until the end of the connection; then the Bye is empty.
func (p *Peer) Gone(t testing.TB) (last frame.Bye) {
	t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		f, err := p.Reader.Next()
		if err != nil {
			return last
		}
		if bye, is := f.(frame.Bye); is {
			return bye
		}
	}
}
