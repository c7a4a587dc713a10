package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/hostler/hostler/broker"
)

// newTracing makes spans. Spans name requests and tasks whether or not anyone collects them, and
// leave the process only if the environment asks for it; sent says so. The SDK configures resource,
// sampler, batches and exporter by OpenTelemetry's own variables. The SDK for Go leaves to its user
// whether to send and by which protocol; newTracing reads these variables.
func newTracing(ctx context.Context, version string) (spans *trace.TracerProvider, sent bool, err error) {
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "hostler-broker"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // last: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override
	)
	if err != nil {
		return nil, false, badTelemetry("OTEL_RESOURCE_ATTRIBUTES cannot be read (write key=value, with commas between)")
	}
	options := []trace.TracerProviderOption{trace.WithResource(about), trace.WithIDGenerator(spanIDs{})}
	if sent, err = sendsTraces(os.Getenv); err != nil {
		return nil, false, err
	}
	if sent {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, false, badTelemetry("the endpoint is not a URL (write OTEL_EXPORTER_OTLP_ENDPOINT as https://HOST:4318)")
		}
		options = append(options, trace.WithBatcher(exporter))
	}
	return trace.NewTracerProvider(options...), sent, nil
}

// sendsTraces reports whether spans are sent. A variable that asks for something unsupported is an
// error, not ignored. Code: bad_otel_environment.
func sendsTraces(env func(string) string) (bool, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	asked := env("OTEL_TRACES_EXPORTER")
	switch asked {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, badTelemetry("OTEL_TRACES_EXPORTER names an exporter other than otlp or none")
	}
	if asked == "" && env("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return false, nil // nobody asked for traces
	}
	if p := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); p != "http/protobuf" {
		return false,
			badTelemetry("OTEL_EXPORTER_OTLP_PROTOCOL names another protocol than http/protobuf, the only one that this program supports (port 4318 of most collectors)")
	}
	return true, nil
}

// spanIDs makes random ids, except for a span whose id was said before.
type spanIDs struct{}

var _ trace.IDGenerator = spanIDs{}

type spanIDKey struct{}

// withSpanID sets the id of the next span below ctx, in hexadecimal; empty: any. No further span is to be begun below
// the returned context.
func withSpanID(ctx context.Context, id string) context.Context {
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, spanIDKey{}, id)
}

// NewIDs implements trace.IDGenerator.
func (g spanIDs) NewIDs(ctx context.Context) (id oteltrace.TraceID, span oteltrace.SpanID) {
	for !id.IsValid() {
		_, _ = rand.Read(id[:]) // it never fails
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements trace.IDGenerator.
func (spanIDs) NewSpanID(ctx context.Context, _ oteltrace.TraceID) (id oteltrace.SpanID) {
	if said, ok := ctx.Value(spanIDKey{}).(string); ok {
		if id, err := oteltrace.SpanIDFromHex(said); err == nil {
			return id
		}
	}
	for !id.IsValid() {
		_, _ = rand.Read(id[:])
	}
	return id
}

// spanContextOf reads a trace context; an invalid one is none.
func spanContextOf(p broker.TraceParent) oteltrace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": string(p)})
	return oteltrace.SpanContextFromContext(ctx)
}

// traceParentOf writes a trace context; empty: it is not valid.
func traceParentOf(s oteltrace.SpanContext) broker.TraceParent {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(oteltrace.ContextWithSpanContext(context.Background(), s), carrier)
	return broker.TraceParent(carrier["traceparent"])
}

// under is a context whose spans lie below a span that another request, or another broker, made.
func under(s oteltrace.SpanContext) context.Context {
	return oteltrace.ContextWithRemoteSpanContext(context.Background(), s)
}

func badTelemetry(why string) error {
	return broker.Errorf(broker.Invalid, "bad_otel_environment", "cannot send traces: %s", why)
}
