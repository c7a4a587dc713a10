package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/internal/periodic"
)

// drainTime is the time for running work when the broker stops.
const drainTime = 7 * time.Second

// Run serves until ctx ends, and then drains. Run may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer func() {
		if err := s.close(); err != nil {
			s.c.Log.Error("cannot shut the broker down cleanly", zap.Error(err))
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
	start(s.recordStrangers)
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
