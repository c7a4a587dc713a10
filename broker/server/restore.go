package server

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// glanceAtHold is how often a broker with a restored database sees whether it was
// released.
const glanceAtHold = 2 * time.Second

// onceReleased has f wait while the database is a restored one that is held. Where it is
// not, f begins at once; a hold is never placed while a broker runs.
func (s *Server) onceReleased(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(glanceAtHold)
		defer tick.Stop()
		for {
			last, err := s.db.LastRestore(ctx)
			if err == nil && !last.Held() {
				return f(ctx)
			}
			if err != nil {
				s.c.Log.Warn("cannot see whether the database is held", zap.Error(err))
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// tellHeld says at the start that this broker does little.
func (s *Server) tellHeld(ctx context.Context) error {
	last, err := s.db.LastRestore(ctx)
	if err == nil && last.Held() {
		s.c.Log.Warn("the database was restored from a backup and is held: nothing but probes is handed out and no chain steps, until hostler-broker restore --release",
			zap.Time("restored_at", last.RestoredAt), zap.String("source", last.Source))
	}
	return err
}
