package server

import (
	"context"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/hostler/hostler/broker"
)

// newTracing makes spans, which name requests and tasks whether or not anyone
// collects them. They leave the process only where the environment says where
// to; the exporter reads the rest of OTEL_EXPORTER_OTLP_* itself.
// sent says whether they do.
func newTracing(ctx context.Context, version string) (spans *trace.TracerProvider, sent bool, err error) {
	options := []trace.TracerProviderOption{trace.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "hostler-broker"), attribute.String("service.version", version),
	))}
	sent = os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
	if sent {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, false, broker.Errorf(broker.Invalid, "bad_otlp_endpoint", "cannot send traces: OTEL_EXPORTER_OTLP_ENDPOINT is no URL")
		}
		options = append(options, trace.WithBatcher(exporter))
	}
	return trace.NewTracerProvider(options...), sent, nil
}
