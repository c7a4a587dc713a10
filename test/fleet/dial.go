package fleet

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
)

// conn is a connection that its node tracks until it is closed.
type conn struct {
	net.Conn
	of *open
}

// open are the connections of one node. They have a lock of their own, because a client closes
// connections while its node is locked.
type open struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// dial opens a connection: to a broker on this machine, from the node's own address.
func (n *node) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if all := n.fleet.Replicas; len(all) > 0 {
		addr = all[int(n.fleet.dialed.Add(1))%len(all)]
	}
	d := net.Dialer{Timeout: dialTimeout}
	if n.fleet.onLoopback() {
		d.LocalAddr = address(n.index)
	}
	raw, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, of: &n.open}
	n.open.mu.Lock()
	defer n.open.mu.Unlock()
	n.open.conns[c] = struct{}{}
	return c, nil
}

// cut breaks the node's connections, even in the middle of a request.
func (n *node) cut() {
	n.open.mu.Lock()
	conns := slices.Collect(maps.Keys(n.open.conns))
	n.open.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}
