package server

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/internal/periodic"
)

// glanceAtHold is how often a broker with a restored database checks whether the database was
// released.
const glanceAtHold = 2 * time.Second

// afterRelease makes f wait while the database is a restored database on hold. Without a hold f
// begins at once; a hold is never placed while a broker runs.
func (s *Server) afterRelease(f func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		released := false
		periodic.Work{
			Every: glanceAtHold, AtOnce: true, Log: s.c.Log, Cannot: "cannot read whether the database is held",
			Turn: func(ctx context.Context) error {
				last, err := s.db.LastRestore(ctx)
				if released = err == nil && !last.Held(); released {
					return periodic.ErrFinished
				}
				return err
			},
		}.Run(ctx)
		if released {
			f(ctx)
		}
	}
}

// logHold logs at the start that the database is on hold.
func (s *Server) logHold(ctx context.Context) error {
	last, err := s.db.LastRestore(ctx)
	if err == nil && last.Held() {
		s.c.Log.Warn("the database was restored from a backup and is held: only probes are handed out and no run proceeds, until hostler-broker restore --release",
			zap.Time("restored_at", last.RestoredAt), zap.String("source", last.Source))
	}
	return err
}
