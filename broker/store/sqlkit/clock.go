package sqlkit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const clockEvery = time.Minute

// Clock is the clock of a PostgreSQL server, read over the pool once a minute. Between two readings
// the local monotonic clock measures the time, so setting the local time of day changes nothing.
type Clock struct {
	server  Runner
	machine func() time.Time // this machine's clock
	last    atomic.Pointer[reading]
}

// reading is the server's time at one moment of the local clock.
type reading struct {
	server time.Time
	at     time.Time // with the monotonic reading, which measures the time since
}

// NewClock returns the server's clock. Read must succeed once before Now is called.
func NewClock(server Runner, machine func() time.Time) *Clock {
	return &Clock{server: server, machine: machine}
}

// Now returns the server's time: the last reading plus the time passed since.
func (c *Clock) Now() time.Time {
	r := c.last.Load()
	return r.server.Add(c.machine().Sub(r.at))
}

// Read asks the server for its time and assigns the answer to the middle of the round trip.
func (c *Clock) Read(ctx context.Context) error {
	var server int64
	before := c.machine()
	if err := c.server.QueryRowContext(ctx, `SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT`).Scan(&server); err != nil {
		return fmt.Errorf("cannot read PostgreSQL's clock: %w", err)
	}
	half := c.machine().Sub(before) / 2
	c.last.Store(&reading{server: time.UnixMicro(server), at: before.Add(half)})
	return nil
}

// Keep reads the server's clock once a minute until ctx ends.
func (c *Clock) Keep(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = c.Read(ctx) // the old reading stays good; a lost database shows elsewhere
		case <-ctx.Done():
			return
		}
	}
}
