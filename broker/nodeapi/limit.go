package nodeapi

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/strangers"
)

// The rate limits. An address, or an IPv6 /64, may try to enrol often enough for a rack that boots
// at once behind one address, and too seldom to keep a broker busy. A node asks a few times a
// minute, and in a burst when it reports results; a node renews once in many hours.
const (
	enrollRate  = rate.Limit(20) // a second
	enrollBurst = 200
	nodeBurst   = 100
	renewBurst  = 10
)

var renewRate = rate.Every(time.Minute)

// How many keys each limiter tells apart. The operator creates the nodes, so there are no more of
// them.
const (
	maxAddresses = 8192
	maxNodes     = 1 << 17
)

// limiter counts attempts by caller.
type limiter struct {
	rate  rate.Limit
	burst int
	most  int // callers told apart

	mu  sync.Mutex
	who map[string]*rate.Limiter
}

func newLimiter(r rate.Limit, burst, most int) *limiter {
	return &limiter{rate: r, burst: burst, most: most, who: map[string]*rate.Limiter{}}
}

// allow reports whether a caller may try now. When there are too many callers, the limiter forgets
// callers that have been quiet for long enough, and new callers share one allowance.
func (l *limiter) allow(who string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.who[who] == nil && len(l.who) >= l.most {
		for k, v := range l.who {
			if v.TokensAt(now) >= float64(l.burst) {
				delete(l.who, k)
			}
		}
		if len(l.who) >= l.most {
			who = ""
		}
	}
	one := l.who[who]
	if one == nil {
		one = rate.NewLimiter(l.rate, l.burst)
		l.who[who] = one
	}
	return one.AllowN(now, 1)
}

// limitNode slows down a node that asks without end, and a node that keeps renewing, because each
// new certificate stays on record.
func (a *API) limitNode(w http.ResponseWriter, nodeID string, who admit) error {
	if !a.requests.allow(nodeID, a.c.Now()) {
		w.Header().Set("Retry-After", "10")
		return broker.Errorf(broker.TooMany, "too_many_requests",
			"cannot answer node %s: the node sends too many requests (wait ten seconds)", nodeID)
	}
	if who == renewing && !a.renewals.allow(nodeID, a.c.Now()) {
		w.Header().Set("Retry-After", "60")
		return broker.Errorf(broker.TooMany, "too_many_renewals",
			"cannot renew the certificate of node %s: the node renews too often (wait a minute)", nodeID)
	}
	return nil
}

func (a *API) limitEnroll(w http.ResponseWriter, r *http.Request) error {
	if a.enrollments.allow(strangers.SourceOfRequest(r).String(), a.c.Now()) {
		return nil
	}
	w.Header().Set("Retry-After", "10")
	return broker.Errorf(broker.TooMany, "too_many_attempts", "cannot enroll: too many attempts from this address (wait ten seconds)")
}
