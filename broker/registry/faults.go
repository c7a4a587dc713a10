package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

var errTooLarge = errors.New("too large")

func refused(r broker.RegistryCredential, code, why string) error {
	return broker.Errorf(broker.Refused, code, "cannot use the credential of registry %s: %s", r.Registry, why)
}

// maxRetryAfter bounds the Retry-After of a busy server.
const maxRetryAfter = 5 * time.Minute

// busy is the error for an answer that may differ later.
func busy(r broker.RegistryCredential, who string, res *http.Response, now time.Time) error {
	e := broker.Errorf(broker.Unavailable, "registry_unreachable", "cannot use the credential of registry %s: %s answers with status %d",
		r.Registry, who, res.StatusCode)
	header := res.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		e.RetryAfter = at.Sub(now)
	}
	e.RetryAfter = min(max(e.RetryAfter, 0), maxRetryAfter)
	return e
}

// unreachable says why there was no answer.
func unreachable(ctx context.Context, r broker.RegistryCredential, who string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // the caller has gone
	}
	return broker.Errorf(broker.Unavailable, "registry_unreachable", "cannot use the credential of registry %s: %s %s", r.Registry, who,
		cause(err))
}

// cause describes an error without anything that was sent or received.
func cause(err error) string {
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	var u *url.Error
	switch {
	case errors.As(err, &u) && u.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "did not answer in time"
	case errors.As(err, &cert):
		return "has a certificate that does not verify: " + certificateFault(cert.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return "cannot be reached: " + taskcatalog.Clean(op.Err.Error(), 200)
	case errors.Is(err, http.ErrSchemeMismatch):
		return "does not speak TLS"
	case errors.Is(err, errTooLarge):
		return "sends an answer that is too large"
	}
	return "gives no answer that can be read"
}

// certificateFault describes a certificate error in our own words: a certificate contains arbitrary
// text of its owner.
func certificateFault(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "its authority is unknown (add the authority to the trusted certificates of the broker's machine)"
	case errors.As(err, &name):
		return "the certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired, or is not valid yet (check the clock as well)"
	}
	return "the certificate breaks a rule for certificates"
}
