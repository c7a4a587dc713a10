package relay_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// bench is a relay with many sessions of one node on loopback. Its store uses the system's clock.
type bench struct {
	testing.TB
	db    *store.DB
	ca    *pkitest.Authority
	relay *relay.Relay
	addr  string
	node  pkitest.Node
}

func newBench(b testing.TB, change ...func(*relay.Config)) *bench {
	x := &bench{TB: b, ca: pkitest.New(b), db: storetest.Open(b, "sqlite", nil)}
	x.node = x.ca.NewNode(b)
	must(x.db.CreateNode(ctx, admin, store.NewNode{ID: x.node.NodeID, Hostname: "alpha", Bootstrap: "command", TokenHash: "hash", TokenExpires: time.Now().Add(time.Hour)}))(b)
	must(x.db.Enroll(ctx, store.EnrollInput{
		TokenHash: "hash", PublicKeyDigest: "key", TrustVersion: 1, Remote: "192.0.2.1",
		Report: store.NodeReport{AgentVersion: "1.0", TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{"os": "linux"}, Digest: "d1"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			leaf := x.node.Cert.Leaf
			return store.IssuedCert{Serial: pki.Serial(leaf), PEM: "x", PublicKey: []byte("x"), NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}, nil
		},
	}))(b)
	tcp, udp, err := relay.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	x.addr = tcp.Addr().String()
	c := relay.Config{
		DB: x.db, Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &x.ca.Server, nil },
		Roots: func() *x509.CertPool { return x.ca.Roots() }, Denied: func(string) bool { return false }, Now: time.Now, Address: x.addr, PerSource: 1000,
	}
	for _, f := range change {
		f(&c)
	}
	x.relay = relay.New(c)
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- x.relay.Serve(serving, tcp, udp) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return x
}

// pair is a session with two sides that answer everything.
type pair struct {
	to   func(...frame.Frame) error // of the node
	from func() (frame.Frame, error)
	op   *piped
}

// piped is an operator without a network.
type piped struct {
	to, from chan frame.Frame
	gone     chan struct{}
	once     sync.Once
}

func (p *piped) Next() (frame.Frame, error) {
	select {
	case f := <-p.to:
		return f, nil
	case <-p.gone:
		return nil, io.EOF
	}
}

func (p *piped) Send(f frame.Frame) error {
	select {
	case p.from <- f:
		return nil
	case <-p.gone:
		return io.ErrClosedPipe
	}
}

func (p *piped) Close() error { p.once.Do(func() { close(p.gone) }); return nil }

func (x *bench) open(i int, over string) *pair {
	id := fmt.Sprintf("ts-%d", i)
	must(x.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: id, NodeID: x.node.NodeID, NodeEpoch: 1, Username: "tenant", Reason: "a look"}))(x)
	if err := x.relay.Open(ctx, id, recording.Header{Width: 80, Height: 24}); err != nil {
		x.Fatal(err)
	}
	token := must(x.relay.Mint(ctx, id, must(pki.PublicKeyDigest(x.node.Signer().Public()))(x)))(x)
	config := pki.ClientConfig(x.ca.Roots(), &x.node.Cert, time.Now)
	config.NextProtos, config.ServerName = []string{relay.ALPN}, "localhost"
	var stream io.ReadWriter
	if over == "tls" {
		stream = must(tls.Dial("tcp", x.addr, config))(x)
	} else {
		c := must(quic.DialAddr(ctx, x.addr, config, &quic.Config{MaxIncomingStreams: -1}))(x)
		x.Cleanup(func() { _ = c.CloseWithError(0, "") })
		stream = must(c.OpenStream())(x)
	}
	reader := frame.NewReader(stream)
	p := &pair{from: reader.Next, op: &piped{to: make(chan frame.Frame), from: make(chan frame.Frame), gone: make(chan struct{})}}
	p.to = func(frames ...frame.Frame) error {
		var raw []byte
		for _, f := range frames {
			var err error
			if raw, err = frame.Append(raw, f); err != nil {
				return err
			}
		}
		_, err := stream.Write(raw)
		return err
	}
	if err := p.to(frame.Hello{Version: frame.Version, SessionID: id, Token: token}, frame.Ack{Limit: 64 << 10}); err != nil {
		x.Fatal(err)
	}
	if err := x.relay.Attach(id, "olga", frame.Hello{}, p.op); err != nil {
		x.Fatal(err)
	}
	return p
}

// echoes answers as the node: each typed byte is written. Every chunk that the operator sees goes
// to seen. echoes returns when keys may be typed.
func (p *pair) echoes(seen chan<- []byte) {
	ready := make(chan struct{})
	open := sync.OnceFunc(func() { close(ready) })
	defer func() { <-ready }()
	go func() {
		var in frame.Inflow
		in.Allow(64 << 10)
		written := uint64(0)
		for {
			f, err := p.from()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case frame.Data:
				fresh, _ := in.Take(f)
				if len(fresh) > 0 && p.to(in.Allow(64<<10), frame.Data{Offset: written, Bytes: fresh}) == nil {
					written += uint64(len(fresh))
				}
			case frame.Ping:
				_ = p.to(frame.Pong(f))
			}
		}
	}()
	go func() {
		for {
			f, err := p.op.next()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case frame.Data:
				to := f.Offset + uint64(len(f.Bytes))
				if p.op.send(frame.Ack{Taken: to, Limit: to + 1<<20}) == nil && seen != nil {
					seen <- bytes.Clone(f.Bytes)
				}
			case frame.Welcome:
				_ = p.op.send(frame.Ack{Limit: 1 << 20})
				if f.Limit > 0 {
					open()
				}
			case frame.Ack:
				if f.Limit > 0 {
					open()
				}
			case frame.Ping:
				_ = p.op.send(frame.Pong(f))
			}
		}
	}()
}

func (p *piped) next() (frame.Frame, error) {
	select {
	case f := <-p.from:
		return f, nil
	case <-p.gone:
		return nil, io.EOF
	}
}

func (p *piped) send(f frame.Frame) error {
	select {
	case p.to <- f:
		return nil
	case <-p.gone:
		return io.ErrClosedPipe
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// Measures the memory of 200 sessions, with both their sides in this process, and the time of an
// echo while each session types ten keys a second. Each echo is kept before it is shown.
func BenchmarkManySessions(b *testing.B) {
	const many = 200
	for _, over := range both {
		b.Run(over, func(b *testing.B) {
			for range b.N {
				x := newBench(b)
				x.open(0, over).echoes(nil)
				before := inUse()
				pairs, seen := make([]*pair, many), make([]chan []byte, many)
				for i := range pairs {
					pairs[i], seen[i] = x.open(i+1, over), make(chan []byte)
					pairs[i].echoes(seen[i])
				}
				idle := inUse()
				var all sync.WaitGroup
				var mu sync.Mutex
				var took []time.Duration
				for i, p := range pairs {
					all.Go(func() {
						<-time.After(time.Duration(i) * 100 * time.Millisecond / many) // not all at once
						key := time.NewTicker(100 * time.Millisecond)
						defer key.Stop()
						for at := range uint64(50) {
							<-key.C
							began := time.Now()
							if p.op.send(frame.Data{Offset: at, Bytes: []byte("x")}) != nil {
								b.Error("a session has ended")
								return
							}
							<-seen[i]
							mu.Lock()
							took = append(took, time.Since(began))
							mu.Unlock()
						}
					})
				}
				all.Wait()
				slices.Sort(took)
				b.ReportMetric(float64(idle-before)/many/1024, "KiB/session(both-sides)")
				b.ReportMetric(float64(inUse()-before)/many/1024, "KiB/session(after-typing)")
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-echo-p50")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-echo-p99")
			}
		})
	}
}

// Measures the time of one key from the operator to the node and back. The echo is kept before it
// is shown.
func BenchmarkEcho(b *testing.B) {
	for _, over := range both {
		b.Run(over, func(b *testing.B) {
			p, seen := newBench(b).open(1, over), make(chan []byte)
			p.echoes(seen)
			for at := range uint64(b.N + 1) {
				if at == 1 {
					b.ResetTimer() // both sides are there
				}
				if err := p.op.send(frame.Data{Offset: at, Bytes: []byte("x")}); err != nil {
					b.Fatal(err)
				}
				<-seen
			}
		})
	}
}

// Measures how much of a program's output reaches the operator in a second.
func BenchmarkThroughput(b *testing.B) {
	for _, over := range both {
		b.Run(over, func(b *testing.B) {
			p := newBench(b).open(1, over)
			var mu sync.Mutex
			var out frame.Outflow
			more := sync.NewCond(&mu)
			go func() {
				for {
					f, err := p.from()
					if err != nil {
						return
					}
					mu.Lock()
					switch f := f.(type) {
					case frame.Welcome:
						_ = out.Acked(frame.Ack{Limit: f.Limit})
					case frame.Ack:
						_ = out.Acked(f)
					}
					mu.Unlock()
					more.Broadcast()
				}
			}()
			text := bytes.Repeat([]byte("0123456789abcdef"), frame.MaxData/16)
			b.SetBytes(frame.MaxData)
			total := uint64(b.N) * frame.MaxData
			b.ResetTimer()
			go func() {
				for sent := uint64(0); sent < total; {
					mu.Lock()
					for out.Room() == 0 {
						more.Wait()
					}
					f := out.Add(text)
					mu.Unlock()
					if p.to(f) != nil {
						return
					}
					sent += uint64(len(f.Bytes))
				}
			}()
			for taken := uint64(0); taken < total; {
				f, err := p.op.next()
				if err != nil {
					b.Fatal("the session has ended")
				}
				switch f := f.(type) {
				case frame.Welcome:
					_ = p.op.send(frame.Ack{Limit: 256 << 10})
				case frame.Data:
					taken = f.Offset + uint64(len(f.Bytes))
					_ = p.op.send(frame.Ack{Taken: taken, Limit: taken + 256<<10})
				}
			}
		})
	}
}
