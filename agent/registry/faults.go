package registry

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/hostler/hostler/agent/download"
)

// known are the codes of a registry's answer that may appear in an error message.
var known = []string{
	errcode.ErrorCodeBlobUnknown, errcode.ErrorCodeDigestInvalid, errcode.ErrorCodeManifestBlobUnknown, errcode.ErrorCodeManifestInvalid,
	errcode.ErrorCodeManifestUnknown, errcode.ErrorCodeNameInvalid, errcode.ErrorCodeNameUnknown, errcode.ErrorCodeSizeInvalid,
	errcode.ErrorCodeUnauthorized, errcode.ErrorCodeDenied, errcode.ErrorCodeUnsupported, "TOOMANYREQUESTS",
}

// maskedError returns an error that is safe to report.
func maskedError(err error) error { return errors.New("the registry " + cause(err)) }

// cause describes err without any sent or received text: a registry may repeat a token, and the
// address of a redirect may itself give access to the data.
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
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return "does not have it"
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return "asks for a login with a password (Basic), which nodes do not have"
	}
	return download.Cause(err)
}

// maskedBody is a body whose read errors are safe to report as well.
type maskedBody struct {
	io.Reader
	io.Closer
}

// Read implements io.Reader.
func (q maskedBody) Read(p []byte) (int, error) {
	n, err := q.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = maskedError(err)
	}
	return n, err
}
