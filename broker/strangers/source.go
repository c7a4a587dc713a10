package strangers

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// SourceOf is what an address counts as: an IPv4 address itself, and an IPv6 address its /64.
// What is no IP address counts as one source.
func SourceOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	source, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return source
}

// SourceOfRequest is where a request comes from.
func SourceOfRequest(r *http.Request) netip.Prefix { return parse(r.RemoteAddr) }

// sourceOf is the source of a connection's other end.
func sourceOf(addr net.Addr) netip.Prefix {
	if addr == nil {
		return netip.Prefix{}
	}
	return parse(addr.String())
}

func parse(text string) netip.Prefix {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Prefix{}
	}
	return SourceOf(at.Addr())
}

// Known are the sources of names that were vouched for, each with the one it had last. Rooms
// may share one: a node's address is known to the relay by the node's polls. Its size is
// bounded by the number of names, which only the broker gives.
type Known struct {
	mu    sync.Mutex
	of    map[string]netip.Prefix
	names map[netip.Prefix]int
}

// NewKnown makes one that knows no source.
func NewKnown() *Known {
	return &Known{of: map[string]netip.Prefix{}, names: map[netip.Prefix]int{}}
}

func (k *Known) heard(name string, source netip.Prefix) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, was := k.of[name]
	if was && before == source {
		return
	}
	if was {
		if k.names[before]--; k.names[before] == 0 {
			delete(k.names, before)
		}
	}
	k.of[name] = source
	k.names[source]++
}

// at is how many names are known at a source.
func (k *Known) at(source netip.Prefix) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.names[source]
}
