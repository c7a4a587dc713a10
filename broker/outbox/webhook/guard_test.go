package webhook_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox/webhook"
)

// own is a network of the broker with public addresses.
func own() ([]netip.Prefix, error) {
	return []netip.Prefix{netip.MustParsePrefix("185.10.20.0/24"), netip.MustParsePrefix("2a00:1450:77::/64")}, nil
}

// Each kind of address that is not public, in each of its forms, is refused. Neighbours just outside
// of each network are not.
func TestOnlyPublicAddressesArePermitted(t *testing.T) {
	g := &webhook.Guard{Own: own}
	for _, row := range []struct{ kind, addresses string }{
		{"unspecified and this network", "0.0.0.0 0.0.0.1 0.255.255.255 ::"},
		{"loopback", "127.0.0.1 127.255.255.254 ::1"},
		{"private", "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 fc00::1 fd12:3456:789a::1"},
		{"shared", "100.64.0.1 100.127.255.255"},
		{"link-local", "169.254.0.1 169.254.169.254 fe80::1 fe80::1%eth0 febf::1"},
		{"site-local", "fec0::1"},
		{"multicast and broadcast", "224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 ff02::1 ff0e::1"},
		{"protocol assignments", "192.0.0.1 192.0.0.170 2001::1 2001:1::1 2001:10::1 2001:20::1"},
		{"documentation and benchmarks", "192.0.2.1 198.51.100.1 203.0.113.1 198.18.0.1 198.19.255.255 2001:db8::1 3fff::1"},
		{"IPv4-mapped and IPv4-compatible", "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 ::ffff:0:127.0.0.1"},
		{"NAT64", "64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::a00:1"},
		{"6to4 and Teredo", "192.88.99.1 2002:7f00:1::1 2002:808:808::1 2001:0:7f00:1::1"},
		{"discard and segment routing", "100::1 5f00::1"},
		{"not given out", "4000::1 e000::1"},
		{"the broker's own networks", "185.10.20.1 185.10.20.255 ::ffff:185.10.20.7 2a00:1450:77::5"},
	} {
		for address := range strings.FieldsSeq(row.addresses) {
			if g.Permits(netip.MustParseAddr(address)) {
				t.Errorf("%s: %s is permitted", row.kind, address)
			}
		}
	}
	for address := range strings.FieldsSeq("1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 " +
		"169.253.255.255 169.255.0.1 172.15.255.255 172.32.0.1 192.0.1.1 192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1 " +
		"223.255.255.255 185.10.21.1 ::ffff:8.8.8.8 2a00:1450:78::5 2001:200::1 2001:4860:4860::8888 2606:4700:4700::1111") {
		if !g.Permits(netip.MustParseAddr(address)) {
			t.Errorf("%s is refused", address)
		}
	}
	if g.Permits(netip.Addr{}) {
		t.Error("no address is permitted")
	}
}

// An operator opens named networks and closes others. What is closed stays closed.
func TestAnOperatorNamesNetworks(t *testing.T) {
	p := netip.MustParsePrefix
	g := &webhook.Guard{
		Own:    own,
		Allow:  []netip.Prefix{p("10.20.0.0/16"), p("fd00:1::/32"), p("185.10.20.8/32")},
		Refuse: []netip.Prefix{p("10.20.9.0/24"), p("9.9.9.0/24")},
	}
	for address, fine := range map[string]bool{
		"10.20.0.1": true, "::ffff:10.20.0.1": true, "10.21.0.1": false, "10.20.9.1": false, "::ffff:10.20.9.1": false,
		"fd00:1::1": true, "fd00:2::1": false, "185.10.20.8": true, "185.10.20.9": false, "9.9.9.9": false, "9.9.8.9": true,
		"fe80::1%eth0": false,
	} {
		if g.Permits(netip.MustParseAddr(address)) != fine {
			t.Errorf("%s: permitted is %v", address, !fine)
		}
	}
}

// The addresses of this machine are refused without a word in the config.
func TestTheBrokersOwnAddressesAreRefused(t *testing.T) {
	g := &webhook.Guard{}
	for _, address := range []string{"127.0.0.1", "::1"} {
		if g.Permits(netip.MustParseAddr(address)) {
			t.Errorf("%s is permitted", address)
		}
	}
	broken := &webhook.Guard{Own: func() ([]netip.Prefix, error) { return nil, errNone }}
	if broken.Permits(netip.MustParseAddr("8.8.8.8")) {
		t.Error("an address is permitted although the broker's own networks are not known")
	}
}

func TestAURLSaysWhereAndNothingElse(t *testing.T) {
	for _, row := range []struct{ text, stored string }{
		{"https://ci.acme.example/hooks/hostler", "https://ci.acme.example/hooks/hostler"},
		{"HTTPS://CI.Acme.Example", "https://ci.acme.example"},
		{"https://ci.acme.example:443/a%20b", "https://ci.acme.example:443/a%20b"},
		{"https://ci.acme.example:8443/", "https://ci.acme.example:8443/"},
		{"https://198.51.100.7/", "https://198.51.100.7/"},
		{"https://[2001:db8::1]:4443/x", "https://[2001:db8::1]:4443/x"},
		{"http://ci.acme.example/", ""},
		{"//ci.acme.example/", ""},
		{"https:ci.acme.example", ""},
		{"https:///path", ""},
		{"gopher://ci.acme.example/", ""},
		{"https://user:planted@ci.acme.example/", ""},
		{"https://planted@ci.acme.example/", ""},
		{"https://ci.acme.example/?token=planted", ""},
		{"https://ci.acme.example/?", ""},
		{"https://ci.acme.example/#planted", ""},
		{"https://ci.acme.example/#", ""},
		{"https://ci.acme.example:22/", ""},
		{"https://ci.acme.example:0/", ""},
		{"https://ci.acme.example:70000/", ""},
		{"https://ci.acme.example:/", ""},
		{"https://[fe80::1%25eth0]/", ""},
		{"https://ci acme/", ""},
		{"https://ci.acme.example\r\nHost: x/", ""},
		{"https://ci_acme.example/", ""},
		{"https://-ci.example/", ""},
		{"https://ci.acme.example./", ""},
		{"https://" + strings.Repeat("a.", 130) + "example/", ""},
		{"https://ci.acme.example/" + strings.Repeat("a", 500), ""},
		{"", ""},
	} {
		stored, _, err := webhook.CheckURL(row.text)
		if stored != row.stored || (err == nil) != (row.stored != "") {
			t.Errorf("%q is stored as %q: %v", row.text, stored, err)
		}
		if err != nil && (broker.AsError(err).Code != "webhook_url_invalid" || strings.Contains(err.Error(), "planted")) {
			t.Errorf("%q: %v", row.text, err)
		}
	}
}

func TestAConfigurationThatMeansNothingIsRefused(t *testing.T) {
	for _, c := range []webhook.Config{
		{Allow: []string{"10.20.0.1"}},
		{Allow: []string{"10.20.0.1/16"}},
		{Refuse: []string{"everything"}},
		{Allow: []string{"::ffff:10.0.0.0/104"}},
		{Allow: make([]string, 65)},
	} {
		if err := c.Check(); err == nil || broker.AsError(err).Code != "config_invalid" {
			t.Errorf("%v: %v", c, err)
		}
	}
	fine := webhook.Config{Allow: []string{"10.20.0.0/16", "fd00::/8"}, Refuse: []string{"198.51.100.0/24"}}
	if err := fine.Check(); err != nil {
		t.Error(err)
	}
}
