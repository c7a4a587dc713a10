package relay

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/broker/strangers"
)

// sources counts connections: those that have not joined a session by source address, in a room for
// strangers, and joined connections by node. A stranger at a node's address therefore uses up
// little of the node's share, and nothing of any other node's.
type sources struct {
	begin  *strangers.Room
	ofNode int // bound on joined or joining connections

	mu  sync.Mutex
	has map[string]int
}

// join counts a connection of a node until leave is called; leave may be called again. false: there
// are too many.
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

// pendingConn is a QUIC connection that has not joined. It is counted before QUIC has created it.
type pendingConn struct {
	guest *strangers.Guest
	end   context.CancelFunc // ends the handshake while there is no connection yet

	mu   sync.Mutex
	conn *quic.Conn
	out  bool
}

// begin counts a connection until ctx, the connection's own context, ends.
func (r *Relay) begin(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	b := new(pendingConn)
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

// evict closes the connection. If the connection does not exist yet, QUIC ends its handshake within
// Config.HelloWithin.
func (b *pendingConn) evict() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = true
	if b.conn == nil {
		b.end()
		return
	}
	_ = b.conn.CloseWithError(1, codeTooMany)
}

// made notes that the connection exists; false: it was evicted.
func (b *pendingConn) made(conn *quic.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn = conn
	return !b.out
}
