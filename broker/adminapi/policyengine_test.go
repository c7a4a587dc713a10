package adminapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/opa"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
)

// A broker with a policy engine begins an operation only if the engine permits it. While the engine is away, nothing
// begins, hostler status says why, and whoever asked reads only that it is away.
func TestThePolicyEngineIsAskedBeforeAnOperationBegins(t *testing.T) {
	var answer atomic.Value
	answer.Store(`{"result": {"allow": true}}`)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(raw), `"operation":"runtime.readiness.verify","version":"v1","backend":"node_agent","trigger":"admin","target_kind":"node","node_count":1,`) {
			t.Errorf("asked with %s, %v", raw, err)
		}
		_, _ = io.WriteString(w, answer.Load().(string))
	}))
	t.Cleanup(engine.Close)
	b := servertest.Start(t, func(c *server.Config) { c.PolicyEngine = &opa.Config{URL: engine.URL + "/v1/data/hostler/operations"} })
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	ask := func() servertest.Answer {
		b.Advance(60e9) // another minute: an answer of before holds no more
		return b.Ask(t, b.Token, http.MethodPost, "/operations", api.PlatformOperationCreate{Operation: readiness, Node: node.NodeID, Reason: "look"})
	}
	alerted := func() string {
		for _, a := range servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts {
			if a.Code == broker.PolicyEngineUnreachable {
				return a.Message
			}
		}
		return ""
	}
	mine := newTenant(t, b, "acme", "lab")
	explained := servertest.Must[api.EffectiveOperationPolicy](t, b, http.MethodGet, "/projects/"+mine.project.ID+"/operation-policies/runtime.readiness.verify/effective", nil)
	if !explained.PolicyEngine {
		t.Errorf("%+v", explained)
	}
	answer.Store(`{}`)
	if a := ask(); a.Status != http.StatusConflict || a.Code() != broker.PolicyEngineDenied || alerted() != "" {
		t.Errorf("%d %s, alerted %q", a.Status, a.Body, alerted())
	}
	answer.Store(`out of order`)
	if a := ask(); a.Status != http.StatusConflict || a.Code() != broker.PolicyEngineUnreachable || strings.Contains(string(a.Body), "127.0.0.1") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if text := alerted(); !strings.Contains(text, "its answer is no JSON; no operation begins") {
		t.Errorf("alerted %q", text)
	}
	answer.Store(`{"result": {"allow": true}}`)
	if a := ask(); a.Status/100 != 2 || alerted() != "" {
		t.Errorf("%d %s, alerted %q", a.Status, a.Body, alerted())
	}
	text := string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body)
	for _, code := range []string{broker.PolicyEngineDenied, broker.PolicyEngineUnreachable} {
		if !strings.Contains(text, `hostler_operation_denials_total{code="`+code+`"} 1`+"\n") {
			t.Errorf("/metrics does not count %s", code)
		}
	}
}
