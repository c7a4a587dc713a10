package operators

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The rates: enough for a busy script, and the limit on a guesser.
const (
	tokenRate  = rate.Limit(50) // requests a second
	tokenBurst = 200
	guessRate  = rate.Limit(1)
	guessBurst = 20

	tenantRate  = rate.Limit(10) // changes a second by an organisation, its projects and members together
	tenantBurst = 300
)

// maxLimited bounds the remembered names. Beyond the bound, names with a full bucket are forgotten,
// without loss.
const maxLimited = 10_000

// limits is a rate per name.
type limits struct {
	rate  rate.Limit
	burst int

	mu sync.Mutex
	by map[string]*rate.Limiter
}

func newLimits(r rate.Limit, burst int) *limits {
	return &limits{rate: r, burst: burst, by: map[string]*rate.Limiter{}}
}

// take takes one token of name's bucket and returns 0, or the time to wait.
func (l *limits) take(name string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, known := l.by[name]
	if !known {
		if len(l.by) >= maxLimited {
			l.forget(now)
		}
		one = rate.NewLimiter(l.rate, l.burst)
		l.by[name] = one
	}
	if one.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - one.TokensAt(now)) / float64(l.rate) * float64(time.Second))
}

// drop makes the next take of name the first.
func (l *limits) drop(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by, name)
}

// forget drops the names with a full bucket, or all where none has.
func (l *limits) forget(now time.Time) {
	before := len(l.by)
	for name, one := range l.by {
		if one.TokensAt(now) >= float64(l.burst) {
			delete(l.by, name)
		}
	}
	if len(l.by) == before {
		clear(l.by)
	}
}
