package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

var codePattern = lazyregexp.New(`^[a-z][a-z0-9_]{0,63}$`)

// Code returns the stable code of a failure, such as node_not_found, or "" if err is not a failure
// that this package reports with a code.
func Code(err error) string {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e.Code
	}
	return ""
}

// problemOf turns an unsuccessful answer into an error. The text is cleaned, because a proxy or a
// stranger on the port may have written it.
func problemOf(res *http.Response) *broker.Error {
	kind := kindOf(res.StatusCode)
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var p api.Problem
	if err := json.Unmarshal(raw, &p); err != nil || !codePattern.MatchString(p.Code) {
		return broker.Errorf(kind, "unexpected_answer",
			"cannot use the answer %d %s: the answer does not come from a Hostler broker (check the address with hostler context show)",
			res.StatusCode, http.StatusText(res.StatusCode))
	}
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, f := range p.Errors {
		if f.Message == "" || strings.Contains(text, f.Message) {
			continue
		}
		if f.Code != "" {
			f.Message = f.Code + ": " + f.Message
		}
		if name := asked(f.Location); !strings.HasPrefix(f.Message, name+" ") {
			f.Message = name + " " + f.Message
		}
		text += "; " + strings.TrimSpace(f.Message)
	}
	return &broker.Error{Kind: kind, Code: p.Code, Message: taskcatalog.Clean(text, 2000)}
}

// asked returns the name of a field without its place in the request: an operator who typed --mode
// knows nothing of a body.
func asked(location string) string {
	for _, part := range []string{"body.", "query.", "path.", "header."} {
		location = strings.TrimPrefix(location, part)
	}
	return strings.TrimSuffix(location, "body") // the whole body
}

// kindOf is the only place that turns an HTTP status into a kind of error.
func kindOf(status int) broker.Kind {
	switch status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return broker.Invalid
	case http.StatusUnauthorized:
		return broker.Unauthorized
	case http.StatusForbidden:
		return broker.Forbidden
	case http.StatusNotFound:
		return broker.NotFound
	case http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed, http.StatusLocked:
		return broker.Refused
	case http.StatusTooManyRequests:
		return broker.TooMany
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return broker.Unavailable
	}
	return broker.Internal
}

// unreached explains a missing answer. The cancellation of the caller's own context is passed on
// unchanged.
func (c *Client) unreached(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	if text, ok := untrusted(err); ok {
		return broker.Errorf(broker.Refused, "broker_untrusted",
			"cannot trust the broker at %s: %s (compare hostler context show with the broker, or log in again)", c.opts.Broker, text)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "the broker did not answer in time"
	}
	return broker.Errorf(broker.Unavailable, "broker_unreachable", "cannot reach the broker at %s: %s (see hostler doctor)", c.opts.Broker,
		taskcatalog.Clean(text, 300))
}

// untrusted reports whether the other side's TLS certificate was refused, and why.
func untrusted(err error) (string, bool) {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		pin       *pki.Error
	)
	switch {
	case errors.As(err, &authority):
		return "its certificate does not lead to the pinned root", true
	case errors.As(err, &name):
		return fmt.Sprintf("its certificate does not carry the name %s", taskcatalog.Clean(name.Host, 200)), true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate is not valid at this machine's time (check both clocks)", true
	case errors.As(err, &pin):
		return pin.Message, true
	case errors.As(err, &verify):
		return taskcatalog.Clean(verify.Err.Error(), 300), true
	}
	return "", false
}
