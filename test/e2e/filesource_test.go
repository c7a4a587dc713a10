//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

// sourceAddress is where the guest finds sources. The agent takes nothing from the broker's address, which is
// this machine's: the guest's own firewall leads sourceAddress to it.
const sourceAddress = "10.78.0.1"

// sources are servers over TLS on this machine, by the host names that the guest knows.
type sources struct {
	handlers  map[string]http.Handler
	listener  net.Listener
	port      string // of the guest's address as well, beside 443
	authority []byte
}

// sources listens for sources.
func (s *site) sources() *sources {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return &sources{handlers: map[string]http.Handler{}, listener: listener, port: port}
}

// ServeHTTP implements http.Handler.
func (o *sources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(r.Host, ":")
	if h := o.handlers[name]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// serve serves the sources, until the test ends.
func (o *sources) serve(s *site) {
	s.t.Helper()
	server, authority, err := lab.ServeTLS(o, o.listener, slices.Sorted(maps.Keys(o.handlers))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = server.Close() })
	o.authority = authority
}

// known makes the sources known to the guest: their names, their way and their authority. The agent must not
// have made a connection over TLS to a source before.
func (o *sources) known(s *site) {
	s.t.Helper()
	rule := fmt.Sprintf("ip daddr %s tcp dport { 443, %s } dnat to %s:%s", sourceAddress, o.port, qemu.HostAddress, o.port)
	s.put("/etc/nftables.conf", []byte("#!/usr/sbin/nft -f\ntable ip source {\n chain output {\n  type nat hook output priority -100\n  "+rule+"\n }\n}\n"), 0o755)
	s.root("systemctl", "enable", "--now", "nftables.service")
	s.put("/root/source.pem", o.authority, 0o600)
	names := strings.Join(slices.Sorted(maps.Keys(o.handlers)), " ")
	s.root("sh", "-c", "cat /root/source.pem >> /etc/ssl/certs/ca-certificates.crt; echo '"+sourceAddress+" "+names+"' >> /etc/hosts")
}

// fileSource starts a source of a file, and makes it known to the guest.
func (s *site) fileSource(content []byte) *lab.FileSource {
	s.t.Helper()
	f, o := &lab.FileSource{Content: content}, s.sources()
	o.handlers[lab.SourceName] = f
	o.serve(s)
	o.known(s)
	return f
}

// awaits waits until a condition about the source holds.
func (s *site) awaits(f *lab.FileSource, what string, holds func() bool) {
	s.t.Helper()
	for {
		ok, next := f.Look(holds)
		if ok {
			return
		}
		select {
		case <-next:
		case <-s.ctx.Done():
			s.t.Fatalf("waited in vain for %s: %+v", what, f.Asked)
		}
	}
}
