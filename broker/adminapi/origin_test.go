package adminapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
)

func TestTheAddressIsTakenFromTheHeaderOfANamedProxyOnly(t *testing.T) {
	for name, c := range map[string]struct {
		proxies []string
		peer    string
		header  []string
		want    string
	}{
		"no proxy is named":                {nil, "192.0.2.1:9", []string{"203.0.113.9"}, "192.0.2.1"},
		"another proxy is named":           {[]string{"192.0.2.8"}, "192.0.2.1:9", []string{"203.0.113.9"}, "192.0.2.1"},
		"the proxy is named":               {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{"203.0.113.9"}, "203.0.113.9"},
		"the sender wrote entries itself":  {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{"127.0.0.1, 10.0.0.1, 203.0.113.9"}, "203.0.113.9"},
		"and sent a header of its own":     {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{"127.0.0.1", "203.0.113.9"}, "203.0.113.9"},
		"and claims to be a proxy":         {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{"10.0.0.1, 192.0.2.1, 203.0.113.9"}, "203.0.113.9"},
		"two proxies in a row":             {[]string{"192.0.2.0/28"}, "192.0.2.1:9", []string{"10.0.0.1, 203.0.113.9, 192.0.2.7"}, "203.0.113.9"},
		"the proxy itself asks":            {[]string{"192.0.2.1"}, "192.0.2.1:9", nil, "192.0.2.1"},
		"an empty header":                  {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{""}, "192.0.2.1"},
		"words instead of an address":      {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{"10.0.0.1, unknown"}, "192.0.2.1"},
		"an address with a port":           {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		"IPv6 with a zone":                 {[]string{"2001:db8::1"}, "[2001:db8::1]:9", []string{"[fe80::7%eth0]:4711"}, "fe80::7"},
		"an IPv4 proxy on an IPv6 socket":  {[]string{"192.0.2.1"}, "[::ffff:192.0.2.1]:9", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		"a long header is read at its end": {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{strings.Repeat("10.0.0.1, ", 10000) + "203.0.113.9"}, "203.0.113.9"},
		"all are proxies, without end":     {[]string{"192.0.2.1"}, "192.0.2.1:9", []string{strings.Repeat("192.0.2.1,", 10000)}, "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			proxies, err := ParseProxies(c.proxies)
			if err != nil {
				t.Fatal(err)
			}
			a := &API{c: Config{Proxies: proxies}}
			r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.header}}
			if got := a.addressOf(r); got.String() != c.want {
				t.Errorf("the source is %v, want %v", got, c.want)
			}
		})
	}
}

func TestAProxyIsAnAddressAndNotEverybody(t *testing.T) {
	for _, text := range []string{"0.0.0.0/0", "::/0", "proxy.example", "192.0.2.1/33", ""} {
		if _, err := ParseProxies([]string{text}); broker.AsError(err).Code != "config_invalid" {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParseProxies(make([]string, maxProxies+1)); broker.AsError(err).Code != "config_invalid" {
		t.Error("any number of proxies is compared with each request")
	}
}

func TestAUserAgentIsBoundedAndClean(t *testing.T) {
	a := &API{}
	r := &http.Request{RemoteAddr: "192.0.2.1:9", Header: http.Header{"User-Agent": {"x\x1b[31m\n" + strings.Repeat("y", 1<<20)}}}
	if got := a.originOf(r).UserAgent; len(got) > 210 || strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("%d bytes: %q", len(got), got[:40])
	}
}

// FuzzForwarded holds that a sender behind a proxy never becomes a proxy's peer by what it writes: the last entry, which
// the proxy wrote, decides.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"", "10.0.0.1", "192.0.2.1, 192.0.2.1", ",,,", "[::1]:80", "unknown, _hidden"} {
		f.Add(seed)
	}
	a := &API{c: Config{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}}
	f.Fuzz(func(t *testing.T, written string) {
		r := &http.Request{RemoteAddr: "192.0.2.1:9", Header: http.Header{"X-Forwarded-For": {written + ", 203.0.113.9"}}}
		if got := a.addressOf(r); got.String() != "203.0.113.9" {
			t.Errorf("%q makes the source %v", written, got)
		}
	})
}
