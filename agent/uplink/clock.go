package uplink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// explain turns a failed connection into an error with a code. If the certificate's dates failed,
// explain asks the broker for its time and names the offset: a wrong clock is the commonest reason
// why a fresh machine cannot enrol.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return ctx.Err()
	}
	code := taskcatalog.CodeOf(err, CodeUnreachable)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	dates := ok && invalid.Reason == x509.Expired || code == pki.CodeCertificateNotYetValid || code == pki.CodeCertificateExpired
	switch {
	case dates:
		return c.clockError(ctx, err)
	case rejected(err):
		return taskcatalog.Errorf(CodeRejected, "cannot connect to the broker at %s: it rejects this node's certificate: %v", c.base.Host,
			err)
	case untrusted:
		return taskcatalog.Errorf(CodeUntrusted, "cannot trust the broker at %s: %v", c.base.Host, err)
	}
	if refusal, ok := errors.AsType[*taskcatalog.Error](err); ok {
		return refusal // of package pki, with a complete message
	}
	return taskcatalog.Errorf(CodeUnreachable, "cannot reach the broker at %s: %v", c.base.Host, err)
}

// rejected reports whether the other side ended the connection with an alert.
func rejected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

func (c *Client) clockError(ctx context.Context, cause error) error {
	broker, err := c.brokerTime(ctx)
	if err != nil {
		return taskcatalog.Errorf(CodeClockWrong,
			"cannot trust the broker at %s: its certificate is not valid at %s, the time of this node's clock (compare both clocks): %v",
			c.base.Host, stamp(c.Now()), cause)
	}
	return taskcatalog.Errorf(CodeClockWrong,
		"cannot trust the broker at %s: this node's clock says %s and the broker's %s, so it is %s (set this node's clock)",
		c.base.Host, stamp(c.Now()), stamp(broker), Offset(c.Now(), broker))
}

// Offset describes in words how far a node's clock is from the broker's.
func Offset(node, broker time.Time) string {
	d := broker.Sub(node).Round(time.Second)
	if d.Abs() > time.Hour {
		d = d.Round(time.Minute)
	}
	switch {
	case d > 0:
		return d.String() + " behind"
	case d < 0:
		return (-d).String() + " ahead"
	}
	return "right"
}

// brokerTime asks the authentic broker for its time, ignoring dates. The answer is only shown to
// people.
func (c *Client) brokerTime(ctx context.Context) (time.Time, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		ServerName:         c.base.Hostname(),
		InsecureSkipVerify: true, // allowed: undated proves the chain, dates apart
		VerifyConnection:   c.verifyUndated,
	}
	transport := &http.Transport{DialContext: c.Dial, TLSClientConfig: config, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, c.base.String()+"/internal/v1/nodes/enroll", nil)
	if err != nil {
		return time.Time{}, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return time.Time{}, err
	}
	_ = resp.Body.Close()
	return http.ParseTime(resp.Header.Get("Date"))
}

// verifyUndated verifies a broker's chain and name as usual, but at the middle of the certificate's
// life instead of now.
func (c *Client) verifyUndated(cs tls.ConnectionState) error {
	leaf := cs.PeerCertificates[0]
	middle := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if c.Trust != nil {
		roots = c.Trust.Roots(middle)
	}
	for _, cert := range cs.PeerCertificates[1:] {
		intermediates.AddCert(cert)
		if c.Trust == nil && pki.Fingerprint(cert) == c.CASHA256 {
			roots.AddCert(cert)
		}
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: middle, DNSName: c.base.Hostname(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
