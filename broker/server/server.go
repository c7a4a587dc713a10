package server

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/nodeapi"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/opa"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/registry"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/tenancy"
	"github.com/hostler/hostler/broker/terminals"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/broker/turnover"
)

// Server is a broker with its ports taken and its store open.
type Server struct {
	c    Config
	at   addresses
	stop []func() error // in the order of opening

	clients    *clientKeeper
	db         *store.DB
	trust      *trust.Authority
	queue      *taskqueue.Queue
	events     *outbox.Feed
	webhooks   *webhook.Sender
	operators  *operators.Directory
	people     *operators.People // nil: nobody signs in by OIDC
	secrets    secrets.Keeper
	registries *registry.Client
	sites      *maas.Sites
	onboarding *onboarding.Chains
	runs       *chain.Engine
	agents     *agentrecords.Nodes
	operations *operationrecords.Records
	traces     *operationTraces
	engine     *opa.Engine // nil: none
	nodes      *nodeapi.API
	admin      *adminapi.API
	relay      *relay.Relay
	terminals  *terminals.Service
	metrics    *metrics
	rooms      rooms
	writes     *writable
	tracing    *sdktrace.TracerProvider

	operatorPort, agentPort net.Listener
	relayTCP                net.Listener
	relayUDP                net.PacketConn
	relayKey                []byte
	auditHeads              string // directory
	draining                atomic.Bool
	noise                   [2]*noiseLog // of the operators' listener and the agents'
}

// New opens a broker. If New fails, nothing is left open and nothing half made.
func New(ctx context.Context, c Config) (_ *Server, err error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	s := &Server{c: c, rooms: newRooms()}
	if c.OIDC != nil {
		if s.people, err = operators.NewPeople(*c.OIDC, c.Now); err != nil {
			return nil, err
		}
	}
	for i, name := range []string{"operators", "nodeapi"} {
		s.noise[i] = newNoise(c.Log.Named(name), c.Now)
	}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	// The Vault and the ports come first: a start that fails there has made nothing.
	if err := s.openVault(); err != nil {
		return nil, err
	}
	if err := s.takePorts(); err != nil {
		return nil, err
	}
	if s.at, err = c.addressesOf(s.operatorPort.Addr(), s.agentPort.Addr(), s.relayTCP.Addr()); err != nil {
		return nil, err
	}
	return s, s.open(ctx)
}

// open opens the content of the data directory and joins the parts.
func (s *Server) open(ctx context.Context) error {
	c := s.c
	dir, err := OpenDataDir(c.DataDir)
	if err != nil {
		return err
	}
	s.onClose(dir.Close)
	if err := dir.ensureKeys(c); err != nil {
		return err
	}
	if s.db, err = store.Open(ctx, store.Options{
		URL: StoreURL(dir.path, c.Database), Now: s.storeClock(), Machine: c.Machine,
		Log: c.Log.Named("store"), Serves: true, Judge: turnover.Lacks,
	}); err != nil {
		return err
	}
	s.onClose(s.db.Close)
	if err := s.logHold(ctx); err != nil {
		return err
	}
	s.clients = &clientKeeper{dir: dir, url: s.at.operators, roots: func() []byte { return s.trust.RootsPEM() }, log: c.Log}
	if s.trust, err = trust.Open(ctx, trust.Options{
		Dir: dir.join("keys"), DB: s.db, Now: c.Now, Advertise: s.at.names, Changed: s.clients.keep, Log: c.Log.Named("trust"),
	}); err != nil {
		return err
	}
	if err := s.openSecrets(dir); err != nil {
		return err
	}
	s.operators = operators.New(s.db, c.Now, rand.Reader)
	s.operators.Admit(s.people)
	newSecret := func() (operators.Secret, error) { return operators.NewSecret(rand.Reader) }
	if err := dir.ensureAdminToken(ctx, s.db, s.operators, newSecret); err != nil {
		return err
	}
	if err := s.clients.write(); err != nil {
		return err
	}
	if s.relayKey, err = dir.relayKey(); err != nil {
		return err
	}
	if s.auditHeads, err = dir.ensureDir("audit-heads"); err != nil {
		return err
	}
	s.shipDefinitions(ctx)
	return s.join(ctx)
}

// storeClock is the clock of leases; nil: the database's own.
func (s *Server) storeClock() func() time.Time {
	if s.c.StoreNow == nil && s.c.Database == "" {
		return s.c.Now
	}
	return s.c.StoreNow
}

func (s *Server) join(ctx context.Context) error {
	c := s.c
	var sent bool
	var err error
	if s.tracing, sent, err = newTracing(ctx, c.Version); err != nil {
		return err
	}
	tracer := s.tracing.Tracer("github.com/hostler/hostler/broker")
	s.traces = &operationTraces{db: s.db, tracer: tracer, sent: sent}
	ends := s.expiry()
	s.writes = &writable{probe: s.db.ProbeWrite, often: c.Often, log: c.Log.Named("store")}
	s.metrics = newMetrics(s.db, s.trust, ends, s.writes.Trouble, c.Version, c.NATS.Name())
	queue := taskqueue.Config{
		DB: s.db, Signer: s.trust, ReleaseKeys: s.trust.ReleaseKeys, Rand: rand.Reader, Archives: c.Archives,
		Log: c.Log.Named("queue"), Ended: s.metrics.ended,
	}
	if sent {
		follow := newSteps(s.db, tracer, c.Now)
		queue.Stepped = follow.stepped
		queue.Ended = func(t broker.Task) { s.metrics.ended(t); follow.ended(t) }
	}
	s.queue = taskqueue.New(queue)
	s.sites = &maas.Sites{Secrets: s.secrets, Now: c.Now}
	s.registries = registry.NewClient(c.Now)
	s.nodes, err = nodeapi.New(ctx, nodeapi.Config{
		DB: s.db, Queue: s.queue, Trust: s.trust, Minter: s.minter(), Now: c.Now, NodeRate: c.nodeRate, Reread: c.Often,
		Log:     c.Log.Named("nodes"),
		Refused: s.metrics.refused, Minted: func(m nodeapi.MintEnd) {
			s.metrics.operations.minted(m.Type, m.Err)
			s.traces.minted(m)
		},
		Observe: func(route string, status int, took time.Duration) { s.metrics.observe("agents", route, status, took) },
	})
	if err != nil {
		return err
	}
	s.metrics.countPolls(s.nodes.WaitingPolls)
	s.openTerminals()
	s.events = outbox.NewFeed(s.db)
	if s.webhooks, err = webhook.NewSender(webhook.SenderOptions{Config: c.Webhooks, Secrets: s.secrets, Now: c.Now}); err != nil {
		return err
	}
	if err := s.openRuns(); err != nil {
		return err
	}
	s.admin = adminapi.New(adminapi.Config{
		DB: s.db, Queue: s.queue, Trust: s.trust, Operators: s.operators, Tenants: tenancy.New(s.db), Secrets: s.secrets,
		Registries: s.registries, Sites: s.sites, Events: s.events, EventRelay: c.NATS.Name(), Webhooks: s.webhooks, Expiry: ends,
		Onboarding: s.onboarding, Runs: s.runs, Agents: s.agents, Operations: s.operations, Terminals: s.terminals, Relay: s.relay,
		Now:    c.Now,
		Tracer: tracer, Log: c.Log.Named("operators"),
		Version: c.Version, AgentURL: s.at.agents, Unwritable: s.writes.Trouble, EngineTrouble: s.engine.Trouble,
		Proxies: c.proxies,
		Denied:  s.metrics.operations.denied,
		Observe: func(route string, status int, took time.Duration) {
			s.metrics.observe("operators", route, status, took)
		},
	})
	return nil
}

func (s *Server) onClose(f func() error) { s.stop = append(s.stop, f) }

// close undoes New, last first.
func (s *Server) close() error {
	var errs []error
	for i := len(s.stop) - 1; i >= 0; i-- {
		if err := s.stop[i](); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.stop = nil
	return errors.Join(errs...)
}

// OperatorURL is the operators' URL of this broker, from this machine.
func (s *Server) OperatorURL() string { return s.at.operators }

// AgentURL is the nodes' URL of this broker.
func (s *Server) AgentURL() string { return s.at.agents }

// RelayAddress is the address at which nodes reach this broker's relay.
func (s *Server) RelayAddress() string { return s.at.relay }

// RootSHA256 is the fingerprint that nodes pin.
func (s *Server) RootSHA256() string { return s.trust.RootSHA256() }
