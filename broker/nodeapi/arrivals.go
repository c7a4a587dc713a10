package nodeapi

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
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

// arrivals is the room for them, and who was put off.
type arrivals struct {
	places chan struct{}

	mu   sync.Mutex
	of   map[string]chan struct{} // by node that is being looked up; closed when it was
	next time.Time                // when whoever is put off next may come; in the past: none are to come
}

func newArrivals() arrivals {
	return arrivals{places: make(chan struct{}, maxArrivals), of: map[string]chan struct{}{}}
}

// turn waits until no other arrival of the node is there: one node, whatever certificates it
// has, takes one place.
func (s *arrivals) turn(ctx context.Context, nodeID string) (end func(), err error) {
	for {
		s.mu.Lock()
		before := s.of[nodeID]
		if before == nil {
			mine := make(chan struct{})
			s.of[nodeID] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.of, nodeID)
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enter takes one that waits for its place while ctx lasts.
func (s *arrivals) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.places <- struct{}{}:
		return s.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tryEnter takes one where there is a place, or says how long it shall stay away.
func (s *arrivals) tryEnter(now time.Time) (leave func(), putOff time.Duration) {
	select {
	case s.places <- struct{}{}:
		return s.leave, 0
	default:
		return nil, s.putOff(now)
	}
}

func (s *arrivals) leave() { <-s.places }

// putOff gives out one time after the other, at the rate, and a second or two for those that
// are looked up. Nobody waits for longer than maxPutOff: where more are to come than that
// holds, they share its second half.
func (s *arrivals) putOff(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next.Before(now) {
		s.next = now
	}
	off := s.next.Sub(now) + time.Second
	if off >= maxPutOff-time.Second {
		return maxPutOff - rand.N(maxPutOff/2)
	}
	s.next = s.next.Add(time.Second / arrivalRate)
	return off + rand.N(time.Second)
}

// arrive is introduce, for as many at a time as there is room for. A poll is put off where
// there is none: it has all the time. What else a node asks waits for its place, before any
// poll's: a task would fail for it, or its lease run out.
func (a *API) arrive(ctx context.Context, p *pki.Peer, mayWait bool) (*contact, error) {
	end, err := a.arrivals.turn(ctx, p.NodeID)
	if err != nil {
		return nil, err
	}
	defer end()
	n, heard := a.contacts.known(p, a.c.Now())
	if n != nil {
		return n, nil // since it came
	}
	leave, err := a.enter(ctx, p.NodeID, mayWait)
	if err != nil {
		return nil, err
	}
	defer leave()
	return a.introduce(ctx, p, heard)
}

func (a *API) enter(ctx context.Context, nodeID string, mayWait bool) (leave func(), err error) {
	if mayWait {
		return a.arrivals.enter(ctx)
	}
	leave, putOff := a.arrivals.tryEnter(time.Now())
	if leave == nil {
		e := broker.Errorf(broker.Unavailable, codeBusy, "cannot answer node %s yet: many nodes come at once (come again in %s)", nodeID, putOff.Round(time.Second))
		e.RetryAfter = putOff
		return nil, e
	}
	return leave, nil
}
