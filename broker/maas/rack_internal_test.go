package maas

import (
	"net/netip"
	"testing"
)

func TestTheNearestRackIsTaken(t *testing.T) {
	near := []netip.Prefix{netip.MustParsePrefix("10.10.0.0/22"), netip.MustParsePrefix("fd00::/64")}
	for name, row := range map[string]struct {
		has  []string
		want string
	}{
		"none":                 {nil, "invalid IP"},
		"on the same subnet":   {[]string{"192.0.2.1", "10.10.3.1"}, "10.10.3.1"},
		"on the second subnet": {[]string{"192.0.2.1", "fd00::1"}, "fd00::1"},
		"on no subnet of its":  {[]string{"192.0.2.1", "192.0.2.2"}, "192.0.2.1"},
		"what is no address":   {[]string{"", "rack", "127.0.0.1", "0.0.0.0", "fe80::1%eth0", "fe80::1", "224.0.0.1", "::ffff:10.10.0.9"}, "10.10.0.9"},
	} {
		if got := nearest(row.has, near); got.String() != row.want {
			t.Errorf("%s: %v, want %s", name, got, row.want)
		}
	}
}
