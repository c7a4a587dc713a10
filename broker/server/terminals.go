package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/terminals"
)

// openTerminals makes the relay of terminal sessions, and the terminals.Service that decides who
// may open a session.
func (s *Server) openTerminals() {
	s.relay = relay.New(relay.Config{
		DB: s.db, Keeper: s.metrics.countRecordings(s.db.RecordingKeeper(s.at.relay)), Certificate: s.trust.ServerCertificate,
		Roots:  s.trust.Roots,
		Denied: s.nodes.Denied, BeforeRestore: s.nodes.BeforeRestore, Now: s.c.Now, Address: s.at.relay, ResetKey: s.relayKey,
		Known: s.rooms.nodes, Log: s.c.Log.Named("relay"),
	})
	s.terminals = terminals.New(terminals.Config{
		DB: s.db, Queue: s.queue, Relay: s.relay, Address: s.at.relay, Instance: relayInstance(s.relayKey), Now: s.c.Now,
		Log: s.c.Log.Named("terminals"),
	})
	s.metrics.countTerminals(func() int { return len(s.relay.Sessions()) })
}

// relayInstance distinguishes this broker from another broker with the same relay address. The key
// belongs to the data directory, which one process holds at a time.
func relayInstance(relayKey []byte) string {
	of := sha256.Sum256(append([]byte("hostler.relay.instance.v1\x00"), relayKey...))
	return hex.EncodeToString(of[:])
}

// terminalToken is called only once the server serves.
func (s *Server) terminalToken(ctx context.Context, task broker.Task, keyDigest string) (broker.Minted, error) {
	return s.terminals.Mint(ctx, task, keyDigest)
}

// serveTerminals lets nodes in to the relay until ctx ends, and then releases the sessions. Another
// replica, or this one after a restart, may continue them.
func (s *Server) serveTerminals(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return s.terminals.Run(ctx) })
	err := s.relay.Serve(ctx, s.relayTCP, s.relayUDP)
	_ = group.Wait()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer done()
	if gone := s.terminals.Leave(last); gone != nil {
		s.c.Log.Warn("cannot record that the terminal sessions were released", zap.Error(gone))
	}
	return err
}
