package adminapi_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	callersTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan   = "00f067aa0ba902b7"
	callersParent = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// askTraced makes a request with values of the header traceparent.
func askTraced(t *testing.T, b *servertest.Broker, method, path string, body any, parents ...string) servertest.Answer {
	t.Helper()
	a := b.AskWith(t, http.Header{"Traceparent": parents, "Tracestate": {"evil=words"}}, b.Token, method, path, body)
	if a.Status/100 != 2 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return a
}

// beginTraced begins an operation on a node.
func beginTraced(t *testing.T, b *servertest.Broker, node string, parents ...string) (o api.PlatformOperation) {
	t.Helper()
	a := askTraced(t, b, http.MethodPost, "/operations", api.PlatformOperationCreate{Operation: readiness, Node: node, Reason: "look"}, parents...)
	if err := json.Unmarshal(a.Body, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// tree writes each span below its parent: its name, its status where it failed, and its links.
func tree(all []*otlp.Span, below []byte, indent string) (lines []string) {
	for _, s := range all {
		if !bytes.Equal(s.ParentSpanId, below) {
			continue
		}
		line := indent + s.Name
		if code := s.GetStatus().GetMessage(); code != "" {
			line += " (" + code + ")"
		}
		for _, l := range s.Links {
			i := slices.IndexFunc(all, func(o *otlp.Span) bool { return bytes.Equal(o.SpanId, l.SpanId) })
			line += " → " + said(all[i], "hostler.batch")
		}
		lines = append(append(lines, line), tree(all, s.SpanId, indent+"  ")...)
	}
	return lines
}

// said is an attribute of a span.
func said(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if text := a.Value.GetStringValue(); text != "" {
				return text
			}
			return fmt.Sprint(a.Value.GetIntValue())
		}
	}
	return ""
}

// The trace of a caller goes on through the operation, its task and its steps, over a restart of the broker.
func TestATraceRunsThroughAnOperation(t *testing.T) {
	spans := servertest.CollectSpans(t)
	b := servertest.Start(t)
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	made := beginTraced(t, b, node.NodeID, callersParent)
	if made.TraceID != callersTrace {
		t.Errorf("the trace is %q", made.TraceID)
	}
	d, task, p := takesOperation(t, b, node)
	if !strings.HasPrefix(task.TraceParent, "00-"+callersTrace+"-") || strings.Contains(task.TraceParent, callersSpan) {
		t.Errorf("the task carries %q", task.TraceParent)
	}
	if _, code := node.Mint(t, d, "oci_pull"); code == "" {
		t.Fatal("the node got a credential for nothing")
	}
	if _, code := node.Mint(t, d, "words of a stranger"); code == "" {
		t.Fatal("the node got a credential for nothing")
	}
	b = b.Again(t)
	node = node.At(t, b)
	b.Advance(5 * time.Second)
	result := resultOf(p, taskcatalog.StepFailed, "ports_down")
	result.Steps[0].DurationMS = 1 << 62 // a node says anything
	result.Steps[1].Earlier = true
	node.FailWith(t, d, task, taskcatalog.CodeStepFailed, "a secret word", result)
	o := reaches(t, b, "/operations/"+made.ID, "failed")
	if o.TraceID != callersTrace {
		t.Errorf("the trace is %q", o.TraceID)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}

	all := spans.Of(callersTrace)
	parent, err := hex.DecodeString(callersSpan)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /api/v1/admin/operations", "  plan operation", "  operation " + readiness + " (step_failed)", "    judge operation",
		"    task operation.run (step_failed)", "      queued", "      mint credential (REFUSED)", "      mint credential (REFUSED)", "      run",
	}
	for i, s := range p.Steps {
		line := "        step " + s.ID
		if i == len(p.Steps)-1 {
			line += " (ports_down)"
		}
		if i != 1 {
			want = append(want, line)
		}
	}
	got := tree(all, parent, "")
	for i, line := range got {
		if strings.Contains(line, "mint credential (") {
			got[i] = "      mint credential (REFUSED)"
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the trace is\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	within(t, all)
}

// within holds the steps of a trace inside their run, and looks for what no span may say.
func within(t *testing.T, all []*otlp.Span) {
	t.Helper()
	for _, s := range all {
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s ends before it begins", s.Name)
		}
		if strings.HasPrefix(s.Name, "step ") {
			run := all[slices.IndexFunc(all, func(o *otlp.Span) bool { return bytes.Equal(o.SpanId, s.ParentSpanId) })]
			if s.StartTimeUnixNano < run.StartTimeUnixNano || s.EndTimeUnixNano > run.EndTimeUnixNano {
				t.Errorf("%s lies outside of its run", s.Name)
			}
			if said(s, "hostler.resolved_profile") != "nvidia_smi_health" || said(s, "hostler.step_kind") == "" || said(s, "hostler.attempt_number") != "1" {
				t.Errorf("%s says %v", s.Name, s.Attributes)
			}
		}
		if text := s.String(); strings.Contains(text, "secret") || strings.Contains(text, "words of") || strings.Contains(text, "evil") {
			t.Errorf("%s says %s", s.Name, text)
		}
	}
}

// What is no traceparent begins a trace, and is not kept.
func TestATraceparentThatIsNoneIsPassedOver(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	seen := map[string]bool{"": true}
	for _, parents := range [][]string{
		nil,
		{""},
		{"nonsense"},
		{callersParent + "-more"},
		{strings.ToUpper(callersParent)},
		{callersParent, callersParent},
		{"ff" + callersParent[2:]},
		{"00-" + strings.Repeat("0", 32) + "-" + callersSpan + "-01"},
		{"00-" + callersTrace + "-" + strings.Repeat("0", 16) + "-01"},
		{callersParent[:len(callersParent)-2] + "08"},
		{strings.Repeat(callersParent, 10)},
	} {
		id := askTraced(t, b, http.MethodGet, "/whoami", nil, parents...).Header.Get("Hostler-Correlation-Id")
		if len(id) != 32 || id == callersTrace || seen[id] {
			t.Errorf("%.80q: the trace is %q", parents, id)
		}
		seen[id] = true
	}
	if o := beginTraced(t, b, node.NodeID, callersParent, callersParent); len(o.TraceID) != 32 || o.TraceID == callersTrace {
		t.Errorf("the trace of the operation is %q", o.TraceID)
	}
}

// A retry is another span in the trace of the operation. What a caller does not want to have recorded is not sent, and
// has its trace all the same. The audit row and the event of the request name the trace.
func TestARetryStaysInTheTrace(t *testing.T) {
	spans := servertest.CollectSpans(t)
	b := servertest.Start(t)
	ship(t, b)
	nodes := stocked(t, b, "h100.8gpu", 2, servertest.H100s(8))
	made, quiet := beginTraced(t, b, nodes[0].NodeID, callersParent), beginTraced(t, b, nodes[1].NodeID, "00-"+strings.Repeat("ab", 16)+"-"+callersSpan+"-00")
	d, task, p := takesOperation(t, b, nodes[0])
	nodes[0].FailWith(t, d, task, taskcatalog.CodeStepFailed, "", resultOf(p, taskcatalog.StepFailed, "ports_down"))
	reaches(t, b, "/operations/"+made.ID, "failed")
	servertest.Must[api.PlatformOperation](t, b, http.MethodPost, "/operations/"+made.ID+"/retry", api.ReasonBody{Reason: "cabled"})
	for _, n := range nodes {
		d, task, p = takesOperation(t, b, n)
		n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, resultOf(p, taskcatalog.StepSkipped, ""), taskcatalog.Report{})
	}
	reaches(t, b, "/operations/"+made.ID, "succeeded")
	if o := reaches(t, b, "/operations/"+quiet.ID, "succeeded"); o.TraceID != strings.Repeat("ab", 16) {
		t.Errorf("the trace is %q", o.TraceID)
	}
	for _, path := range []string{"/audit?action=operation.request", "/events?type=operation.requested&after=0&follow=false"} {
		if a := b.Ask(t, b.Token, http.MethodGet, path, nil); !strings.Contains(string(a.Body), `"trace_id":"`+callersTrace+`"`) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if all := spans.Of(quiet.TraceID); len(all) != 0 {
		t.Errorf("it sends %d spans that nobody wants", len(all))
	}
	var attempts []string
	all := spans.Of(callersTrace)
	for _, s := range all {
		if s.Name == "operation "+readiness {
			attempts = append(attempts, said(s, "hostler.attempt")+" "+said(s, "hostler.status"))
		}
	}
	if slices.Sort(attempts); !slices.Equal(attempts, []string{"1 failed", "2 succeeded"}) {
		t.Errorf("the attempts are %q", attempts)
	}
	within(t, all)
}

// The task of a node that went in a batch links to the batch. A node that was never asked has no span.
func TestATaskLinksToItsBatch(t *testing.T) {
	spans := servertest.CollectSpans(t)
	b := servertest.Start(t)
	ship(t, b)
	nodes := stocked(t, b, "h100.8gpu", 3, servertest.H100s(8))
	slices.SortFunc(nodes, func(a, b *servertest.Node) int { return strings.Compare(a.NodeID, b.NodeID) })
	undisturbed(t, b)
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100.8gpu", 3)
	mine.held = mine.allocated(t, b, b.Token, mine.asks("h100.8gpu", 3))
	leads(t, b, mine.held.ID, toProvisioning, toActive)
	var made api.Operation
	a := b.Ask(t, mine.tokens(t, b)["project_member of a project"], http.MethodPost, mine.operations(),
		api.OperationCreate{Operation: readiness, AllocationID: mine.held.ID, Canary: 1, Batch: 1})
	if err := json.Unmarshal(a.Body, &made); err != nil || made.TraceID == "" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	d, task, p := takesOperation(t, b, nodes[0])
	nodes[0].Finish(t, d, task, taskcatalog.OutcomeSucceeded, resultOf(p, taskcatalog.StepSkipped, ""), taskcatalog.Report{})
	d, task, p = takesOperation(t, b, nodes[1])
	nodes[1].FailWith(t, d, task, taskcatalog.CodeStepFailed, "", resultOf(p, taskcatalog.StepFailed, "ports_down"))
	reaches(t, b, mine.operations()+"/"+made.ID, "failed")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	var got []string
	all := spans.Of(made.TraceID)
	for _, line := range tree(all, nil, "") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "batch") || strings.HasPrefix(line, "task") {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	if want := "[batch batch task operation.run (step_failed) → 2 task operation.run → 1]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
