package strangers

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// SourceOf is the source of an address: an IPv4 address itself, or the /64 of an IPv6 address. All
// addresses that are not IP addresses count as one source.
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

// SourceOfRequest is the source of a request.
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

// Known holds the last source of each name that was vouched for. Rooms may share a Known: a node's
// polls make its address known to the relay. The number of names bounds its size, and only the
// broker gives names.
type Known struct {
	mu      sync.Mutex
	sources map[string]netip.Prefix
	names   map[netip.Prefix]int
}

// NewKnown makes an empty Known.
func NewKnown() *Known {
	return &Known{sources: map[string]netip.Prefix{}, names: map[netip.Prefix]int{}}
}

func (k *Known) heard(name string, source netip.Prefix) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, was := k.sources[name]
	if was && before == source {
		return
	}
	if was {
		if k.names[before]--; k.names[before] == 0 {
			delete(k.names, before)
		}
	}
	k.sources[name] = source
	k.names[source]++
}

// at is the number of names known at a source.
func (k *Known) at(source netip.Prefix) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.names[source]
}
