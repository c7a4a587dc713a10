package nodeapi

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
)

// One address may try to enrol this often: enough for a rack behind one
// address that boots at once, too little to keep a broker busy.
const (
	enrollRate   = rate.Limit(20) // a second
	enrollBurst  = 200
	maxAddresses = 8192
)

// limiter counts attempts by address.
type limiter struct {
	mu        sync.Mutex
	addresses map[string]*rate.Limiter
}

func newLimiter() limiter { return limiter{addresses: map[string]*rate.Limiter{}} }

// allow reports whether an address may try now. When there are too many
// addresses, those that have been quiet for long enough are forgotten, and new
// ones share one allowance.
func (l *limiter) allow(address string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addresses[address] == nil && len(l.addresses) >= maxAddresses {
		for k, v := range l.addresses {
			if v.TokensAt(now) >= enrollBurst {
				delete(l.addresses, k)
			}
		}
		if len(l.addresses) >= maxAddresses {
			address = ""
		}
	}
	one := l.addresses[address]
	if one == nil {
		one = rate.NewLimiter(enrollRate, enrollBurst)
		l.addresses[address] = one
	}
	return one.AllowN(now, 1)
}

func (a *API) limitEnroll(w http.ResponseWriter, r *http.Request) error {
	if a.limit.allow(remoteHost(r), a.c.Now()) {
		return nil
	}
	w.Header().Set("Retry-After", "10")
	return broker.Errorf(broker.TooMany, "too_many_attempts", "cannot enroll: too many attempts from this address (wait ten seconds)")
}
