package relay

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// How often a node may try to join its sessions: all of them come at once after a relay
// began anew. How many of these tries are looked at at once, and how often one may be refused.
const (
	tryRate     = rate.Limit(20)
	tryBurst    = 256
	tryAtOnce   = 4
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

// tries are those of a node. Only what was refused is charged for that, as many that are good
// come at once; and no more are looked at at a time than may be refused in excess.
type tries struct {
	all, refused *rate.Limiter
	looking      chan struct{} // has one for each that is looked at
}

func (a *attempts) node(id string) *tries {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.of[id]
	if t == nil {
		t = &tries{
			all: rate.NewLimiter(tryRate, tryBurst), refused: rate.NewLimiter(rate.Every(refuseEvery), refuseBurst),
			looking: make(chan struct{}, tryAtOnce),
		}
		a.of[id] = t
	}
	return t
}

// tried has a node's try be looked at when it is its turn, unless it made too many. One whose
// turn does not come in time may come again, and so may one after too many were refused;
// only the latter is an attack.
func (r *Relay) tried(ctx context.Context, peer *pki.Peer, sessionID string, look func() error) error {
	again := broker.Errorf(broker.Unavailable, codeTries, "node %s tries to join too often (come again)", peer.NodeID)
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
		r.attack(peer.NodeID, sessionID, codeTries, "so many tries of the node to join were refused that the next are not looked at for a while")
		return again
	}
	err := look()
	if err != nil && broker.AsError(err).Kind == broker.Forbidden {
		t.refused.ReserveN(r.c.Now(), 1) // also where there is none left: then the next waits the longer
	}
	return err
}
