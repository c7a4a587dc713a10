package download

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/hostler/hostler/taskcatalog"
)

// Cause describes an error of a request as what its server does. It repeats nothing that was sent or
// received: an address may itself give access to the data.
func Cause(err error) string {
	var u *url.Error
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	var errno syscall.Errno
	switch {
	case errors.As(err, &u) && u.Timeout():
		return "did not answer in time"
	case errors.As(err, &cert):
		return "has a certificate that does not verify"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "does not speak TLS"
	case errors.As(err, &dns):
		return "has a name that cannot be looked up"
	case errors.As(err, &op) && op.Op == "dial" && errors.As(err, &errno):
		return "cannot be reached: " + errno.Error()
	case errors.As(err, &op), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "breaks off"
	}
	return "gives no answer that can be read"
}

// Masked returns an error of a request that is safe to report. The refusals of Client stay.
func Masked(err error) error {
	if refused, ok := errors.AsType[*taskcatalog.Error](err); ok {
		return refused
	}
	if own, ok := errors.AsType[fault](err); ok {
		return own
	}
	return errors.New("the source " + Cause(err))
}
