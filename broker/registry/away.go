package registry

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

var errRedirect = errors.New("it leads to no place of a blob")

// metadata are services of clouds with which a machine shows who it is.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("fd00:ec2::254"),
}

// away returns the client for the target of a redirect. Whoever writes a redirect chooses whom the broker
// asks; this client asks neither its own machine nor a service of metadata.
func away() *http.Client {
	dialer := &net.Dialer{Timeout: patience / 2, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return errRedirect
		}
		ip := to.Addr().Unmap().WithZone("")
		if !ip.IsGlobalUnicast() || ip.IsLoopback() {
			return errRedirect
		}
		if slices.Contains(metadata, ip) {
			return errRedirect
		}
		return nil
	}}
	return &http.Client{
		Timeout: patience / 2,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
			IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
