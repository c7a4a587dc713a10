package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/bodies"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/strangers"
	"github.com/hostler/hostler/taskcatalog"
)

// caller is the operator that makes a request.
type caller struct {
	broker.OperatorToken
	correlationID string
	origin        *store.Origin
	frozen        []api.Hold // freezes in force at sites that the caller may see; set for a GET
}

func (c caller) actor() broker.Actor { return broker.Actor{Name: c.Name, Role: c.Role} }

// sites are the sites that the caller may see; nil: all. A tenant sees none: no site has the name
// that is returned for it.
func (c caller) sites() []string {
	if !c.Place.OfPlatform() {
		return []string{"?"}
	}
	if len(c.Sites) == 0 {
		return nil
	}
	return c.Sites
}

type callerKey struct{}

// errBroken is the panic value when the rest of an answer cannot be written.
var errBroken = errors.New("the answer was aborted")

// callerOf returns the caller of a request, which the guard put into ctx.
func callerOf(ctx context.Context) caller { return ctx.Value(callerKey{}).(caller) }

// answer records the status that was written.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets deadlines and flushes reach the underlying writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// guard admits requests with a valid token, traces and measures every answer, and answers a panic
// of a handler with 500.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		begun := a.c.Now()
		w := &answer{ResponseWriter: rw}
		secureHeaders(w.Header())
		ctx := callersTrace(r)
		ctx, span := a.c.Tracer.Start(ctx, r.Method+" "+api.TenantPrefix, trace.WithSpanKind(trace.SpanKindServer))
		route := "none"
		defer func() {
			if cause := recover(); cause != nil {
				if cause == errBroken { //nolint:errorlint // a value of panic, not a chain
					panic(http.ErrAbortHandler)
				}
				a.c.Log.Error("a handler panicked", zap.String("path", taskcatalog.Clean(r.URL.Path, 200)), zap.Any("cause", cause),
					zap.Stack("stack"))
				if w.status == 0 {
					writeProblem(w, problemOf(fmt.Errorf("panic: %v", cause)))
				}
				w.status = http.StatusInternalServerError
			}
			span.SetAttributes(attribute.Int("http.response.status_code", w.status))
			if w.status >= 500 {
				span.SetStatus(codes.Error, http.StatusText(w.status))
			}
			span.End()
			if a.c.Observe != nil {
				a.c.Observe(route, w.status, a.c.Now().Sub(begun))
			}
		}()

		origin := a.originOf(r)
		token, err := a.c.Operators.Authenticate(ctx, bearerOf(r), a.addressOf(r))
		if err != nil {
			if !strangers.Stay(ctx) {
				strangers.Refuse(w)
				return
			}
			a.refuse(store.WithOrigin(ctx, origin), w, r, token.Name, err)
			return
		}
		strangers.Vouch(ctx, token.Name)
		who := caller{OperatorToken: token, correlationID: correlationOf(span), origin: origin}
		w.Header().Set("Hostler-Correlation-Id", who.correlationID)
		ctx, done := a.c.Operators.Bind(ctx, token)
		defer done()
		if r.Method == http.MethodGet && who.Place.OfPlatform() { // a tenant sees no sites
			who.frozen = a.frozen(ctx, who)
			setFrozenHeader(w.Header(), who.frozen)
		}
		ctx = store.WithOrigin(context.WithValue(ctx, callerKey{}, who), origin)
		r = r.WithContext(ctx)

		_, route = a.mux.Handler(r)
		if route == "" {
			route = "none"
			if allowed := bodies.Allowed(a.mux, r); allowed != "" {
				w.Header().Set("Allow", allowed)
				writeProblem(w, newProblem(http.StatusMethodNotAllowed, string(bodies.CodeMethod), bodies.NotAllowed(r, allowed)))
				return
			}
			writeProblem(w,
				problemOf(broker.Errorf(broker.NotFound, "route_not_found", "cannot answer %s %s: there is no such route (see /docs)",
					r.Method, taskcatalog.Clean(r.URL.Path, 200))))
			return
		}
		span.SetName(route)
		span.SetAttributes(attribute.String("http.route", route), attribute.String("hostler.actor", token.Name))
		next.ServeHTTP(w, r)
	})
}

// refuse answers a request that is not admitted. A known token or person leaves an audit row. A wrong token leaves
// the rows of strangers, and a line in the log once a minute, because anybody can send one.
func (a *API) refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, name string, err error) {
	p := problemOf(err)
	if name != "" && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden) {
		a.auditRefusal(ctx, "", broker.AuditEntry{Actor: name, Code: p.Code, Reason: taskcatalog.Clean(r.Method+" "+r.URL.Path, 300)})
	} else {
		if p.Status == http.StatusUnauthorized {
			a.auditStranger(ctx, r, p)
		}
		if more, due := a.strangers.Due(p.Code, "", a.c.Now()); due {
			a.c.Log.Info("a request was refused", zap.String("code", p.Code), zap.String("from", r.RemoteAddr),
				zap.Int("more_since_the_last_line", more), zap.Error(err))
		}
	}
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="hostler"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	writeProblem(w, p)
}

// audit writes an audit row in a transaction of its own, for callers without a transaction.
func (a *API) audit(ctx context.Context, e broker.AuditEntry) {
	e.At = a.c.Now()
	if err := a.c.DB.Audit(ctx, e); err != nil {
		a.c.Log.Error("cannot write an audit row", zap.String("action", e.Action), zap.String("code", e.Code), zap.Error(err))
	}
}

// requireRole refuses a caller without the role, and audits it.
func (a *API) requireRole(ctx context.Context, need access, what string) error {
	who := callerOf(ctx)
	if need.admits(who) {
		return nil
	}
	a.auditRefusal(ctx, what, broker.AuditEntry{Actor: who.Name, Code: "role_insufficient", Reason: what, CorrelationID: who.correlationID})
	return broker.Errorf(broker.Forbidden, "role_insufficient", "cannot %s: it needs role %s, and token %s has %s", what, need.needs(who), who.Name,
		who.Role)
}

// toProblem turns an error into the problem for the caller, and logs the details that the caller is
// not shown.
func (a *API) toProblem(ctx context.Context, err error) error {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	if cause := context.Cause(ctx); cause != nil && broker.AsError(cause).Kind == broker.Unauthorized {
		err = cause // the token ended while the answer was made
	}
	p = problemOf(err)
	if p.Status >= 500 && ctx.Err() == nil {
		a.c.Log.Error("a request failed", zap.String("code", p.Code), zap.String("correlation_id", callerOf(ctx).correlationID),
			zap.Error(err))
	}
	return p
}

func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", p.ContentType(""))
	maps.Copy(w.Header(), p.GetHeaders())
	w.WriteHeader(p.Status)
	body, err := json.Marshal(p)
	if err == nil {
		_, _ = w.Write(append(body, '\n'))
	}
}

func bearerOf(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// correlationOf names a request in logs, audit rows and tasks by its trace id.
func correlationOf(span trace.Span) string { return span.SpanContext().TraceID().String() }

// withReason puts the operator's reason into the audit rows.
func withReason(ctx context.Context, reason string) context.Context {
	return store.WithReason(ctx, taskcatalog.Clean(reason, 500))
}

// callersTrace is a request's context with the trace that its one traceparent names. One that is not valid, or named
// twice, is passed over, and the request begins a trace. A tracestate is passed over always: it is a stranger's text,
// and goes on to nobody.
func callersTrace(r *http.Request) context.Context {
	said := r.Header.Values("Traceparent")
	if len(said) != 1 {
		return r.Context()
	}
	return propagation.TraceContext{}.Extract(r.Context(), propagation.MapCarrier{"traceparent": said[0]})
}

// traceParent is the trace context that a task carries, so that its steps join the trace.
func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

func pageLimit(limit int) int {
	if limit == 0 {
		return 100
	}
	return limit
}

// roleGuard refuses callers without the role, and a tenant's changes beyond the limit, before a byte of
// the body is read. Only changes that the caller may make count. A session's WebSocket is one: each ticket
// that is shown is written down.
func (a *API) roleGuard(need access, what string) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		hc = huma.WithValue(hc, askedKey{}, askedOf(hc))
		err := a.requireRole(hc.Context(), need, what)
		if err == nil && (hc.Method() != http.MethodGet || strings.HasSuffix(hc.Operation().Path, "/attach")) {
			err = a.c.Operators.AllowWrite(callerOf(hc.Context()).OperatorToken)
		}
		if err != nil {
			_, w := humago.Unwrap(hc)
			if broker.AsError(err).Kind == broker.TooMany {
				w.Header().Set("Retry-After", "1")
			}
			writeProblem(w, problemOf(err))
			return
		}
		next(hc)
	}
}
