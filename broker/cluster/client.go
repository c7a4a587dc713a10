package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// patience bounds one request, and dialIn its connection.
const patience, dialIn = 10 * time.Second, 5 * time.Second

// Client sends requests to the API of one cluster, as a stranger is asked: over verified TLS, bounded in
// time and size, and without following a redirect.
type Client struct {
	cluster string
	most    int64 // the bytes of an answer
	http    *http.Client
}

// NewClient returns the client of a cluster. It opens no connection.
func NewClient(c broker.Cluster, most int64) *Client {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CACert != "" {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM([]byte(c.CACert))
	}
	dialer := &net.Dialer{Timeout: dialIn, Control: func(_, address string, _ syscall.RawConn) error { return permitted(address) }}
	return &Client{cluster: c.Name, most: most, http: &http.Client{
		Timeout: patience,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: dialIn, DisableKeepAlives: true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

var errAddress = errors.New("the address is one of a metadata service, of the link or of a group")

// permitted refuses addresses at which no cluster is. A cluster in a private network is the rule.
func permitted(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if a := at.Addr().Unmap(); a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() || a == metadata6 {
		return errAddress
	}
	return nil
}

// metadata6 is where a cloud has its metadata service outside of the networks of links.
var metadata6 = netip.MustParseAddr("fd00:ec2::254")

// Answer is a whole answer.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON reports whether the answer says that it is JSON.
func (a *Answer) JSON() bool {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return kind == "application/json"
}

// Do sends one request. Codes: cluster_unreachable, cluster_answer_invalid.
func (c *Client) Do(req *http.Request) (*Answer, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(req.Context(), err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, c.most+1))
	switch {
	case err != nil:
		return nil, c.unreachable(req.Context(), err)
	case int64(len(raw)) > c.most:
		return nil, c.Invalid("is too large")
	}
	return &Answer{Status: res.StatusCode, Header: res.Header, Body: raw}, nil
}

// Invalid is the error of an answer that is none of the cluster. Code: cluster_answer_invalid.
func (c *Client) Invalid(why string) error {
	return broker.Errorf(broker.Unavailable, "cluster_answer_invalid", "cannot use cluster %s: its answer %s", c.cluster, why)
}

// unreachable describes a failed request without anything that was sent or received.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var (
		cert *tls.CertificateVerificationError
		op   *net.OpError
		u    *url.Error
		why  = "gives no answer that can be read"
	)
	switch {
	case errors.As(err, &u) && u.Timeout(), errors.Is(err, context.DeadlineExceeded):
		why = "did not answer in time"
	case errors.As(err, &cert):
		why = "has a certificate that does not verify (use --ca-file)"
	case errors.Is(err, errAddress):
		why = "cannot be reached: " + errAddress.Error()
	case errors.As(err, &op) && op.Op == "dial":
		why = "cannot be reached: " + taskcatalog.Clean(op.Err.Error(), 200)
	case errors.Is(err, http.ErrSchemeMismatch):
		why = "does not speak TLS"
	}
	return broker.Errorf(broker.Unavailable, "cluster_unreachable", "cannot use cluster %s: its API %s", c.cluster, why)
}
