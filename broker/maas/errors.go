package maas

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Class is what a failure means for the caller.
type Class string

// The classes: a closed set.
const (
	NotFound       Class = "not_found"
	RefusedState   Class = "refused_state"   // 409: refused in the machine's present status
	ConflictRetry  Class = "conflict_retry"  // 409 with Retry-After: nothing was changed, try again
	Invalid        Class = "invalid"         // 400, 405: MAAS will never accept this call
	Unauthorized   Class = "unauthorized"    // the key is not, or no longer, valid
	Forbidden      Class = "forbidden"       // the key lacks the right; or the machine is locked
	ClockSkew      Class = "clock_skew"      // the clocks of broker and MAAS differ too much
	Unavailable    Class = "unavailable"     // nothing was changed: MAAS was not reached, or could not
	Timeout        Class = "timeout"         // of a call that reads
	UnknownOutcome Class = "unknown_outcome" // of a call that changes: read again before anything else
)

// Error is a call that failed.
type Error struct {
	Class      Class
	Op         string        // the operation, such as deploy
	Status     int           // HTTP; 0: there was no answer
	Detail     string        // MAAS's words: bounded, clean, without secrets
	RetryAfter time.Duration // by MAAS's answer; 0: none given
	err        error
}

func (e *Error) Error() string {
	text := "MAAS: " + e.Op + ": " + string(e.Class)
	if e.Status > 0 {
		text += fmt.Sprintf(" (%d)", e.Status)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap returns the context's error, if the context ended the call.
func (e *Error) Unwrap() error { return e.err }

// ClassOf returns the class of an error of this package, and Unavailable for any other error of a
// call.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Unavailable
}

const maxDetail = 500 // bytes of MAAS's words

// judge makes an Error from the answer to a call, whatever the library made of the answer.
func (b *bound) judge(op string, err error) error {
	a := &b.last
	e := &Error{Op: op, Status: a.status, RetryAfter: a.retryAfter}
	fail := func(class Class, detail string) error {
		if a.changes && a.sent && (class == Unavailable || class == Timeout) {
			class = UnknownOutcome
		}
		// Secrets are hidden before the cut: half a secret would not be recognised.
		e.Class, e.Detail = class, taskcatalog.Clean(b.hide(detail), maxDetail)
		return e
	}
	switch {
	case a.status/100 == 2 && err == nil && a.err == nil && !a.html():
		return nil
	case a.method == "" && err != nil: // no request was made
		return fail(Invalid, "the client cannot make the call")
	case a.err != nil && b.ctx.Err() != nil:
		e.err = b.ctx.Err()
		return fail(Timeout, "no answer in time")
	case a.err != nil:
		return fail(Unavailable, connectionCause(a.err))
	case a.status/100 == 2:
		return fail(Unavailable, "the answer does not come from MAAS (check for a proxy in between)")
	}
	switch a.status {
	case http.StatusUnauthorized:
		if a.skew != "" {
			a.sent = false
			return fail(ClockSkew, a.skew)
		}
		return fail(Unauthorized, "MAAS refuses the token")
	case http.StatusForbidden:
		return fail(Forbidden, words(a))
	case http.StatusNotFound:
		if text := words(a); a.html() || strings.HasPrefix(text, "Unknown API endpoint") {
			a.sent = false
			return fail(Unavailable, "there is no MAAS API at this address")
		}
		return fail(NotFound, words(a))
	case http.StatusConflict:
		if a.retryAfter > 0 {
			return fail(ConflictRetry, "the region was busy with the same request")
		}
		return fail(RefusedState, words(a))
	case http.StatusTooManyRequests:
		a.sent = false
		return fail(Unavailable, "too many requests")
	}
	switch {
	case a.status >= 500:
		return fail(Unavailable, words(a))
	case a.status/100 == 3:
		a.sent = false
		return fail(Unavailable, "MAAS answers with a redirect (use the address that the redirect names)")
	}
	return fail(Invalid, words(a))
}

// connectionCause says why there is no answer, without the URL.
func connectionCause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var expired x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "its certificate comes from an unknown authority (set the site's ca_cert)"
	case errors.As(err, &host), errors.As(err, &expired):
		return "its certificate is not valid: " + err.Error()
	}
	return err.Error()
}

// neverSent reports a failure before the first byte of the request was sent.
func neverSent(err error) bool {
	var op *net.OpError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &verify) || errors.As(err, &record)
}

// words returns MAAS's own words: text as it is, the messages of a form field by field.
func words(a *answer) string {
	if a.html() {
		return ""
	}
	var form map[string]any
	if json.Unmarshal(a.body, &form) != nil {
		return string(a.body)
	}
	parts := []string{}
	for _, field := range slices.Sorted(maps.Keys(form)) {
		said := fmt.Sprint(form[field])
		if list, ok := form[field].([]any); ok {
			texts := []string{}
			for _, m := range list {
				texts = append(texts, fmt.Sprint(m))
			}
			said = strings.Join(texts, " ")
		}
		if field != "__all__" {
			said = field + ": " + said
		}
		parts = append(parts, said)
	}
	return strings.Join(parts, "; ")
}

// html reports whether the answer is a page, which MAAS's API never sends. The content type alone
// does not decide: servers also put it on text without a type.
func (a *answer) html() bool {
	kind, _, _ := mime.ParseMediaType(a.contentType)
	return kind == "text/html" && bytes.HasPrefix(bytes.TrimSpace(a.body), []byte("<"))
}

var expiredForm = lazyregexp.New(`given (\d{1,12}) and now (\d{1,12})`)

// skewOf finds MAAS's complaint about a clock and returns both times.
func skewOf(body []byte) string {
	m := expiredForm.FindSubmatch(body)
	if m == nil {
		return ""
	}
	at := func(raw []byte) string {
		s, _ := strconv.ParseInt(string(raw), 10, 64)
		return time.Unix(s, 0).UTC().Format(time.RFC3339)
	}
	return "the broker's clock says " + at(m[1]) + " and MAAS's " + at(m[2]) + ": synchronise both clocks with NTP"
}
