package nodeapi

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
)

// What a broker takes of nodes that it does not know yet, since it has started or they come
// from another. Each costs a few questions to the database, and after a start all come at
// once: those for which there is no room are told when to come again, not all at one time.
const (
	maxArrivals = 64 // that are looked up at a time
	// arrivalRate is how many are thought to be looked up in a second, where it is said when
	// those that were put off shall come.
	arrivalRate = 500
	maxPutOff   = 60 * time.Second
)

const codeBusy = "broker_busy"

// arrivals counts them.
type arrivals struct {
	mu   sync.Mutex
	here int
	away int // put off, and not taken since: about how many are to come
}

// enter takes one, or says how long it shall stay away.
func (s *arrivals) enter() (leave func(), putOff time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here >= maxArrivals {
		s.away++
		over := time.Duration(s.away) * time.Second / arrivalRate
		return nil, min(time.Second+rand.N(over+time.Second), maxPutOff)
	}
	s.here++
	s.away = max(s.away-1, 0)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.here--
	}, 0
}

// arrive is introduce, for as many at a time as there is room for.
func (a *API) arrive(ctx context.Context, c *call, heard bool) (*contact, error) {
	leave, putOff := a.arrivals.enter()
	if leave == nil {
		e := broker.Errorf(broker.Unavailable, codeBusy, "cannot answer node %s yet: many nodes come at once (come again in %s)", c.peer.NodeID, putOff.Round(time.Second))
		e.RetryAfter = putOff
		return nil, e
	}
	defer leave()
	return a.introduce(ctx, c.peer, heard)
}
