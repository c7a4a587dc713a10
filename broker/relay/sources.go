package relay

import (
	"net"
	"sync"
)

// sources counts connections: those that have not joined a session by the address they come
// from, and all of these together; those that have by their node. So whoever only shares an
// address with a node uses up little of what that one may have, and nothing of any other's.
type sources struct {
	most       int // of one address, that have not joined
	unfinished int // of all addresses, that have not joined
	ofNode     int // that have joined, or are about to

	mu       sync.Mutex
	begin    map[string]int
	starting int
	has      map[string]int
}

// enter counts one among those that begin, until done is called, which may be again. false:
// there are too many.
func (s *sources) enter(addr net.Addr) (done func(), ok bool) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		host = addr.String()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begin[host] >= s.most || s.starting >= s.unfinished {
		return nil, false
	}
	s.begin[host]++
	s.starting++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.starting--
		lessOne(s.begin, host)
	}), true
}

// join counts one of a node, until leave is called, which may be again. false: there are too
// many.
func (s *sources) join(nodeID string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[nodeID] >= s.ofNode {
		return nil, false
	}
	s.has[nodeID]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		lessOne(s.has, nodeID)
	}), true
}

func lessOne(of map[string]int, name string) {
	of[name]--
	if of[name] == 0 {
		delete(of, name)
	}
}
