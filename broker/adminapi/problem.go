package adminapi

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// problem is an api.Problem as a huma error.
type problem struct {
	api.Problem
	retryAfter string // seconds for Retry-After; empty: none
}

func (p *problem) Error() string { return p.Detail }

// GetStatus is the HTTP status.
func (p *problem) GetStatus() int { return p.Status }

// ContentType is the media type of problem details.
func (p *problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders adds Retry-After, if the time is known.
func (p *problem) GetHeaders() http.Header {
	if p.retryAfter == "" {
		return nil
	}
	return http.Header{"Retry-After": {p.retryAfter}}
}

// huma makes its own errors through these variables, such as for a body that violates its schema or
// a query that is not a number. These errors never repeat the value that was sent, except the value
// of a policy's knob that is no URL.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := newProblem(status, codeOfStatus(status), taskcatalog.Clean(message, 500))
		for _, err := range errs {
			if d, ok := err.(huma.ErrorDetailer); ok {
				detail := d.ErrorDetail()
				p.Errors = append(p.Errors, api.ProblemField{
					Location: taskcatalog.Clean(detail.Location, 200), Message: taskcatalog.Clean(fieldMessage(detail), 500),
				})
			}
		}
		return p
	}
	huma.NewErrorWithContext = func(_ huma.Context, status int, message string, errs ...error) huma.StatusError {
		return huma.NewError(status, message, errs...)
	}
	// A nil list is written as [], so no list is ever null.
	huma.DefaultArrayNullable = false
}

// fieldMessage is huma's message about a field. For a knob of a policy outside of its bounds, the
// message is the one that the policy's own check has, with the value, the bounds and the unit.
func fieldMessage(d *huma.ErrorDetail) string {
	if k, is := broker.KnobNamed(strings.TrimPrefix(d.Location, "body.")); is {
		return cmp.Or(k.Refusal(d.Value), d.Message)
	}
	return d.Message
}

func newProblem(status int, code, detail string) *problem {
	return &problem{Problem: api.Problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: code}}
}

// problemOf turns an error into the problem for the caller.
func problemOf(err error) *problem {
	e := store.ErrorOf(err)
	if code := taskcatalog.CodeOf(err, ""); code != "" {
		// The catalog and package pki report invalid input with errors of their own.
		e = broker.Errorf(broker.Invalid, string(code), "%v", err)
	}
	p := newProblem(statusOf(e.Kind), e.Code, taskcatalog.Clean(e.Message, 4000))
	if e.RetryAfter > 0 {
		p.retryAfter = strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds())))
	}
	return p
}

func statusOf(k broker.Kind) int {
	switch k {
	case broker.Invalid:
		return http.StatusUnprocessableEntity
	case broker.NotFound:
		return http.StatusNotFound
	case broker.Refused:
		return http.StatusConflict
	case broker.Unauthorized:
		return http.StatusUnauthorized
	case broker.Forbidden:
		return http.StatusForbidden
	case broker.TooMany:
		return http.StatusTooManyRequests
	case broker.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// codeOfStatus is the code of an error that huma raised.
func codeOfStatus(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "malformed"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusUnprocessableEntity:
		return "invalid_request"
	case http.StatusUnsupportedMediaType:
		return "media_type_unsupported"
	case http.StatusNotAcceptable:
		return "not_acceptable"
	case http.StatusRequestTimeout:
		return "body_too_slow"
	}
	return "internal"
}
