package download

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

const (
	maxRedirects   = 5
	connectTimeout = 10 * time.Second
)

// Client sends requests to sources of artifacts, and nowhere else.
type Client struct{ http *http.Client }

// New returns a client that makes no connection to the addresses of own.
func New(own Own) *Client {
	dialer := &net.Dialer{
		Timeout: connectTimeout, KeepAlive: 15 * time.Second,
		ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error { return check(ctx, address, own) },
	}
	return Over(&http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: 64 << 10,
		// Without it, the transport would unpack what the source stores packed.
		DisableCompression: true,
		IdleConnTimeout:    30 * time.Second, MaxIdleConnsPerHost: 2,
	})
}

// Over returns a client over another transport, for tests: the transport decides which addresses are
// reached.
func Over(transport http.RoundTripper) *Client {
	return &Client{&http.Client{Transport: httpsOnly{transport}, CheckRedirect: checkRedirect}}
}

// HTTP returns the client for a library that sends requests of its own.
func (c *Client) HTTP() *http.Client { return c.http }

// httpsOnly refuses requests over anything but https, whoever makes them.
type httpsOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t httpsOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return nil, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the source leads to an address that is not https")
	}
	return t.next.RoundTrip(req)
}

// checkRedirect decides whether a redirect is followed, and what goes with the request.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the source redirects more than %d times", maxRedirects)
	}
	req.Header.Del("Referer")
	req.URL.User = nil // would become an Authorization
	// The standard library keeps the header for subdomains.
	for _, before := range append(via[1:len(via):len(via)], req) {
		if before.URL.Host != via[0].URL.Host {
			req.Header.Del("Authorization")
		}
	}
	return nil
}
