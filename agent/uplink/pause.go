package uplink

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Between two tries of something that failed a node waits from a second to a
// minute, or to five minutes where the broker answered that it does not want it.
const (
	FirstPause = time.Second
	LongPause  = time.Minute
	MaxPause   = 5 * time.Minute
)

// Pause is for how long a node leaves its broker alone after one failure after
// another.
type Pause struct{ back *backoff.ExponentialBackOff }

// NewPause is that of a node whose last request went well.
func NewPause() *Pause {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.RandomizationFactor, b.MaxInterval = FirstPause, 2, 0.5, LongPause
	return &Pause{back: b}
}

// After is how long to wait after err: longer each time, jittered, and never
// less than the broker asked for.
func (p *Pause) After(err error) time.Duration {
	p.back.MaxInterval = LongPause
	r, ok := RefusalOf(err)
	if ok && r.Lasting() {
		p.back.MaxInterval = MaxPause
	}
	wait := min(p.back.NextBackOff(), MaxPause)
	if ok && r.RetryAfter > 0 {
		wait = r.RetryAfter + wait/8
	}
	return wait
}

// Reset is for a request that went well.
func (p *Pause) Reset() { p.back.Reset() }
