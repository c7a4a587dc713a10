package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/audit"
	"github.com/hostler/hostler/broker/bodies"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/nodeapi"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/registry"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/resolver"
	"github.com/hostler/hostler/broker/restore"
	"github.com/hostler/hostler/broker/retention"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/terminals"
	"github.com/hostler/hostler/broker/trust"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

const (
	// drainTime is the time for running work when the broker stops.
	drainTime = 7 * time.Second
	// sweepEvery is how often tasks are moved that are due by time.
	sweepEvery = 2 * time.Second
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
	operators  *operators.Directory
	secrets    secrets.Keeper
	registries *registry.Client
	sites      *maas.Sites
	lifecycle  *onboarding.Lifecycle
	runs       *chain.Engine
	agents     *agentrecords.Nodes
	nodes      *nodeapi.API
	admin      *adminapi.API
	relay      *relay.Relay
	terminals  *terminals.Desk
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
	noise                   [2]*noise // of the operators' listener and the agents'
}

// New opens a broker. If New fails, nothing is left open and nothing half made.
func New(ctx context.Context, c Config) (_ *Server, err error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	s := &Server{c: c, rooms: newRooms()}
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
	if s.operatorPort, err = listen(c.Listen, "--listen"); err != nil {
		return nil, err
	}
	s.onClose(s.operatorPort.Close)
	if s.agentPort, err = listen(c.AgentListen, "--agent-listen"); err != nil {
		return nil, err
	}
	s.onClose(s.agentPort.Close)
	if s.relayTCP, s.relayUDP, err = listenRelay(c.RelayListen); err != nil {
		return nil, err
	}
	s.onClose(s.relayTCP.Close)
	s.onClose(s.relayUDP.Close)
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
	if s.db, err = store.Open(ctx, store.Options{URL: StoreURL(dir.path, c.Database), Now: s.storeClock(), Machine: c.Machine, Log: c.Log.Named("store"), Serves: true}); err != nil {
		return err
	}
	s.onClose(s.db.Close)
	if err := s.tellHeld(ctx); err != nil {
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
	ends := s.expiry()
	s.writes = &writable{probe: s.db.ProbeWrite, often: c.Often, log: c.Log.Named("store")}
	s.metrics = newMetrics(s.db, s.trust, ends, s.writes.Trouble, c.Version)
	queue := taskqueue.Config{DB: s.db, Signer: s.trust, ReleaseKeys: s.trust.ReleaseKeys, Rand: rand.Reader, Archives: c.Archives, Log: c.Log.Named("queue"), Ended: s.metrics.ended}
	if sent {
		follow := newSteps(s.db, tracer, c.Now)
		queue.Stepped = follow.stepped
		queue.Ended = func(t broker.Task) { s.metrics.ended(t); follow.ended(t) }
	}
	s.queue = taskqueue.New(queue)
	s.sites = &maas.Sites{Secrets: s.secrets, Now: c.Now}
	s.registries = registry.NewClient(c.Now)
	s.nodes, err = nodeapi.New(ctx, nodeapi.Config{
		DB: s.db, Queue: s.queue, Trust: s.trust, Minter: s.minter(), Now: c.Now, NodeRate: c.nodeRate, Reread: c.Often, Log: c.Log.Named("nodes"),
		Refused: s.metrics.refused,
		Observe: func(route string, status int, took time.Duration) { s.metrics.observe("agents", route, status, took) },
	})
	if err != nil {
		return err
	}
	s.metrics.countPolls(s.nodes.WaitingPolls)
	s.openTerminals()
	s.events = outbox.NewFeed(s.db)
	if err := s.openRuns(); err != nil {
		return err
	}
	s.admin, err = adminapi.New(adminapi.Config{
		DB: s.db, Queue: s.queue, Trust: s.trust, Operators: s.operators, Secrets: s.secrets, Registries: s.registries, Sites: s.sites, Lifecycle: s.lifecycle, Runs: s.runs, Agents: s.agents, Terminals: s.terminals, Relay: s.relay, Events: s.events, Expiry: ends, Now: c.Now,
		Tracer: tracer, Log: c.Log.Named("operators"),
		Version: c.Version, AgentURL: s.at.agents, Unwritable: s.writes.Trouble,
		Observe: func(route string, status int, took time.Duration) {
			s.metrics.observe("operators", route, status, took)
		},
	})
	return err
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

// Run serves until ctx ends, and then drains. Run may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer func() {
		if err := s.close(); err != nil {
			s.c.Log.Error("cannot close the broker cleanly", zap.Error(err))
		}
	}()
	// Work continues while requests are drained, and ends after them.
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	running := newParts(work)
	start := running.start
	s.writes.look(work) // the broker announces readiness only after a write
	start(s.writes.run)
	start(s.queue.Run)
	start(s.events.Run)
	start(s.trust.Run)
	start(s.clients.run)
	start(s.keepStrangers)
	start(func(ctx context.Context) error { s.operators.Run(ctx); return nil })
	start(func(ctx context.Context) error { return s.db.Lead(ctx, s.lead) })
	stages, endStages := context.WithCancel(work)
	defer endStages()
	start(func(context.Context) error { s.runs.Run(stages); return nil })
	polls, endPolls := context.WithCancel(work)
	defer endPolls()
	start(func(context.Context) error { return s.nodes.Run(polls) })
	sessions, letGo := context.WithCancel(work)
	defer letGo()
	start(func(context.Context) error { return s.serveTerminals(sessions) })

	agents := s.nodes.Server()
	agents.Handler = s.metrics.measured(agents.Handler, s.c.Now)
	agents.ErrorLog = s.noise[1].logger()
	front := s.operatorServer()
	for _, l := range []struct {
		server *http.Server
		port   net.Listener
	}{{front, s.rooms.operators.Admit(front, s.operatorPort)}, {agents, s.rooms.agents.Admit(agents, s.agentPort)}} {
		start(func(context.Context) error {
			if err := l.server.ServeTLS(l.port, "", ""); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	_, _ = fmt.Fprintf(s.c.Ready, "ready operators=%s agents=%s relay=%s\n", s.at.operators, s.at.agents, s.at.relay)
	s.c.Notify("READY=1\nSTATUS=serving operators at " + s.at.operators + " and nodes at " + s.at.agents)
	start(s.watchdog)
	start(s.trySecrets)

	var err error
	select {
	case <-ctx.Done():
	case <-running.failed.Done():
		err = context.Cause(running.failed)
	}
	s.draining.Store(true)
	s.c.Notify("STOPPING=1")
	s.admin.Leave()
	endStages()
	endPolls()
	letGo()
	drained, done := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer done()
	for _, server := range []*http.Server{front, agents} {
		if server.Shutdown(drained) != nil {
			_ = server.Close() // the remaining connections have had their time
		}
	}
	endWork()
	running.wait()
	flush, flushed := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer flushed()
	_ = s.tracing.Shutdown(flush)
	return err
}

// lead does the work that one broker does for all.
func (s *Server) lead(ctx context.Context) {
	sealer := &audit.Sealer{DB: s.db, Signer: s.trust.StatementSigner, Keep: audit.HeadFiles{Dir: s.auditHeads}.Append, Log: s.c.Log.Named("audit")}
	// These watches compare times written by the store's clock.
	watch := &presence.Watch{DB: s.db, Now: s.db.Now, Period: s.c.Often, Log: s.c.Log.Named("presence")}
	profiles := &resolver.Watch{DB: s.db, Queue: s.queue, Now: s.db.Now, Log: s.c.Log.Named("resolver")}
	keeper := &outbox.Keeper{DB: s.db, Policy: s.c.Events, Log: s.c.Log.Named("events")}
	drift := &reconcile.Watch{DB: s.db, Regions: s.sites, Now: s.db.Now, Glance: s.c.Often, Log: s.c.Log.Named("reconcile"), Reseed: reconcile.Agents{Queue: s.queue}, Decommission: &turnoverrecords.Starts{DB: s.db, Runs: s.runs}}
	kept := &terminals.Retention{DB: s.db, Log: s.c.Log.Named("recordings")}
	old := &retention.Keeper{DB: s.db, History: s.c.History, Log: s.c.Log.Named("retention")}
	silence := &turnoverrecords.Silence{Starts: &turnoverrecords.Starts{DB: s.db, Runs: s.runs}, Log: s.c.Log.Named("silence")}
	leftovers := &turnoverrecords.Leftovers{DB: s.db, Secrets: s.secrets, Log: s.c.Log.Named("leftovers")}
	compare := &restore.Watch{DB: s.db, Regions: s.sites, Ask: s.queue, Log: s.c.Log.Named("restore")}
	var work sync.WaitGroup
	for _, run := range []func(context.Context){
		sealer.Run, watch.Run, keeper.Run, kept.Run, s.sweep, s.tellStrangers, compare.Run,
		s.onceReleased(drift.Run), s.onceReleased(profiles.Run), s.onceReleased(leftovers.Run), s.onceReleased(silence.Run), s.onceReleased(old.Run),
	} {
		work.Go(func() { run(ctx) })
	}
	work.Wait()
}

// sweep moves the tasks that are due by time, and asks nodes for tasks of unknown outcome.
func (s *Server) sweep(ctx context.Context) {
	periodic.Work{
		Every: cmp.Or(s.c.Often, sweepEvery), Log: s.c.Log, Cannot: "cannot sweep tasks",
		Turn: func(ctx context.Context) error {
			_, err := s.queue.Sweep(ctx)
			if failed := s.queue.ProbeUnknown(ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("cannot ask what became of tasks: %w", failed))
			}
			return err
		},
	}.Run(ctx)
}

// watchdog tells systemd that the process is alive. It does not ask the store: if a PostgreSQL is
// away, a restart of the broker would not bring it back.
func (s *Server) watchdog(ctx context.Context) error {
	if s.c.Watchdog == 0 {
		return nil
	}
	periodic.Work{Every: s.c.Watchdog / 2, Log: s.c.Log, Turn: func(context.Context) error {
		s.c.Notify("WATCHDOG=1")
		return nil
	}}.Run(ctx)
	return nil
}

// operatorServer serves the operators' listener.
func (s *Server) operatorServer() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("/", s.admin.Handler())
	bodies.Get(mux, "/metrics", s.metrics.handler())
	bodies.Get(mux, "/healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") }))
	bodies.Get(mux, "/readyz", http.HandlerFunc(s.readyz))
	return &http.Server{
		Handler:           s.rooms.requests.Requests(bodies.InTime(bodies.OnlyText(mux)), showsToken),
		HTTP2:             &overHTTP2,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.trust.ServerCertificate, Time: s.c.Now},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          s.noise[0].logger(),
	}
}

// readyz says whether requests can be answered now; most requests write.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, done := context.WithTimeout(r.Context(), 2*time.Second)
	defer done()
	switch {
	case s.draining.Load():
		answer(w, http.StatusServiceUnavailable, "stopping")
	case s.db.Ping(ctx) != nil:
		answer(w, http.StatusServiceUnavailable, "store unavailable")
	case s.writes.Trouble() != nil:
		answer(w, http.StatusServiceUnavailable, "store not writable")
	default:
		answer(w, http.StatusOK, "ready")
	}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
