package nodeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/pki"
)

// Defaults of Config.
const (
	DefaultCertLife   = 24 * time.Hour
	DefaultRenewGrace = 30 * 24 * time.Hour
	DefaultNodeRate   = rate.Limit(10)
)

// Minter answers with secrets for tasks. The task's type and the broker's records decide which
// secrets a task may have, never the node's request. Another credential type is refused with a
// *broker.Error.
type Minter interface {
	Mint(ctx context.Context, task broker.Task, ask broker.MintAsk) (broker.Minted, error)
}

// Config holds the dependencies of an API.
type Config struct {
	DB         *store.DB
	Queue      *taskqueue.Queue
	Trust      *trust.Authority
	Minter     Minter
	Now        func() time.Time
	CertLife   time.Duration // of node certificates; 0: DefaultCertLife
	RenewGrace time.Duration // how long an expired certificate may renew; 0: DefaultRenewGrace
	NodeRate   rate.Limit    // requests a second of one node, beyond a burst; 0: DefaultNodeRate
	Reread     time.Duration // how often the deny list is read without a hint of a change; 0: 2 s
	Log        *zap.Logger   // nil: none
	// Refused is called with each refused request, or connection ("connect"), and the broker's code
	// for the refusal; it may be nil.
	Refused func(route, code string)
	// Minted is called with the end of each request for a credential; it may be nil.
	Minted func(MintEnd)
	// Observe is called with the answers that no handler's return stands for: the answers to polls
	// that have waited. It may be nil.
	Observe func(route string, status int, took time.Duration)
}

// API serves the agent API.
type API struct {
	c         Config
	deny      denyList
	polls     polls
	idleConns *idleConns
	contacts  contacts
	refusals  refusals
	arrivals  arrivals

	// The limits on the rate of requests.
	enrollments, requests, renewals *limiter
}

// New makes an API. New reads the deny list: a broker without the deny list lets nobody in.
func New(ctx context.Context, c Config) (*API, error) {
	if c.CertLife == 0 {
		c.CertLife = DefaultCertLife
	}
	if c.Reread == 0 {
		c.Reread = denyListReread
	}
	if c.RenewGrace == 0 {
		c.RenewGrace = DefaultRenewGrace
	}
	if c.NodeRate == 0 {
		c.NodeRate = DefaultNodeRate
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Refused == nil {
		c.Refused = func(string, string) {}
	}
	if c.Minted == nil {
		c.Minted = func(MintEnd) {}
	}
	a := &API{
		c:         c,
		polls:     newPolls(),
		idleConns: newIdleConns(),
		contacts:  newContacts(),
		arrivals:  newArrivals(),

		enrollments: newLimiter(enrollRate, enrollBurst, maxAddresses),
		requests:    newLimiter(c.NodeRate, nodeBurst, maxNodes),
		renewals:    newLimiter(renewRate, renewBurst, maxNodes),
	}
	return a, a.readDenyList(ctx)
}

// Run keeps the deny list and writes contacts until ctx ends. Then Run ends the waiting polls and
// returns when they are answered. Call Run once.
func (a *API) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.keepContacts(ctx)
	}()
	a.followDenyList(ctx)
	a.polls.stop()
	a.idleConns.clear()
	<-done
	return nil
}

// Server returns an HTTP server for nodes. Serve it with ServeTLS and empty file names. The caller
// sets ErrorLog, which strangers can fill.
func (a *API) Server() *http.Server {
	plain := new(http.Protocols)
	plain.SetHTTP1(true)
	return &http.Server{
		Handler:           a.Handler(),
		TLSConfig:         a.TLSConfig(),
		Protocols:         plain,
		ConnContext:       withConnection,
		ReadHeaderTimeout: 10 * time.Second, // covers the TLS handshake too
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    8 << 10,
	}
}

// TLSConfig is the TLS configuration of the nodes' listener.
func (a *API) TLSConfig() *tls.Config {
	config := pki.ServerConfig(a.c.Trust.ServerCertificate, nil, func(cs tls.ConnectionState) error { return a.verifyConnection(cs, nil) })
	config.Time = a.c.Now
	config.NextProtos = []string{"http/1.1"}
	// A connection's state does not hold the remote address.
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		of := config.Clone()
		of.GetConfigForClient = nil
		of.VerifyConnection = func(cs tls.ConnectionState) error { return a.verifyConnection(cs, hello.Conn.RemoteAddr()) }
		return of, nil
	}
	return config
}

// connection is the memory of one connection between its requests, which HTTP/1.1 sends one after
// the other.
type connection struct {
	peer  *pki.Peer
	roots *x509.CertPool // the roots that peer was verified against
}

type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	of := new(connection)
	if back, ok := c.(*returned); ok && back.connection != nil {
		of = back.connection
	}
	return context.WithValue(ctx, connectionKey{}, of)
}
