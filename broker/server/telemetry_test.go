package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/hostler/hostler/broker"
)

// sink is a collector that keeps the attributes of whatever sends to it, by path.
func sink(t *testing.T) (url string, got func(path string) map[string]string) {
	var mu sync.Mutex
	seen := map[string]map[string]string{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var batch collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &batch); err != nil {
			t.Errorf("no spans came: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path] = map[string]string{}
		for _, rs := range batch.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				seen[r.URL.Path][a.Key] = a.Value.GetStringValue()
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func(path string) map[string]string { mu.Lock(); defer mu.Unlock(); return seen[path] }
}

func TestTheVariablesOfOpenTelemetryAreHeeded(t *testing.T) {
	url, got := sink(t)
	for name, c := range map[string]struct {
		env           map[string]string
		path, service string // empty: nothing is sent
		code          string
	}{
		"an endpoint for all":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url}, "/v1/traces", "hostler-broker", ""},
		"an endpoint for traces":      {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url + "/mine"}, "/mine", "hostler-broker", ""},
		"a service's name":            {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url + "/name", "OTEL_SERVICE_NAME": "gpu-cloud"}, "/name", "gpu-cloud", ""},
		"a service's attributes":      {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url + "/attr", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,team=x"}, "/attr", "other", ""},
		"the protocol that is spoken": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url + "/http", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "/http", "hostler-broker", ""},
		"nothing":                     {nil, "", "", ""},
		"disabled":                    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SDK_DISABLED": "TRUE"}, "", "", ""},
		"no exporter":                 {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_TRACES_EXPORTER": "none"}, "", "", ""},
		"another exporter":            {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, "", "", "bad_otel_environment"},
		"another protocol":            {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", "", "bad_otel_environment"},
		"another protocol of traces":  {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "", "", "bad_otel_environment"},
		"attributes that are none":    {map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "nonsense"}, "", "", "bad_otel_environment"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			spans, sent, err := newTracing(t.Context(), "1.2.3")
			if c.code != "" || err != nil {
				if broker.AsError(err).Code != c.code {
					t.Errorf("%v, want %q", err, c.code)
				}
				return
			}
			_, span := spans.Tracer("test").Start(t.Context(), "a span")
			span.End()
			if !span.SpanContext().TraceID().IsValid() {
				t.Error("a request has no trace id")
			}
			if err := spans.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if sent != (c.path != "") || got(c.path)["service.name"] != c.service || c.path != "" && got(c.path)["service.version"] != "1.2.3" {
				t.Errorf("sent is %v, with %v", sent, got(c.path))
			}
		})
	}
}
