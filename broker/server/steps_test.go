package server_test

import (
	"net/http"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// TestATraceRunsFromTheRequestToTheStepOnTheNode reads the spans that the broker sends to a
// collector.
func TestATraceRunsFromTheRequestToTheStepOnTheNode(t *testing.T) {
	spans := servertest.CollectSpans(t)
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.drain"})
	d, task := n.Next(t)
	for i, name := range []string{"signal", "signal", "kill"} {
		n.Progress(t, d, wire.ProgressRequest{CurrentStepIndex: i / 2, TotalSteps: 2, CurrentStepName: name, StepStatus: "running", StepStartedAt: b.Now()})
	}
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{})
	if err := b.Stop(); err != nil { // sends what is left
		t.Fatal(err)
	}

	got := map[string]*otlp.Span{}
	for _, one := range spans.Of("") {
		got[one.Name] = one
	}
	request := got["POST /api/v1/admin/nodes/{node}/tasks"]
	if request == nil {
		t.Fatalf("the request is not among %d spans", len(got))
	}
	for _, name := range []string{"step signal", "step kill", "task node.drain"} {
		s := got[name]
		switch {
		case s == nil:
			t.Errorf("there is no span %q", name)
		case string(s.TraceId) != string(request.TraceId) || string(s.ParentSpanId) != string(request.SpanId):
			t.Errorf("span %q is not below the request", name)
		case s.EndTimeUnixNano < s.StartTimeUnixNano:
			t.Errorf("span %q ends before it begins", name)
		}
	}
}
