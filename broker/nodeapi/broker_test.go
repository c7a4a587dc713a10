package nodeapi

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

var admin = broker.Actor{Name: "alice", Role: broker.RolePlatformAdmin}

// testBroker is the agent API of a broker, served on loopback by real TLS.
type testBroker struct {
	*API
	t     testing.TB
	db    *store.DB
	queue *taskqueue.Queue
	trust *trust.Authority
	clock *storetest.Clock
	addr  string
	stop  func() // ends Run
}

func newBroker(t testing.TB) *testBroker {
	clock := storetest.NewClock()
	return newBrokerOn(t, storetest.Open(t, "sqlite", clock.Now), clock)
}

func newBrokerOn(t testing.TB, db *store.DB, clock *storetest.Clock) *testBroker {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	must0(t, trust.Make(dir, trust.MakeOptions{Now: clock.Now()}))
	authority := must(trust.Open(t.Context(), trust.Options{Dir: dir, DB: db, Now: clock.Now}))(t)
	queue := taskqueue.New(taskqueue.Config{DB: db, Signer: authority, Rand: rand.Reader})
	api := must(New(t.Context(), Config{DB: db, Queue: queue, Trust: authority, Minter: vault{}, Now: clock.Now}))(t)

	server := api.Server()
	server.ErrorLog = log.New(io.Discard, "", 0)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.ServeTLS(listener, "", "") }()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = queue.Run(ctx); done <- struct{}{} }()
	go func() { _ = api.Run(ctx); done <- struct{}{} }()
	t.Cleanup(func() {
		stop()
		<-done
		<-done
		_ = server.Close()
	})
	return &testBroker{API: api, t: t, db: db, queue: queue, trust: authority, clock: clock, addr: listener.Addr().String(), stop: stop}
}

// advance moves the clock and reads the deny list again, as the broker does every two seconds.
func (b *testBroker) advance(d time.Duration) {
	b.t.Helper()
	b.clock.Advance(d)
	must0(b.t, b.readDenyList(context.Background()))
}

// vault answers any task with a secret, except for the secret of a machine.
type vault struct{}

func (vault) Mint(_ context.Context, _ broker.Task, ask broker.MintAsk) (broker.Minted, error) {
	if ask.Type != "oci_pull" {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, "credential_not_for_task", "cannot mint %s for this task", ask.Type)
	}
	return broker.Minted{Secret: "s3cret-of-the-task", Opens: "a door"}, nil
}

// testNode is a machine that talks to a broker.
type testNode struct {
	b      *testBroker
	id     string
	key    crypto.Signer
	cert   *tls.Certificate // the certificate in use; nil: none
	epoch  int64
	bundle *pki.TrustBundle
	client *http.Client
	header http.Header
}

// create makes a node record and returns its id and enrol token.
func (b *testBroker) create(n store.NewNode) (id, token string) {
	b.t.Helper()
	secret := must(pki.NewEnrollToken(rand.Reader))(b.t)
	n.ID, n.Bootstrap, n.TokenHash = pki.NewNodeID(rand.Reader), "command", pki.HashToken(secret.Reveal())
	if n.Hostname == "" {
		n.Hostname = n.ID
	}
	n.TokenExpires = b.clock.Now().Add(time.Hour)
	must(b.db.CreateNode(context.Background(), admin, n))(b.t)
	return n.ID, secret.Reveal()
}

// machine is a machine with a key and no certificate.
func (b *testBroker) machine() *testNode {
	b.t.Helper()
	return b.machineWith(must(pki.GenerateKey(pki.Ed25519))(b.t))
}

func (b *testBroker) machineWith(key crypto.Signer) *testNode {
	n := &testNode{b: b, key: key, header: http.Header{}}
	n.connect(nil)
	return n
}

// connect gives the node a fresh connection with cert. A node with a bundle verifies the broker by
// the bundle, another node by the fingerprint of the root.
func (n *testNode) connect(cert *tls.Certificate) {
	n.cert = cert
	config := pki.PinnedConfig(n.b.trust.RootSHA256(), "127.0.0.1", n.b.clock.Now)
	if n.bundle != nil {
		config = pki.ClientConfig(n.bundle.Roots(n.b.clock.Now()), nil, n.b.clock.Now)
	}
	if cert != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	n.client = &http.Client{Transport: transport}
	n.b.t.Cleanup(transport.CloseIdleConnections)
}

func (n *testNode) csr() string { return string(must(pki.NewCSR(n.key))(n.b.t)) }

// member makes a node that has enrolled and been heard.
func (b *testBroker) member() *testNode {
	b.t.Helper()
	_, token := b.create(store.NewNode{})
	n := b.machine()
	n.enroll(token)
	return n
}

// enroll trades a token for a certificate and uses the certificate from now on.
func (n *testNode) enroll(token string) {
	n.b.t.Helper()
	var reply wire.EnrollReply
	n.post("/internal/v1/nodes/enroll", n.enrollRequest(token)).into(&reply)
	n.take(reply)
}

func (n *testNode) take(reply wire.EnrollReply) {
	n.b.t.Helper()
	n.id, n.epoch = reply.NodeID, reply.NodeEpoch
	n.bundle = must(pki.FirstBundle([]byte(reply.TrustBundle), n.b.clock.Now()))(n.b.t)
	n.adopt(reply.Certificate)
}

// adopt uses a new certificate from now on.
func (n *testNode) adopt(chain string) {
	n.b.t.Helper()
	certs := must(pki.ParseCerts([]byte(chain)))(n.b.t)
	cert := &tls.Certificate{PrivateKey: n.key, Leaf: certs[0]}
	for _, c := range certs {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	n.connect(cert)
}

func (n *testNode) enrollRequest(token string) wire.EnrollRequest {
	return wire.EnrollRequest{
		Token: token, CSR: n.csr(), AgentVersion: "1.0.0", TaskTypes: taskcatalog.IDs(),
		Capabilities: map[string]string{}, Hostname: "machine", Now: n.b.clock.Now(),
	}
}

func (n *testNode) renewRequest() wire.RenewRequest {
	return wire.RenewRequest{CSR: n.csr(), AgentVersion: "1.0.0", TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{}, TrustVersion: n.bundle.Version}
}

func (n *testNode) path(rest string) string { return "/internal/v1/nodes/" + n.id + rest }

// answer is the broker's answer to a node.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
	closed bool  // the broker ends the connection
	err    error // no answer at all
}

func (n *testNode) post(path string, body any) *answer {
	n.b.t.Helper()
	raw, ok := body.([]byte)
	if !ok {
		raw = must(taskcatalog.Encode(body))(n.b.t)
	}
	return n.do(context.Background(), http.MethodPost, path, bytes.NewReader(raw))
}

func (n *testNode) get(path string) *answer {
	n.b.t.Helper()
	return n.do(context.Background(), http.MethodGet, path, nil)
}

func (n *testNode) do(ctx context.Context, method, path string, body io.Reader) *answer {
	n.b.t.Helper()
	req := must(http.NewRequestWithContext(ctx, method, "https://"+n.b.addr+path, body))(n.b.t)
	for k, v := range n.header {
		req.Header[k] = v
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return &answer{t: n.b.t, err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return &answer{t: n.b.t, status: resp.StatusCode, header: resp.Header, body: raw, closed: resp.Close, err: err}
}

// into expects a success and decodes it.
func (a *answer) into(v any) {
	a.t.Helper()
	if a.err != nil || a.status != http.StatusOK {
		a.t.Fatalf("status %d, %s (%v)", a.status, a.body, a.err)
	}
	if err := taskcatalog.DecodeStrict(a.body, v); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
}

// nothing expects a success without a body.
func (a *answer) nothing() {
	a.t.Helper()
	if a.err != nil || a.status != http.StatusNoContent {
		a.t.Fatalf("status %d, %s (%v), want 204", a.status, a.body, a.err)
	}
}

// refused expects a problem with this code, and its row in the audit log.
func (a *answer) refused(b *testBroker, status int, code string) {
	a.t.Helper()
	var p wire.Problem
	if a.err != nil {
		a.t.Fatalf("no answer: %v", a.err)
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		a.t.Fatalf("no problem: %s", a.body)
	}
	if string(p.Code) != code || p.Status != status || a.status != status {
		a.t.Fatalf("status %d, code %s (%s), want %d %s", a.status, p.Code, p.Detail, status, code)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		a.t.Errorf("content type %s", got)
	}
	b.audited(code)
}

// shutOut expects a connection that the broker ends in the handshake, audited with this code. In
// TLS 1.3 the client notices with its first read.
func (a *answer) shutOut(b *testBroker, code string) {
	a.t.Helper()
	var alert tls.AlertError
	var op *net.OpError
	if a.err == nil || !errors.As(a.err, &alert) && !errors.As(a.err, &op) {
		a.t.Fatalf("status %d, %s (%v), want a TLS alert", a.status, a.body, a.err)
	}
	b.audited(code)
}

// audited expects a refusal with this code in the audit log.
func (b *testBroker) audited(code string) broker.AuditEntry {
	b.t.Helper()
	rows := must(b.db.ListAudit(context.Background(), store.AuditFilter{Code: code, Newest: true, Limit: 1}))(b.t)
	if len(rows) == 0 {
		b.t.Fatalf("no row in the audit log has the code %s", code)
	}
	return rows[0].AuditEntry
}

// eventually polls a condition, for tests of concurrent work.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 10 seconds: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must0(t, err)
		return v
	}
}

func must0(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
