package server

import (
	"bytes"
	"net"
	"os"
	"slices"
	"testing"
)

// Nodes reach the relay of this broker, where there may be others.
func TestWhereNodesReachTheRelay(t *testing.T) {
	self, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 7442} }
	for name, row := range map[string]struct {
		c      Config
		listen string
		want   string
	}{
		"beside the agents":             {Config{}, "127.0.0.1", "127.0.0.1:7442"},
		"on all addresses":              {Config{}, "0.0.0.0", self + ":7442"},
		"as the agents' is advertised":  {Config{Advertise: "broker.example:8441"}, "0.0.0.0", "broker.example:7442"},
		"as it is advertised itself":    {Config{Advertise: "broker.example", RelayAdvertise: "relay.example:8442"}, "0.0.0.0", "relay.example:8442"},
		"without a port":                {Config{RelayAdvertise: "relay.example"}, "127.0.0.1", "relay.example:7442"},
		"one of several, on an address": {Config{Advertise: "any.example", Database: "postgres://db/x"}, "192.0.2.7", "192.0.2.7:7442"},
		"one of several":                {Config{Advertise: "any.example", Database: "postgres://db/x"}, "0.0.0.0", self + ":7442"},
		"one of several, advertised":    {Config{Advertise: "any.example", RelayAdvertise: "b1.example", Database: "postgres://db/x"}, "0.0.0.0", "b1.example:7442"},
		"version 6":                     {Config{}, "2001:db8::1", "[2001:db8::1]:7442"},
	} {
		got, err := row.c.addressesOf(at("127.0.0.1"), at(row.listen), at(row.listen))
		if err != nil || got.relay != row.want {
			t.Errorf("%s: %q, want %q (%v)", name, got.relay, row.want, err)
		}
		if host, _, _ := net.SplitHostPort(row.want); host != "127.0.0.1" && !slices.Contains(got.names, host) {
			t.Errorf("%s: the certificate is for %v", name, got.names)
		}
	}
	for agents, want := range map[string]string{"0.0.0.0:7441": "0.0.0.0:7442", "127.0.0.1:0": "127.0.0.1:0", "[::]:9": "[::]:7442"} {
		if got := relayBeside(agents); got != want {
			t.Errorf("%s: %s, want %s", agents, got, want)
		}
	}
}

func TestTheKeyOfTheRelayStays(t *testing.T) {
	dir, err := OpenDataDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() //nolint:errcheck // it is over
	first, err := dir.relayKey()
	if err != nil || len(first) != relayKeySize {
		t.Fatal(len(first), err)
	}
	if again, err := dir.relayKey(); err != nil || !bytes.Equal(first, again) {
		t.Errorf("another one (%v)", err)
	}
	if info, err := os.Stat(dir.join(relayKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if err := os.WriteFile(dir.join(relayKeyFile), first[:5], 0o600); err != nil {
		t.Fatal(err)
	}
	if mended, err := dir.relayKey(); err != nil || len(mended) != relayKeySize {
		t.Error(len(mended), err)
	}
}
