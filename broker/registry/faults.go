package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

var errTooLarge = errors.New("too large")

// status is an answer that may be another one later.
type status int

func (s status) Error() string { return fmt.Sprintf("status %d", int(s)) }

func refused(r broker.RegistryCredential, code, why string) error {
	return broker.Errorf(broker.Refused, code, "cannot use the credential of registry %s: %s", r.Registry, why)
}

// unreachable says why there was no answer.
func unreachable(ctx context.Context, r broker.RegistryCredential, who string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // whoever asked has gone
	}
	return broker.Errorf(broker.Unavailable, "registry_unreachable", "cannot use the credential of registry %s: %s %s", r.Registry, who, cause(err))
}

// cause is without anything that was sent or received.
func cause(err error) string {
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	var u *url.Error
	var answer status
	switch {
	case errors.As(err, &u) && u.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "did not answer in time"
	case errors.As(err, &cert):
		return "has a certificate that does not verify (add its authority to those of the broker's machine): " + taskcatalog.Clean(cert.Err.Error(), 200)
	case errors.As(err, &op) && op.Op == "dial":
		return "cannot be reached: " + taskcatalog.Clean(op.Err.Error(), 200)
	case errors.Is(err, http.ErrSchemeMismatch):
		return "speaks no TLS"
	case errors.As(err, &answer):
		return "answers with " + answer.Error()
	case errors.Is(err, errTooLarge):
		return "answers with more than any of its kind"
	}
	return "gives no answer that can be read"
}
