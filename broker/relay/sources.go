package relay

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/broker/strangers"
)

// sources counts connections: those that have not joined a session by where they come from,
// in a room for strangers; those that have by their node. So whoever only shares an address
// with a node uses up little of what that one may have, and nothing of any other's.
type sources struct {
	begin  *strangers.Room
	ofNode int // that have joined, or are about to

	mu  sync.Mutex
	has map[string]int
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
		if s.has[nodeID]--; s.has[nodeID] == 0 {
			delete(s.has, nodeID)
		}
	}), true
}

// beginner is a QUIC connection that has not joined. It is counted before QUIC has made it.
type beginner struct {
	guest *strangers.Guest
	end   context.CancelFunc // of the handshake, where there is no connection yet

	mu   sync.Mutex
	conn *quic.Conn
	out  bool
}

// begin counts a connection until ctx, which is its own, ends.
func (r *Relay) begin(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	b := new(beginner)
	own, end := context.WithCancel(ctx)
	b.end = end
	guest, ok := r.sources.begin.Enter(info.RemoteAddr, b.evict)
	if !ok {
		end()
		return nil, tooMany
	}
	b.guest = guest
	context.AfterFunc(ctx, func() { end(); guest.Leave() })
	return context.WithValue(own, beginnerKey{}, b), nil
}

type beginnerKey struct{}

// evict closes the connection. One that is not made yet is left to QUIC, which ends its
// handshake within Config.HelloWithin.
func (b *beginner) evict() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = true
	if b.conn == nil {
		b.end()
		return
	}
	_ = b.conn.CloseWithError(1, codeTooMany)
}

// made says that there is a connection now; false: it has been sent away.
func (b *beginner) made(conn *quic.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn = conn
	return !b.out
}
