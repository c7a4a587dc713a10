package server_test

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// stranger is a client without a token or a certificate, from a loopback address of its own.
type stranger struct {
	*tls.Conn
	raw    *meter
	stream uint32

	mu    sync.Mutex
	heard map[uint32]byte // the state of each stream
}

// The states of a stream, as the stranger sees it.
const (
	headCame = iota + 1 // of an answer
	allCame
	resetCame
)

// meter counts the bytes sent.
type meter struct {
	net.Conn
	sent *atomic.Int64
}

func (m *meter) Write(b []byte) (int, error) {
	m.sent.Add(int64(len(b)))
	return m.Conn.Write(b)
}

// from opens a connection, with a handshake.
func from(b *servertest.Broker, host, url string, sent *atomic.Int64) (*stranger, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}, Timeout: 10 * time.Second}
	raw, err := d.Dial("tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		return nil, err
	}
	config := pki.ClientConfig(b.Roots, nil, b.Now)
	config.ServerName, config.NextProtos = "127.0.0.1", []string{"h2"}
	if url == b.AgentURL() {
		config.NextProtos = nil
	}
	s := &stranger{raw: &meter{raw, sent}}
	s.Conn = tls.Client(s.raw, config)
	if err := s.Handshake(); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return s, nil
}

// unread begins HTTP/2 with an empty window: no byte of any answer can be sent.
func (s *stranger) unread() {
	s.heard = map[uint32]byte{}
	_, _ = io.WriteString(s, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00")
	go func() {
		for {
			var head [9]byte
			_, err := io.ReadFull(s, head[:])
			if err == nil {
				_, err = io.CopyN(io.Discard, s, int64(binary.BigEndian.Uint32(head[:4])>>8))
			}
			if err != nil {
				return
			}
			s.mu.Lock()
			switch id := binary.BigEndian.Uint32(head[5:]); {
			case head[3] == 1 && head[4]&1 != 0: // HEADERS that end the answer
				s.heard[id] = allCame
			case head[3] == 1:
				s.heard[id] = headCame
			case head[3] == 3: // RST_STREAM
				s.heard[id] = resetCame
			}
			s.mu.Unlock()
		}
	}()
}

// get asks for a path the given number of times at once.
func (s *stranger) get(path string, times int) { s.ask(path, "", times) }

// showing is a header that looks like a token, for get.
const showing = "\x0f\x08\x08Bearer x"

// ask asks for a path with an encoded header, the given number of times at once.
func (s *stranger) ask(path, header string, times int) {
	var all []byte
	for range times {
		s.stream += 2
		block := "\x82\x87\x04" + string(rune(len(path))) + path + "\x41\x01h" + header
		all = append(all, 0, 0, byte(len(block)), 1, 5)
		all = append(binary.BigEndian.AppendUint32(all, s.stream-1), block...)
	}
	_, _ = s.Write(all)
}

// seen counts the streams whose answer the broker holds, and all streams with any news.
func (s *stranger) seen() (held, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range s.heard {
		if what == headCame {
			held++
		}
	}
	return held, len(s.heard)
}

// A client that leaves answers unread holds a limited number, and keeps nobody else from being
// answered: neither clients from another address, nor a client with a token from the same address.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	b := servertest.Start(t)
	sent := new(atomic.Int64)
	for _, row := range []struct{ path, header string }{
		{"/metrics", ""},
		{"/openapi.json", ""},
		{"/docs", ""},
		{"/healthz", ""},
		{"/api/v1/admin/nodes", ""},
		{"/api/v1/admin/nodes", showing},
		{"/api/v1/admin/nodes?%zz", showing}, // refused before anybody looks at the token
		{"/api/v1/admin//nodes", showing},
	} {
		path := row.path
		var all []*stranger
		for range 5 {
			s, err := from(b, "127.0.0.1", b.OperatorURL(), sent)
			if err != nil {
				t.Fatal(err)
			}
			s.unread()
			s.ask(path, row.header, 80)
			all = append(all, s)
		}
		const most = 33 // one operator is known at this address
		servertest.Eventually(t, "all requests have a status, and the broker holds few answers", func() bool {
			held, ended := 0, 0
			for _, s := range all {
				now, heard := s.seen()
				held, ended = held+now, ended+heard
			}
			// An answer that gave up its place on one connection counts until its reset is read, and
			// the answer in its place may be read first, on another connection.
			if held > 2*most {
				t.Fatalf("%s: %d answers are held", path, held)
			}
			return ended >= 5*80 && held <= most
		})
		if a := b.Ask(t, b.Token, http.MethodGet, "/whoami", nil); a.Status != http.StatusOK {
			t.Errorf("%s: who has a token is answered %d", path, a.Status)
		}
		witness, err := from(b, "127.0.0.2", b.OperatorURL(), sent)
		if err != nil {
			t.Fatal(err)
		}
		_ = witness.Close()
		if a := askFrom(b, "127.0.0.2", "/metrics"); a != http.StatusOK {
			t.Errorf("%s: who comes from another address is answered %d", path, a)
		}
		for _, s := range all {
			_ = s.Close()
		}
		servertest.Eventually(t, "their places are free again", func() bool { return askFrom(b, "127.0.0.1", "/readyz") == http.StatusOK })
	}
}

// askFrom asks for a path without a token, over HTTP/1.1; 0: no answer.
func askFrom(b *servertest.Broker, host, path string) int {
	config := pki.ClientConfig(b.Roots, nil, b.Now)
	config.ServerName = "127.0.0.1"
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DialContext: d.DialContext, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	res, err := client.Get(b.OperatorURL() + path)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// open counts the strangers whose connection the broker has not closed.
func open(all []*stranger) (n int) {
	for _, s := range all {
		_ = s.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := io.Copy(io.Discard, s) // what the broker said before it closed
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			n++
		}
	}
	return n
}

// Only a limited number of idle connections stays, per address and in total; the next client finds
// a place.
func TestIdleConnectionsOfStrangersAreBounded(t *testing.T) {
	b := servertest.Start(t)
	for _, row := range []struct {
		url         string
		source, all int
	}{{b.OperatorURL(), 64, 512}, {b.AgentURL(), 256, 2048}} {
		sent := new(atomic.Int64)
		var held []*stranger
		for range row.source + 20 {
			if s, err := from(b, "127.0.3.1", row.url, sent); err == nil {
				held = append(held, s)
			}
		}
		if n := open(held); n > row.source {
			t.Errorf("%s: one address has %d connections", row.url, n)
		}
		if s, err := from(b, "127.0.3.2", row.url, sent); err != nil || open([]*stranger{s}) != 1 {
			t.Errorf("%s: another address has none (%v)", row.url, err)
		}
		for _, s := range held {
			_ = s.raw.Close()
		}
	}
}

// The node's own address may be full of strangers, as behind NAT: connected nodes stay, and a new
// node gets in.
func TestANodeBesideStrangersOfItsAddressIsNotShutOut(t *testing.T) {
	b := servertest.Start(t)
	node := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	sent := new(atomic.Int64)
	var held []*stranger
	for range 300 {
		if s, err := from(b, "127.0.0.1", b.AgentURL(), sent); err == nil {
			held = append(held, s)
		}
	}
	if len(held) < 256 {
		t.Fatalf("only %d strangers are there", len(held))
	}
	servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	if d, _ := node.Next(t); d.TaskID == "" {
		t.Error("the node that is there gets no task")
	}
	anew := &http.Client{Transport: &http.Transport{TLSClientConfig: node.TLS(), DisableKeepAlives: true}}
	servertest.Eventually(t, "it comes again", func() bool {
		poll, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.AgentURL()+"/internal/v1/nodes/"+node.NodeID+"/tasks/wait?lanes=", nil)
		if err != nil {
			t.Fatal(err)
		}
		poll.Header.Set(wire.HeaderPrefer, wire.PreferNoWait)
		res, err := anew.Do(poll)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode/100 == 2
	})
	for _, s := range held {
		_ = s.raw.Close()
	}
}

// Bad HTTP/2 fills the log no more than failed handshakes.
func TestBadHTTP2OfAKindIsOneLine(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	b := servertest.Start(t, func(c *server.Config) { c.Log = zap.New(core) })
	const begin = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for kind, sends := range map[string]string{
		"http2: server: error reading preface": "PRI * HTTP/2.0\r\n\r\nNO\r\n\r\n",
		"http2: received GOAWAY":               begin + "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x01",
		"http2: server connection error":       begin + "\x00\x00\x00\x00\x01\x00\x00\x00\x00", // data of no stream
	} {
		var all []*stranger
		for range 5 {
			s, err := from(b, "127.0.0.1", b.OperatorURL(), new(atomic.Int64))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(s, sends)
			all = append(all, s)
		}
		for _, s := range all {
			_, _ = io.Copy(io.Discard, s) // until the broker closes it, which has logged by then
			_ = s.Close()
		}
		if lines := logged.Filter(func(l observer.LoggedEntry) bool { return strings.HasPrefix(l.Message, kind) }).Len(); lines != 1 {
			t.Errorf("%s: 5 connections are %d lines", kind, lines)
		}
	}
}

// Requests of strangers create no series.
func TestStrangersMakeNoSeries(t *testing.T) {
	b := servertest.Start(t)
	series := func() int {
		a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil)
		if a.Status != http.StatusOK {
			t.Fatalf("%d", a.Status)
		}
		return strings.Count(string(a.Body), "\nhostler_")
	}
	ask := func(n int) {
		for _, url := range []string{b.OperatorURL(), b.AgentURL()} {
			for _, path := range []string{"/%d", "/api/v1/admin/%d", "/api/v1/admin/nodes/%d", "/internal/v1/nodes/%d/renew", "/internal/v1/packages/sha256/%064d", "/metrics/%d", "/metrics?name[]=%d"} {
				for _, method := range []string{http.MethodGet, http.MethodPost, fmt.Sprintf("M%d", n)} {
					b.Ask(t, fmt.Sprint("t", n), method, url+fmt.Sprintf(path, n), nil)
				}
			}
		}
	}
	for n := range 6 { // until they are refused for their number too
		ask(n)
	}
	before := series()
	for n := range 5 {
		ask(6 + n)
	}
	if after := series(); after != before {
		t.Errorf("there are %d series, and %d before", after, before)
	}
}

// BenchmarkStrangersWhoReadNothing measures the cost of strangers that read nothing: 25 connections
// of one address that ask a hundred times each and read no answer, and 6,000 idle connections from
// 24 addresses. Beside it stands the time of an operator with a token, from another address.
// held-MiB covers the broker and the strangers, which are one process.
func BenchmarkStrangersWhoReadNothing(b *testing.B) {
	type crowd struct {
		name string
		come func(b *servertest.Broker, sent *atomic.Int64) (all []*stranger)
	}
	for _, c := range []crowd{
		{"none", func(*servertest.Broker, *atomic.Int64) []*stranger { return nil }},
		{"unread", func(at *servertest.Broker, sent *atomic.Int64) (all []*stranger) {
			for range 25 {
				if s, err := from(at, "127.0.0.9", at.OperatorURL(), sent); err == nil {
					s.unread()
					s.get("/metrics", 100)
					all = append(all, s)
				}
			}
			return all
		}},
		{"idle", func(at *servertest.Broker, sent *atomic.Int64) (all []*stranger) {
			for n := range 6000 {
				if s, err := from(at, fmt.Sprintf("127.0.0.%d", 10+n%24), at.OperatorURL(), sent); err == nil {
					all = append(all, &stranger{raw: s.raw}) // its side of TLS is not measured
				}
			}
			return all
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			at := servertest.Start(b)
			sent := new(atomic.Int64)
			before := inUse()
			all := c.come(at, sent)
			var took []time.Duration
			turn := time.NewTicker(25 * time.Millisecond) // a token may ask 50 times a second
			defer turn.Stop()
			b.ResetTimer()
			for range b.N {
				<-turn.C
				begun := time.Now()
				if a := at.Ask(b, at.Token, http.MethodGet, "/whoami", nil); a.Status != http.StatusOK {
					b.Errorf("the operator is answered %d", a.Status)
				}
				took = append(took, time.Since(begun))
			}
			b.StopTimer()
			held := inUse()
			slices.Sort(took)
			b.ReportMetric(0, "ns/op") // the ticker's
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-operator-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-operator-p99")
			b.ReportMetric(float64(sent.Load())/1024, "sent-KiB")
			b.ReportMetric(float64(held-min(held, before))/(1<<20), "held-MiB(both-sides)")
			for _, s := range all {
				_ = s.raw.Close()
			}
		})
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
