package selfupdate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// known are the codes that a registry's answer may have and that are repeated.
var known = []string{
	errcode.ErrorCodeBlobUnknown, errcode.ErrorCodeDigestInvalid, errcode.ErrorCodeManifestBlobUnknown, errcode.ErrorCodeManifestInvalid,
	errcode.ErrorCodeManifestUnknown, errcode.ErrorCodeNameInvalid, errcode.ErrorCodeNameUnknown, errcode.ErrorCodeSizeInvalid,
	errcode.ErrorCodeUnauthorized, errcode.ErrorCodeDenied, errcode.ErrorCodeUnsupported, "TOOMANYREQUESTS",
}

// told is an error as it may be repeated.
func told(err error) error { return errors.New("the registry " + cause(err)) }

// cause is without anything that was sent or received: a registry may repeat a token, and
// the address that it redirects to may open by itself what is there.
func cause(err error) string {
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		text := fmt.Sprintf("answers with status %d", answer.StatusCode)
		for _, e := range answer.Errors {
			if slices.Contains(known, e.Code) {
				return text + " (" + e.Code + ")"
			}
		}
		return text
	}
	var u *url.Error
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	var errno syscall.Errno
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return "does not have it"
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return "wants a login (Basic), which no node is given"
	case errors.As(err, &u) && u.Timeout():
		return "did not answer in time"
	case errors.As(err, &cert):
		return "has a certificate that does not verify"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "speaks no TLS"
	case errors.As(err, &dns):
		return "has a name that cannot be looked up"
	case errors.As(err, &op) && op.Op == "dial" && errors.As(err, &errno):
		return "cannot be reached: " + errno.Error()
	case errors.As(err, &op), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "breaks off"
	}
	return "gives no answer that can be read"
}

// quiet is a body whose errors tell nothing of it, either.
type quiet struct {
	io.Reader
	io.Closer
}

// Read implements io.Reader.
func (q quiet) Read(p []byte) (int, error) {
	n, err := q.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = told(err)
	}
	return n, err
}
