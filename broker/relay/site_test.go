package relay_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

var (
	ctx   = context.Background()
	admin = broker.Actor{Name: "ada", Role: broker.RolePlatformAdmin}
)

// patience is the time that a test waits for an expected event.
const patience = 20 * time.Second

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// shelf is a keeper with failures set by a test.
type shelf struct {
	recording.Keeper
	mu   sync.Mutex
	fail error
	vain int           // number of failed tries
	held int           // number of writes that wait, or waited, for hold
	hold chan struct{} // nothing is kept until it is closed
}

func (s *shelf) Keep(ctx context.Context, b recording.Block) error {
	s.mu.Lock()
	fail, hold := s.fail, s.hold
	if hold != nil {
		s.held++
	}
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fail != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.vain++
		return fail
	}
	return s.Keeper.Keep(ctx, b)
}

func (s *shelf) set(fail error, hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.hold = fail, hold
}

// holds reports whether a write waits to be kept, or has waited.
func (s *shelf) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held > 0
}

func (s *shelf) failed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vain
}

// site is a relay with a node and a session, on loopback.
type site struct {
	*testing.T
	db     *store.DB
	url    string // of db
	clock  *storetest.Clock
	ca     *pkitest.Authority
	relay  *relay.Relay
	shelf  *shelf
	addr   string
	node   pkitest.Node
	token  string // for ts-1
	mu     sync.Mutex
	denied string
	closed func()
	// listener lets a test wrap the relay's listener.
	listener func(net.Listener) net.Listener
}

func newSite(t *testing.T, change ...func(*relay.Config)) *site {
	t.Helper()
	return newSiteWith(t, broker.TerminalLimits{Max: time.Hour, Idle: 20 * time.Minute, Detach: time.Minute}, change...)
}

func newSiteWith(t *testing.T, limits broker.TerminalLimits, change ...func(*relay.Config)) *site {
	t.Helper()
	clock := storetest.NewClock()
	s := &site{T: t, clock: clock, ca: pkitest.NewAt(t, clock.Now()), url: storetest.URL(t, "sqlite")}
	s.db = storetest.Reopen(t, s.url, clock.Now)
	s.node = s.enroll("alpha")
	s.begin(change...)
	must(s.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: "ts-1", NodeID: s.node.NodeID, NodeEpoch: 1, Username: "tenant", Reason: "a look", Limits: limits, RecordInput: true}))(t)
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	s.token = s.mint("ts-1", s.node)
	return s
}

// begin starts a relay, as another replica would be.
func (s *site) begin(change ...func(*relay.Config)) {
	s.Helper()
	tcp, udp, err := relay.Listen("127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	s.addr = tcp.Addr().String()
	if s.listener != nil {
		tcp = s.listener(tcp)
	}
	s.shelf = &shelf{Keeper: s.db.RecordingKeeper(s.addr)}
	c := relay.Config{
		DB: s.db, Keeper: s.shelf, Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.ca.Server, nil },
		Roots: func() *x509.CertPool { return s.ca.Roots() }, Now: s.clock.Now, Address: s.addr, Tick: 5 * time.Millisecond,
		Denied: func(serial string) bool { s.mu.Lock(); defer s.mu.Unlock(); return serial == s.denied },
	}
	for _, f := range change {
		f(&c)
	}
	r := relay.New(c)
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(serving, tcp, udp) }()
	s.relay = r
	s.closed = sync.OnceFunc(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				s.Errorf("the relay ended: %v", err)
			}
		case <-time.After(patience):
			s.Errorf("the relay does not end:\n%s", stacks())
		}
	})
	s.Cleanup(s.closed)
}

func (s *site) enroll(hostname string) pkitest.Node {
	s.Helper()
	n := s.ca.NewNode(s)
	must(s.db.CreateNode(ctx, admin, store.NewNode{ID: n.NodeID, Hostname: hostname, Bootstrap: "command", TokenHash: "hash-" + hostname, TokenExpires: s.clock.Now().Add(time.Hour)}))(s)
	must(s.db.Enroll(ctx, store.EnrollInput{
		TokenHash: "hash-" + hostname, PublicKeyDigest: "key-" + hostname, TrustVersion: 1, Remote: "192.0.2.1",
		Report: store.NodeReport{AgentVersion: "1.0", TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{"os": "linux"}, Digest: "d1"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: pki.Serial(n.Cert.Leaf), PEM: hostname, PublicKey: []byte(hostname), NotBefore: n.Cert.Leaf.NotBefore, NotAfter: n.Cert.Leaf.NotAfter}, nil
		},
	}))(s)
	return n
}

func (s *site) mint(id string, n pkitest.Node) string {
	s.Helper()
	return must(s.relay.Mint(ctx, id, must(pki.PublicKeyDigest(n.Signer().Public()))(s)))(s)
}

func (s *site) clientTLS(n pkitest.Node) *tls.Config {
	c := pki.ClientConfig(s.ca.Roots(), &n.Cert, s.clock.Now)
	c.NextProtos, c.ServerName = []string{relay.ALPN}, "localhost"
	return c
}

// eventually polls, with a deadline.
func (s *site) eventually(what string, is func() bool) {
	s.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); !is(); <-look.C {
		if time.Now().After(deadline) {
			s.Fatalf("%s: it never came to be\n%s", what, stacks())
		}
	}
}

// ends waits until the session is closed, with a code and a complete recording.
func (s *site) ends(code string) broker.TerminalSession {
	s.Helper()
	var row broker.TerminalSession
	s.eventually("the session is closed", func() bool {
		row = must(s.db.TerminalSession(ctx, "ts-1"))(s)
		return row.Status == broker.TerminalClosed
	})
	if row.EndCode != code {
		s.Errorf("it ended with %s, want %s", row.EndCode, code)
	}
	if r := s.verify(); !r.Complete {
		s.Errorf("its recording: %+v", r)
	}
	s.leavesNothing()
	return row
}

func (s *site) verify() recording.Report {
	s.Helper()
	r, _, err := s.db.VerifyRecording(ctx, "ts-1")
	return must(r, err)(s)
}

// lines returns the lines of the recording, without the first.
func (s *site) lines() [][]byte {
	s.Helper()
	var file []byte
	for b, err := range s.db.Blocks(ctx, "ts-1") {
		if err != nil {
			s.Fatal(err)
		}
		file = append(file, b.Lines...)
	}
	return bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))[1:]
}

// recorded returns the text of the recording's events of a kind.
func (s *site) recorded(k recording.EventKind) string {
	s.Helper()
	var out strings.Builder
	for _, line := range s.lines() {
		if e := must(recording.ParseEvent(line))(s); e.Kind == k {
			out.WriteString(e.Text)
		}
	}
	return out.String()
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// leavesNothing waits until no goroutine of a session is left.
func (s *site) leavesNothing() {
	s.Helper()
	s.eventually("its goroutines are gone", func() bool {
		all := stacks()
		return !strings.Contains(all, "relay.(*session)") && !strings.Contains(all, "relay.(*link)")
	})
}

var errAway = errors.New("the store is away")

func (s *site) deny(n pkitest.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied = ""; n.Cert.Leaf != nil {
		s.denied = pki.Serial(n.Cert.Leaf)
	}
}
