package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// A broker counts what policies deny, what is begun, tried again and cancelled, and how each attempt and each
// step ended.
func TestOperationsAreCounted(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	ask := api.PlatformOperationCreate{Operation: readiness, Node: node.NodeID, Reason: "look"}
	policy := "/operation-policies/runtime.readiness.verify"
	a := b.Ask(t, b.Token, http.MethodPut, policy, map[string]any{"policy": map[string]any{"enabled": false}, "reason": "storm"})
	if a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/operations", ask); a.Code() != "operation_denied" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodDelete, policy+"?reason=over", nil); a.Status >= 300 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}

	made := servertest.Must[api.PlatformOperation](t, b, http.MethodPost, "/operations", ask)
	d, task, p := takesOperation(t, b, node)
	node.FailWith(t, d, task, taskcatalog.CodeStepFailed, "on gpu-1", resultOf(p, taskcatalog.StepFailed, "ports_down"))
	reaches(t, b, "/operations/"+made.ID, "failed")
	servertest.Must[api.PlatformOperation](t, b, http.MethodPost, "/operations/"+made.ID+"/retry", api.ReasonBody{Reason: "cabled"})
	d, task, p = takesOperation(t, b, node)
	node.Finish(t, d, task, taskcatalog.OutcomeSucceeded, resultOf(p, taskcatalog.StepSkipped, ""), taskcatalog.Report{})
	reaches(t, b, "/operations/"+made.ID, "succeeded")

	kind := p.Steps[len(p.Steps)-1].Kind
	var text string
	servertest.Eventually(t, "the end of the operation to count", func() bool { // just after it is stored
		text = string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body)
		return strings.Contains(text, `operation="runtime.readiness.verify",outcome="succeeded"} 1`)
	})
	for _, line := range []string{
		`hostler_operation_denials_total{code="operation_denied"} 1`,
		`hostler_operations_begun_total{operation="runtime.readiness.verify"} 1`,
		`hostler_operation_retries_total{operation="runtime.readiness.verify"} 1`,
		`hostler_operations_ended_total{code="step_failed",operation="runtime.readiness.verify",outcome="failed"} 1`,
		`hostler_operations_ended_total{code="",operation="runtime.readiness.verify",outcome="succeeded"} 1`,
		`hostler_operation_seconds_count{operation="runtime.readiness.verify"} 2`,
		`hostler_operation_steps_total{kind="` + kind + `",status="failed"} 1`,
		`hostler_operation_steps_total{kind="` + kind + `",status="skipped"} 1`,
		`hostler_operation_step_seconds_count{kind="` + kind + `"} 2`,
		`hostler_operations{status="running"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics does not have %s", line)
		}
	}
	for _, secret := range []string{node.NodeID, made.ID, "gpu-1"} {
		if strings.Contains(text, secret) {
			t.Errorf("/metrics names %s", secret)
		}
	}
}

// A run that is cancelled before its first stage ends its operation, which counts too.
func TestACancelBeforeTheFirstStageIsCounted(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "storm"})
	made := servertest.Must[api.PlatformOperation](t, b, http.MethodPost, "/operations",
		api.PlatformOperationCreate{Operation: readiness, Node: node.NodeID, Reason: "look"})
	if a := b.Ask(t, b.Token, http.MethodPost, "/runs/"+made.RunID+"/cancel", api.ReasonBody{Reason: "enough"}); a.Status >= 300 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	reaches(t, b, "/operations/"+made.ID, "canceled")
	text := string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body)
	line := `hostler_operations_ended_total{code="canceled",operation="runtime.readiness.verify",outcome="canceled"} 1`
	if !strings.Contains(text, line+"\n") {
		t.Errorf("/metrics does not have %s", line)
	}
}
