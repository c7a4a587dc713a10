package chaintest

import (
	"sync"
	"time"
)

// Clock stands until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes one that stands at noon of a day in 2026.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)} }

// Now is what it shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves it.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// AdvanceTo moves it to a moment, never back.
func (c *Clock) AdvanceTo(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.now) {
		c.now = t
	}
}
