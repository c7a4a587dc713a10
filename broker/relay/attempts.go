package relay

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// How often a node may try to join its sessions: all of them come at once after a relay
// began anew. And how often a try may be refused.
const (
	tryRate     = rate.Limit(20)
	tryBurst    = 256
	refuseEvery = 30 * time.Second
	refuseBurst = 16

	codeTries = "joins_too_many"
)

// attempts bounds what nodes cost the store by trying to join. It has an entry for each node
// that ever tried, of which there are no more than have certificates.
type attempts struct {
	mu sync.Mutex
	of map[string]*tries
}

// tries are those of a node. Refusals are charged before they are known, so that many at
// once are no way around, and given back.
type tries struct {
	all, refused *rate.Limiter
}

// enter asks for one try, of which settle is told what came. refusals: there is none since
// so many were refused.
func (a *attempts) enter(nodeID string, now time.Time) (settle func(refused bool), refusals, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.of[nodeID]
	if t == nil {
		t = &tries{all: rate.NewLimiter(tryRate, tryBurst), refused: rate.NewLimiter(rate.Every(refuseEvery), refuseBurst)}
		a.of[nodeID] = t
	}
	if !t.all.AllowN(now, 1) {
		return nil, false, false
	}
	charged := t.refused.ReserveN(now, 1)
	if charged.DelayFrom(now) > 0 {
		charged.CancelAt(now)
		return nil, true, false
	}
	return func(refused bool) {
		if !refused {
			charged.CancelAt(now)
		}
	}, false, true
}

// tried has a node's try be looked at, unless it made too many.
func (r *Relay) tried(peer *pki.Peer, sessionID string, look func() error) error {
	settle, refusals, ok := r.attempts.enter(peer.NodeID, r.c.Now())
	if refusals {
		r.attack(peer.NodeID, sessionID, codeTries, "so many tries of the node to join were refused that the next are not looked at for a while")
	}
	if !ok {
		return broker.Errorf(broker.Unavailable, codeTries, "node %s tries to join too often (come again)", peer.NodeID)
	}
	err := look()
	settle(err != nil && broker.AsError(err).Kind == broker.Forbidden)
	return err
}
