package uplink

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Limits of the backoff: from a second to a minute, or to five minutes if the broker refused for
// good.
const (
	FirstPause = time.Second
	LongPause  = time.Minute
	MaxPause   = 5 * time.Minute
)

// Pause is the backoff between consecutive failures of requests to the broker.
type Pause struct{ back *backoff.ExponentialBackOff }

// NewPause returns the backoff of a node whose last request succeeded.
func NewPause() *Pause {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.RandomizationFactor, b.MaxInterval = FirstPause, 2, 0.5, LongPause
	return &Pause{back: b}
}

// After returns how long to wait after err: longer each time, jittered, and never less than the
// broker's Retry-After.
func (p *Pause) After(err error) time.Duration {
	p.back.MaxInterval = LongPause
	r, ok := RefusalOf(err)
	if ok && r.Permanent() {
		p.back.MaxInterval = MaxPause
	}
	wait := min(p.back.NextBackOff(), MaxPause)
	if ok && r.RetryAfter > 0 {
		wait = r.RetryAfter + wait/8
	}
	return wait
}

// Reset restarts the backoff after a successful request.
func (p *Pause) Reset() { p.back.Reset() }
