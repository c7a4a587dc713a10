package servertest

import (
	"cmp"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Spans are the spans that brokers have sent to a collector.
type Spans struct {
	mu  sync.Mutex
	all []*otlp.Span
}

// CollectSpans makes the brokers that the test starts from now on send their spans. A broker sends what is left when it
// stops.
func CollectSpans(t testing.TB) *Spans {
	s := &Spans{}
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var batch collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(raw, &batch) != nil {
			t.Errorf("it sent no spans: %v", err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, rs := range batch.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				s.all = append(s.all, ss.Spans...)
			}
		}
	}))
	t.Cleanup(sink.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.URL)
	return s
}

// Of are the spans of a trace, by the id in hexadecimal, in the order of their beginning; empty: of all traces.
func (s *Spans) Of(traceID string) []*otlp.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*otlp.Span
	for _, one := range s.all {
		if traceID == "" || hex.EncodeToString(one.TraceId) == traceID {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b *otlp.Span) int {
		return cmp.Or(cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano), cmp.Compare(b.EndTimeUnixNano, a.EndTimeUnixNano))
	})
	return all
}
