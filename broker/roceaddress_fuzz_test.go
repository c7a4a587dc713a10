package broker_test

import (
	"net/netip"
	"testing"

	"github.com/hostler/hostler/broker"
)

// FuzzRoCE checks that an assignment is refused or brought into a canonical form, and that the
// canonical form is accepted unchanged.
func FuzzRoCE(f *testing.F) {
	for _, seed := range [][3]string{
		{"C01.", "enp28s0np0", "172.30.9.61/31"},
		{"c01", "enp28s0np0", " 172.30.9.61/31"},
		{"", "", ""},
		{"c01", "../x", "10.0.0.1/8"},
		{"c01", "eth0", "10.0.0.255/24"},
		{"c01", "eth0", "::ffff:10.0.0.1/104"},
		{"c01", "eth0", "10.0.0.1/-1"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, hostname, iface, cidr string) {
		one := []broker.RoCEAssignment{{Hostname: hostname, Interface: iface, IPv4CIDR: cidr}}
		if broker.CheckRoCE(one) != nil {
			return
		}
		p, err := netip.ParsePrefix(one[0].IPv4CIDR)
		if err != nil || !p.Addr().Is4() || p.Bits() < 8 {
			t.Errorf("%q is kept as %q", cidr, one[0].IPv4CIDR)
		}
		again := []broker.RoCEAssignment{one[0]}
		if err := broker.CheckRoCE(again); err != nil || again[0] != one[0] {
			t.Errorf("%+v becomes %+v, %v", one[0], again[0], err)
		}
	})
}
