package relay

import (
	"net"
	"sync"
)

// sources counts connections: all of those by the address they come from, and all together
// of those that have not joined a session yet.
type sources struct {
	most       int // of one address
	unfinished int // of all addresses, that have not joined

	mu       sync.Mutex
	has      map[string]int
	starting int
}

// enter counts one: until joined is called among those that begin, and until leave is called
// for its address. Either may be called again. false: there are too many.
func (s *sources) enter(addr net.Addr) (joined, leave func(), ok bool) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		host = addr.String()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[host] >= s.most || s.starting >= s.unfinished {
		return nil, nil, false
	}
	s.has[host]++
	s.starting++
	joined = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.starting--
	})
	return joined, sync.OnceFunc(func() {
		joined()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.has[host]--; s.has[host] == 0 {
			delete(s.has, host)
		}
	}), true
}
