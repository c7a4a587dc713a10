package store

import (
	"context"
	"fmt"
	"time"
)

const clockEvery = time.Minute

// reading is the server's time at one moment of the local clock.
type reading struct {
	server time.Time
	at     time.Time // with the monotonic reading, which measures the time since
}

// now returns the server's time: the last reading plus the time passed since on the local monotonic
// clock. Setting the local time of day changes nothing.
func (e *postgresEngine) now() time.Time {
	r := e.clock.Load()
	return r.server.Add(e.machine().Sub(r.at))
}

// readClock asks the server for its time and assigns the answer to the middle of the round trip.
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
			_ = e.readClock(ctx) // the old reading stays good; a lost database shows elsewhere
		case <-ctx.Done():
			return
		}
	}
}
