package store

import (
	"context"
	"fmt"
	"time"
)

const clockEvery = time.Minute

// reading is what the server's clock showed at a moment of this machine's.
type reading struct {
	server time.Time
	at     time.Time // with the monotonic reading, by which what has passed since is measured
}

// now is the server's time. The machine's clock only says what has passed since it was
// read, and by its monotonic reading: setting the machine's time of day changes nothing.
func (e *postgresEngine) now() time.Time {
	r := e.clock.Load()
	return r.server.Add(e.machine().Sub(r.at))
}

// readClock asks the server for its time, which is that of the middle of the round trip.
func (e *postgresEngine) readClock(ctx context.Context) error {
	var server int64
	before := e.machine()
	if err := e.pool.QueryRowContext(ctx, `SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT`).Scan(&server); err != nil {
		return fmt.Errorf("cannot read PostgreSQL's clock: %w", err)
	}
	half := e.machine().Sub(before) / 2
	e.clock.Store(&reading{server: time.UnixMicro(server), at: before.Add(half)})
	return nil
}

func (e *postgresEngine) keepClock(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = e.readClock(ctx) // the reading it has stays good; a lost database shows elsewhere
		case <-ctx.Done():
			return
		}
	}
}
