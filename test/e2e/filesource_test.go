//go:build e2e

package e2e

import (
	"fmt"
	"net"

	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

// sourceAddress is where the guest finds the source of files. The agent takes no file from the broker's
// address, which is this machine's: the guest's own firewall leads sourceAddress to it.
const sourceAddress = "10.77.0.1"

// fileSource starts a source of a file, and makes it known to the guest: its name, its way and its
// authority. The agent must not have made a connection over TLS to a source before.
func (s *site) fileSource(content []byte) *lab.FileSource {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	f := &lab.FileSource{Content: content}
	server, authority, err := lab.Serve(f, listener)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	rules := fmt.Sprintf("table ip source {\n chain output {\n  type nat hook output priority -100\n  ip daddr %s tcp dport 443 dnat to %s:%s\n }\n}\n",
		sourceAddress, qemu.HostAddress, port)
	s.put("/etc/nftables.conf", []byte("#!/usr/sbin/nft -f\n"+rules), 0o755)
	s.root("systemctl", "enable", "--now", "nftables.service")
	s.put("/root/source.pem", authority, 0o600)
	s.root("sh", "-c", "cat /root/source.pem >> /etc/ssl/certs/ca-certificates.crt; echo '"+sourceAddress+" "+lab.SourceName+"' >> /etc/hosts")
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
