package redfish

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	maxAnswer    = 1 << 20 // bytes
	maxHeader    = 32 << 10
	maxRedirects = 3
	dialTime     = 10 * time.Second
)

var (
	errElsewhere = errors.New("the BMC names another host")
	errTooLong   = errors.New("the answer of the BMC is too long")
)

// guarded keeps requests on one host, and answers short.
type guarded struct {
	host string
	next http.RoundTripper
}

func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" || r.URL.Host != g.host || r.URL.User != nil {
		return nil, errElsewhere
	}
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &short{ReadCloser: resp.Body, left: maxAnswer}
	return resp, nil
}

// short is a body that fails when it is too long.
type short struct {
	io.ReadCloser
	left int
}

func (s *short) Read(p []byte) (int, error) {
	if s.left < 0 {
		return 0, errTooLong
	}
	if len(p) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.ReadCloser.Read(p)
	if s.left -= n; s.left < 0 {
		return n, errTooLong
	}
	return n, err
}

// client makes the HTTP client of one BMC.
func client(
	host string, trust Trust, now func() time.Time, dial func(ctx context.Context, network, address string) (net.Conn, error),
) (*http.Client, error) {
	config, err := trust.config(now)
	if err != nil {
		return nil, err
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTime}).DialContext
	}
	return &http.Client{
		Transport: &guarded{host: host, next: &http.Transport{ // without Proxy: no proxy of the environment
			DialContext: dial, TLSClientConfig: config, TLSHandshakeTimeout: dialTime, DisableKeepAlives: true,
			DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		}},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if via[0].Method != http.MethodGet || r.URL.Host != host || r.URL.Scheme != "https" || len(via) > maxRedirects {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}, nil
}
