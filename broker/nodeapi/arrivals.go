package nodeapi

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// The limits on arrivals: nodes that the broker does not know yet, because the broker has just
// started or the nodes come from another broker. Each arrival costs a few database queries, and
// after a start all nodes come at once. Nodes beyond the limit are told when to come again, spread
// over time.
const (
	maxArrivals = 64 // looked up at a time
	// arrivalRate is the assumed number of lookups a second, from which the times of deferred
	// arrivals are computed.
	arrivalRate = 500
	maxPutOff   = 60 * time.Second
)

const codeBusy = "broker_busy"

// arrivals holds the places for lookups and the schedule of deferred nodes.
type arrivals struct {
	places chan struct{}

	mu      sync.Mutex
	lookups map[string]chan struct{} // by node being looked up; closed when the lookup ends
	next    time.Time                // when the next deferred node may come; in the past: none is deferred
}

func newArrivals() arrivals {
	return arrivals{places: make(chan struct{}, maxArrivals), lookups: map[string]chan struct{}{}}
}

// turn waits until no other arrival of the node is under way: one node takes one place, whatever
// certificates the node has.
func (s *arrivals) turn(ctx context.Context, nodeID string) (end func(), err error) {
	for {
		s.mu.Lock()
		before := s.lookups[nodeID]
		if before == nil {
			mine := make(chan struct{})
			s.lookups[nodeID] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.lookups, nodeID)
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

// enter takes a place, and waits for a place while ctx lasts.
func (s *arrivals) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.places <- struct{}{}:
		return s.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tryEnter takes a place if one is free, or returns how long the node must stay away.
func (s *arrivals) tryEnter(now time.Time) (leave func(), putOff time.Duration) {
	select {
	case s.places <- struct{}{}:
		return s.leave, 0
	default:
		return nil, s.deferral(now)
	}
}

func (s *arrivals) leave() { <-s.places }

// deferral hands out one time after the other, at arrivalRate, plus a second or two for the lookups
// under way. No node waits longer than maxPutOff: when more nodes are deferred than fit, they share
// the second half of maxPutOff.
func (s *arrivals) deferral(now time.Time) time.Duration {
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

// admitContact calls firstContact, for as many nodes at a time as there are places. A poll without
// a place is deferred, because a poll can wait. Any other request of a node waits for a place,
// ahead of any poll: otherwise a task would fail or its lease would run out.
func (a *API) admitContact(ctx context.Context, p *pki.Peer, mayWait bool) (*contact, error) {
	end, err := a.arrivals.turn(ctx, p.NodeID)
	if err != nil {
		return nil, err
	}
	defer end()
	n, heard := a.contacts.known(p, a.c.Now())
	if n != nil {
		return n, nil // introduced meanwhile
	}
	leave, err := a.enter(ctx, p.NodeID, mayWait)
	if err != nil {
		return nil, err
	}
	defer leave()
	return a.firstContact(ctx, p, heard)
}

func (a *API) enter(ctx context.Context, nodeID string, mayWait bool) (leave func(), err error) {
	if mayWait {
		return a.arrivals.enter(ctx)
	}
	leave, putOff := a.arrivals.tryEnter(time.Now())
	if leave == nil {
		e := broker.Errorf(broker.Unavailable, codeBusy, "cannot answer node %s yet: many nodes arrive at once (try again in %s)", nodeID,
			putOff.Round(time.Second))
		e.RetryAfter = putOff
		return nil, e
	}
	return leave, nil
}
