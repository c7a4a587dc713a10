package fleet

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	mathrand "math/rand/v2"
	"net"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const (
	version     = "1.0.0-fleet"
	dialTimeout = 15 * time.Second
)

var bothLanes = []taskcatalog.Lane{taskcatalog.LaneExclusive, taskcatalog.LaneConcurrent}

// node is a node of a fleet.
type node struct {
	fleet *Fleet
	index int
	token string
	of    Machine
	key   crypto.Signer
	id    pki.NodeIdentity
	inbox inbox.Inbox
	pause *uplink.Pause
	open  open

	mu      sync.Mutex
	trust   *pki.TrustBundle
	cert    *tls.Certificate
	client  *uplink.Client
	ledger  map[string]*entry // by task
	crash   context.CancelFunc
	renewAt time.Time
	// instance identifies the running agent.
	instance string
}

func newNode(f *Fleet, index int, token string) *node {
	n := &node{
		fleet: f, index: index, token: token, pause: uplink.NewPause(), open: open{conns: map[net.Conn]struct{}{}},
		ledger: map[string]*entry{},
	}
	n.inbox = inbox.Inbox{
		Now:  time.Now,
		Self: func() pki.NodeIdentity { return n.id },
		Trust: func() *pki.TrustBundle {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.trust
		},
		Known:        func(taskID, _ string) (bool, error) { return n.entry(taskID) != nil, nil },
		Handles:      func(t taskcatalog.Type) bool { return handlers[t.Name] != nil },
		Allow:        inbox.AllowAll,
		Capabilities: func() map[string]string { return map[string]string{} },
		Allocations:  func() ([]string, error) { return nil, nil },
	}
	return n
}

// live enrols the node and serves until ctx ends.
func (n *node) live(ctx context.Context) {
	if !n.join(ctx) {
		return
	}
	if every := n.fleet.Script.Cut; every > 0 {
		go n.churn(ctx, every, n.cut)
	}
	if every := n.fleet.Script.Renew; every > 0 {
		go n.churn(ctx, every, func() { n.renewBy(time.Now()) })
	}
	for ctx.Err() == nil {
		if err := n.start(ctx); err != nil && !n.failed(ctx, err) {
			return
		}
	}
}

// join enrols the node when its turn comes.
func (n *node) join(ctx context.Context) bool {
	select {
	case n.fleet.boots <- struct{}{}:
		defer func() { <-n.fleet.boots }()
	case <-ctx.Done():
		return false
	}
	for {
		err := n.enrol(ctx)
		if err == nil {
			n.fleet.counts.enrolled.Add(1)
			return true
		}
		if !n.failed(ctx, err) {
			return false
		}
	}
}

// churn calls f repeatedly, at random times with the given mean interval.
func (n *node) churn(ctx context.Context, mean time.Duration, f func()) {
	for sleep(ctx, time.Duration(mathrand.ExpFloat64()*float64(mean))) {
		f()
	}
}

// start runs the node's agent once: it returns when the agent crashes.
func (n *node) start(ctx context.Context) error {
	// Any request may open the connection that the others then use, a result as well as a poll.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{TLSHandshakeDone: n.shookHands})
	ctx, crash := context.WithCancel(ctx)
	defer crash()
	instance, err := wire.NewInstance(rand.Reader)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.crash, n.instance = crash, instance
	n.connect()
	n.mu.Unlock()
	n.recover(ctx)
	for ctx.Err() == nil {
		if err := n.turn(ctx); err != nil {
			if !n.failed(ctx, err) {
				return nil
			}
			continue
		}
		n.pause.Reset()
	}
	n.cut()
	return nil
}

// failed waits after a failure as long as the agent does, and reports whether the node should
// continue.
func (n *node) failed(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	n.fleet.wrong(err)
	return sleep(ctx, n.pause.After(err))
}

// turn does the node's next step.
func (n *node) turn(ctx context.Context) error {
	n.mu.Lock()
	due := !time.Now().Before(n.renewAt)
	n.mu.Unlock()
	if due {
		if err := n.renew(ctx); err != nil {
			return err
		}
	}
	reply, err := n.poll(ctx)
	if err != nil {
		return err
	}
	n.fleet.counts.polls.Add(1)
	if reply.Report {
		n.renewBy(time.Now())
	}
	for _, d := range reply.Tasks {
		n.deliver(ctx, d)
	}
	return nil
}

// poll waits for tasks once.
func (n *node) poll(ctx context.Context) (*wire.WaitReply, error) {
	sent := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			if w.Err == nil && !sent {
				sent = true
				n.fleet.counts.waiting.Add(1)
			}
		},
	})
	reply, err := n.uplink().Wait(ctx, bothLanes, false)
	if sent {
		n.fleet.counts.waiting.Add(-1)
	}
	return reply, err
}

func (n *node) shookHands(state tls.ConnectionState, err error) {
	if err != nil {
		return
	}
	n.fleet.counts.handshakes.Add(1)
	if state.DidResume {
		n.fleet.counts.resumed.Add(1)
	}
}

// enrol gets the node its first certificate, as the agent does.
func (n *node) enrol(ctx context.Context) error {
	var err error
	if n.key == nil { // a retry after a lost answer uses the same key
		if n.key, err = pki.GenerateKey(pki.Ed25519); err != nil {
			return err
		}
	}
	csr, err := pki.NewCSR(n.key)
	if err != nil {
		return err
	}
	client, err := uplink.New(uplink.Options{
		Broker: n.fleet.Broker, CASHA256: n.fleet.CASHA256, Version: version, Now: time.Now,
		Dial: n.dial,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	reply, err := client.Enroll(ctx, wire.EnrollRequest{
		Token: n.token, CSR: string(csr), AgentVersion: version, TaskTypes: taskTypes, Capabilities: map[string]string{},
		Now:      time.Now().UTC(),
		Hostname: n.of.Hostname, MAASSystemID: n.of.SystemID, Facts: n.of.Facts,
	})
	if err != nil {
		return err
	}
	trust, err := pki.FirstBundle([]byte(reply.TrustBundle), time.Now())
	if err != nil {
		return err
	}
	n.id, n.trust = pki.NodeIdentity{NodeID: reply.NodeID, Epoch: reply.NodeEpoch}, trust
	return n.adopt(reply.Certificate)
}

// adopt makes a certificate the node's current certificate and plans its renewal: at two thirds of
// its life, jittered, as the agent does.
func (n *node) adopt(chain string) error {
	certs, err := pki.ParseCerts([]byte(chain))
	if err != nil {
		return err
	}
	cert := &tls.Certificate{PrivateKey: n.key, Leaf: certs[0]}
	for _, c := range certs {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	life := cert.Leaf.NotAfter.Sub(cert.Leaf.NotBefore)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cert = cert
	n.renewAt = cert.Leaf.NotBefore.Add(life*2/3 + mathrand.N(life/20+1))
	return nil
}

func (n *node) renewBy(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.renewAt = at
}

func (n *node) renew(ctx context.Context) error {
	csr, err := pki.NewCSR(n.key)
	if err != nil {
		return err
	}
	reply, err := n.uplink().Renew(ctx, wire.RenewRequest{
		CSR: string(csr), AgentVersion: version, TaskTypes: taskTypes, Capabilities: map[string]string{},
		TrustVersion: n.inbox.Trust().Version,
	})
	if err != nil {
		return err
	}
	if err := n.adopt(reply.Certificate); err != nil {
		return err
	}
	n.fleet.counts.renewals.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.connect()
	return nil
}

// connect makes the client of the certificate in force. The lock is held.
func (n *node) connect() {
	if n.client != nil {
		n.client.Close()
	}
	// New cannot fail: its inputs are our own, and it opens no connection.
	n.client, _ = uplink.New(uplink.Options{
		Broker: n.fleet.Broker, CASHA256: n.fleet.CASHA256, Cert: n.cert, Trust: n.trust, NodeID: n.id.NodeID, Version: version,
		Report: func() string { return report }, Instance: n.instance, Now: time.Now, Dial: n.dial,
	})
}

func (n *node) uplink() *uplink.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.client
}

// sleep waits for d, and reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
