package download

import (
	"context"
	"net"
	"net/netip"

	"github.com/hostler/hostler/taskcatalog"
)

// forbidden are networks in which no artifact is. The addresses of metadata services are among them:
// whoever reaches such a service gets the machine's own rights in a cloud.
var forbidden = networks(
	"0.0.0.0/8", "::/96", // this host
	"127.0.0.0/8",    // loopback; ::1 is in ::/96
	"169.254.0.0/16", // link-local, with the metadata services of most clouds
	"fe80::/10",
	"224.0.0.0/4", "ff00::/8", // multicast
	"240.0.0.0/4",            // reserved, and broadcast
	"100.100.100.200/32",     // Alibaba's metadata service
	"168.63.129.16/32",       // Azure's
	"192.0.0.192/32",         // Oracle's
	"fd00:ec2::/32",          // Amazon's
	"fd20:ce::254/128",       // Google's
	"2001::/32", "fec0::/10", // Teredo and site-local: out of use
	"64:ff9b:1::/48", "100::/64", // local translations, and the discard prefix
)

// translations are networks whose addresses contain an IPv4 address, with its position.
var translations = []struct {
	network netip.Prefix
	at      int
}{{netip.MustParsePrefix("64:ff9b::/96"), 12}, {netip.MustParsePrefix("2002::/16"), 2}}

func networks(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, one := range all {
		out[i] = netip.MustParsePrefix(one)
	}
	return out
}

// forbiddenAddress reports whether no source of artifacts has this address.
func forbiddenAddress(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, n := range forbidden {
		if n.Contains(ip) {
			return true
		}
	}
	for _, t := range translations {
		if raw := ip.As16(); t.network.Contains(ip) {
			inner, _ := netip.AddrFromSlice(raw[t.at : t.at+4])
			return forbiddenAddress(inner)
		}
	}
	return false
}

// CheckService refuses an address (IP:PORT) at which no service of a site is: link-local, metadata, multicast
// and reserved addresses. Loopback is permitted. It is for connections that look whether a service answers.
func CheckService(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the target has no address of the internet protocol")
	}
	if ip := to.Addr().Unmap().WithZone(""); !ip.IsLoopback() && forbiddenAddress(ip) {
		return taskcatalog.Errorf(taskcatalog.CodeSourceRefused,
			"the target leads to %s, where no service is checked: a link-local, multicast or metadata address", ip)
	}
	return nil
}

// Own returns addresses that no artifact comes from: the broker's.
type Own func(context.Context) ([]netip.Addr, error)

// Without these addresses no connection is made.
var (
	errBroker = fault("the node cannot look up the address of its broker, and cannot keep away from it")
	errNode   = fault("the node cannot list its own addresses, and cannot keep away from them")
)

// check refuses the address of a connection that is about to be made.
func check(ctx context.Context, address string, own Own) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the source has no address of the internet protocol")
	}
	ip := to.Addr().Unmap().WithZone("")
	if forbiddenAddress(ip) {
		return taskcatalog.Errorf(taskcatalog.CodeSourceRefused,
			"the name of the source leads to %s, where no artifact is: a loopback, link-local, multicast or metadata address", ip)
	}
	node, err := net.InterfaceAddrs()
	if err != nil {
		return errNode
	}
	for _, a := range node {
		if n, ok := a.(*net.IPNet); ok {
			if mine, ok := netip.AddrFromSlice(n.IP); ok && mine.Unmap() == ip {
				return taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the name of the source leads to an address of the node itself")
			}
		}
	}
	others, err := own(ctx)
	if err != nil {
		return errBroker
	}
	for _, other := range others {
		if other.Unmap().WithZone("") == ip {
			return taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the name of the source leads to the broker")
		}
	}
	return nil
}
