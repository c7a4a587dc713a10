package nodeapi

import (
	"errors"
	"sync"
)

// The causes that end a poll without work.
var (
	errDenied   = errors.New("certificate denied")
	errStopping = errors.New("the broker is stopping")
)

// polls holds all waiting polls.
type polls struct {
	mu      sync.Mutex
	waiting map[*poll]struct{}
	stopped bool
}

type poll struct {
	serial string            // of the certificate
	end    func(cause error) // must not block
}

func newPolls() polls { return polls{waiting: map[*poll]struct{}{}} }

// join registers a poll, so that the poll can be ended, until leave is called.
func (s *polls) join(serial string, end func(cause error)) (leave func()) {
	p := &poll{serial: serial, end: end}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[p] = struct{}{}
	if s.stopped {
		end(errStopping)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, p)
	}
}

// endDenied ends the polls of denied certificates.
func (s *polls) endDenied(denied map[string]string) {
	if len(denied) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.waiting {
		if _, ok := denied[p.serial]; ok {
			p.end(errDenied)
		}
	}
}

// endAll ends all polls; the nodes come again and are checked anew.
func (s *polls) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.waiting {
		p.end(errStopping)
	}
}

// stop ends all present and future polls.
func (s *polls) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for p := range s.waiting {
		p.end(errStopping)
	}
}

// WaitingPolls is the number of polls waiting at this broker: nearly one per connected node.
func (a *API) WaitingPolls() int {
	a.polls.mu.Lock()
	defer a.polls.mu.Unlock()
	return len(a.polls.waiting)
}
