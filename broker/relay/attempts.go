package relay

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// Limits of a node's tries to join sessions: the rate of all tries (after a relay's restart all
// sessions reconnect at once), the number of tries processed at once, and the rate of refused
// tries.
const (
	tryRate     = rate.Limit(20)
	tryBurst    = 256
	tryAtOnce   = 4
	refuseEvery = 30 * time.Second
	refuseBurst = 16

	codeTries = "joins_too_many"
)

// attempts bounds the load that nodes put on the store by trying to join. attempts has an entry for
// each node that ever tried; the number of entries is bounded by the number of certificates.
type attempts struct {
	mu     sync.Mutex
	byNode map[string]*attemptLimits
}

// attemptLimits are the limits of one node. Only refused tries are charged to refused, because many
// good tries come at once. The number processed at once never exceeds the permitted excess of
// refusals.
type attemptLimits struct {
	all, refused *rate.Limiter
	looking      chan struct{} // has an element for each try in progress
}

func (a *attempts) node(id string) *attemptLimits {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.byNode[id]
	if t == nil {
		t = &attemptLimits{
			all: rate.NewLimiter(tryRate, tryBurst), refused: rate.NewLimiter(rate.Every(refuseEvery), refuseBurst),
			looking: make(chan struct{}, tryAtOnce),
		}
		a.byNode[id] = t
	}
	return t
}

// runAttempt runs look for a node's try when its turn comes. A node with too many tries, or whose
// turn does not come in time, may come again. So may a node with too many refused tries; only the
// latter is an attack.
func (r *Relay) runAttempt(ctx context.Context, peer *pki.Peer, sessionID string, look func() error) error {
	again := broker.Errorf(broker.Unavailable, codeTries, "node %s tries to join too often (try again)", peer.NodeID)
	t := r.attempts.node(peer.NodeID)
	if !t.all.AllowN(r.c.Now(), 1) {
		return again
	}
	select {
	case t.looking <- struct{}{}:
		defer func() { <-t.looking }()
	case <-ctx.Done():
		return again
	}
	if t.refused.TokensAt(r.c.Now()) < 1 {
		r.auditAttack(peer.NodeID, sessionID, codeTries,
			"too many attempts of the node to join were refused; the relay ignores the next ones for a while")
		return again
	}
	err := look()
	if err != nil && broker.AsError(err).Kind == broker.Forbidden {
		t.refused.ReserveN(r.c.Now(), 1) // also if none is left: the next try then waits longer
	}
	return err
}
