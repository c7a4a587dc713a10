package relay

import (
	"net"
	"sync"
)

// sources counts connections by the address they come from.
type sources struct {
	most int

	mu  sync.Mutex
	has map[string]int
}

// enter counts one, until leave is called; false: the address has too many.
func (s *sources) enter(addr net.Addr) (leave func(), ok bool) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		host = addr.String()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[host] >= s.most {
		return nil, false
	}
	s.has[host]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.has[host]--; s.has[host] == 0 {
			delete(s.has, host)
		}
	}), true
}
