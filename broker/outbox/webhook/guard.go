package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	lookUpIn = 3 * time.Second
	dialIn   = 3 * time.Second
	mostAddr = 4 // addresses of a host that are tried
)

// special are the IPv4 networks that are not public.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)

// Of IPv6 only public6 is public, without special6: addresses that stand for others (Teredo, 6to4)
// and addresses for documentation. NAT64 and IPv4-mapped addresses are outside of public6.
var (
	public6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Guard decides which addresses the broker sends to. The zero Guard permits the public addresses.
type Guard struct {
	Allow, Refuse []netip.Prefix
	// Own are the networks of this machine; nil: as its interfaces say.
	Own func() ([]netip.Prefix, error)
	// LookUp resolves a name; nil: by the system's resolver.
	LookUp func(ctx context.Context, host string) ([]netip.Addr, error)
}

// errRefused is the error of every host that is refused. It says neither whether a name exists nor
// which addresses it has: the names of the broker's network are no business of a project.
func errRefused(host string) error {
	return broker.Errorf(broker.Refused, "webhook_address_refused",
		"cannot send to %s: it has no address that webhooks may reach (use a name with public addresses alone; a platform admin may allow further networks in the broker's config)",
		taskcatalog.Clean(host, 253))
}

// Permits reports whether the broker sends to an address.
func (g *Guard) Permits(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	switch {
	case slices.ContainsFunc(g.Refuse, in):
		return false
	case slices.ContainsFunc(g.Allow, in):
		return true
	case a.Is4() && slices.ContainsFunc(special, in), a.Is6() && (!in(public6) || slices.ContainsFunc(special6, in)):
		return false
	}
	own := g.Own
	if own == nil {
		own = interfaces
	}
	nets, err := own()
	return err == nil && !slices.ContainsFunc(nets, in)
}

// interfaces are the networks of this machine's interfaces: neighbours in a network that has public
// addresses are as close to the broker as those in a private one.
func interfaces() (all []netip.Prefix, err error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		n, is := a.(*net.IPNet)
		if !is {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		bits, _ := n.Mask.Size()
		if p, err := ip.Unmap().Prefix(bits); ok && err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// Resolve returns the addresses of a host. One address that is not permitted refuses the host. Code:
// webhook_address_refused.
func (g *Guard) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := g.addresses(ctx, host)
	if err != nil || len(found) == 0 || slices.ContainsFunc(found, func(a netip.Addr) bool { return !g.Permits(a) }) {
		return nil, errRefused(host)
	}
	return found[:min(len(found), mostAddr)], nil
}

func (g *Guard) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx, done := context.WithTimeout(ctx, lookUpIn)
	defer done()
	if g.LookUp != nil {
		return g.LookUp(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// dial resolves a host anew and connects to one of its addresses. Control sees the address that the
// connection really gets.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	found, err := g.Resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialIn, Control: g.control(host)}
	var failed error
	for _, a := range found {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(a.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func (g *Guard) control(host string) func(string, string, syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !g.Permits(to.Addr()) {
			return errRefused(host)
		}
		return nil
	}
}
