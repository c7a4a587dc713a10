package nodeapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/bodies"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// audited marks an error whose maker has already written it to the audit log, with
// store.DB.AuditRefusal.
type audited struct{ error }

func (e audited) Unwrap() error { return e.error }

// inAudit marks err, unless err is nil.
func inAudit(err error) error {
	if err == nil {
		return nil
	}
	return audited{err}
}

var statuses = map[broker.Kind]int{
	broker.Internal:     http.StatusInternalServerError,
	broker.Invalid:      http.StatusUnprocessableEntity,
	broker.NotFound:     http.StatusNotFound,
	broker.Refused:      http.StatusConflict,
	broker.Unauthorized: http.StatusUnauthorized,
	broker.Forbidden:    http.StatusForbidden,
	broker.TooMany:      http.StatusTooManyRequests,
	broker.Unavailable:  http.StatusServiceUnavailable,
}

// problem turns an error into the problem for the node. It also makes sure that a refusal is in the
// audit log and a failure in the broker's own log.
func (a *API) problem(c *call, err error) *wire.Problem {
	e := asError(err)
	var done audited
	switch {
	case e.Code == codeBusy:
		// Neither a refusal nor a failure: the node comes again.
	case e.Kind == broker.Internal || e.Kind == broker.Unavailable:
		if !errors.Is(err, context.Canceled) && e.Code != restoredUndecided { // the node has left, or every node asks
			a.c.Log.Error("cannot answer a node", logRoute(c), logError(err))
		}
	case e.Kind == broker.NotFound && c.peer == nil:
		// Anyone may ask for something that does not exist.
	case !errors.As(err, &done):
		a.refusals.record(a, refusalOf(c, e))
	}
	if e.Kind != broker.Internal && e.Kind != broker.Unavailable {
		a.c.Refused(c.r.Pattern, e.Code)
	}
	status := statuses[e.Kind]
	switch taskcatalog.Code(e.Code) {
	case taskcatalog.CodeTooLarge:
		status = http.StatusRequestEntityTooLarge
	case taskcatalog.CodeMalformed:
		status = http.StatusBadRequest
	case bodies.CodeMethod:
		status = http.StatusMethodNotAllowed
	}
	if e.RetryAfter > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if e.Kind == broker.Unauthorized || e.Kind == broker.Forbidden {
		c.w.Header().Set("Connection", "close") // no further request is expected
	}
	return &wire.Problem{Title: http.StatusText(status), Status: status, Detail: e.Message, Code: taskcatalog.Code(e.Code)}
}

// asError gives errors of the catalog and of package pki a kind: these errors concern the node's
// input.
func asError(err error) *broker.Error {
	var e *broker.Error
	if errors.As(err, &e) {
		return e
	}
	if code := taskcatalog.CodeOf(err, ""); code != "" {
		return broker.Errorf(broker.Invalid, string(code), "%v", err)
	}
	return store.ErrorOf(err)
}

func logRoute(c *call) zap.Field {
	return zap.String("route", c.r.Pattern)
}

func logError(err error) zap.Field { return zap.Error(err) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
