package adminapi_test

import (
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestAReasonIsInTheAuditLog(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[resource.NodeBootstrap](t, b, http.MethodPost, "/nodes", resource.NodeCreate{Hostname: "h0", Reason: "because of create"})
	b.NewNode(t, resource.NodeCreate{Hostname: "h1"}).Settle(t)
	servertest.Must[resource.Node](t, b, http.MethodPut, "/nodes/h1/labels", resource.Labels{Labels: map[string]string{"a": "b"}, Reason: "because of label"})
	task := servertest.Must[resource.Task](t, b, http.MethodPost, "/nodes/h1/tasks", resource.TaskCreate{Type: "node.heartbeat_check", Reason: "because of task"})
	servertest.Must[resource.Task](t, b, http.MethodPost, "/tasks/"+task.ID+"/cancel", resource.ReasonBody{Reason: "because of cancel"})
	servertest.Must[resource.Task](t, b, http.MethodPost, "/nodes/h1/baseline/retake", resource.ReasonBody{Reason: "because of retake"})
	servertest.Must[resource.TokenCreated](t, b, http.MethodPost, "/tokens", resource.TokenCreate{Name: "ann", Role: "viewer", Reason: "because of token"})
	servertest.Must[resource.Token](t, b, http.MethodPost, "/tokens/ann/revoke", resource.ReasonBody{Reason: "because of revoke"})
	act(t, b, "h1", "drain", resource.NodeAction{Reason: "because of drain"})
	servertest.Must[resource.CleanPolicy](t, b, http.MethodPut, "/clean-policy", resource.CleanPolicyPut{Reason: "because of policy"})

	rows := servertest.Must[resource.AuditList](t, b, http.MethodGet, "/audit?limit=1000", nil)
	seen := map[string]resource.AuditEntry{}
	for _, e := range rows.Items {
		seen[e.Reason] = e
	}
	for _, what := range []string{"create", "label", "task", "cancel", "retake", "token", "revoke", "drain", "policy"} {
		e, ok := seen["because of "+what]
		if !ok || e.Actor != "admin" || e.CorrelationID == "" {
			t.Errorf("the reason of %s: %+v", what, e)
		}
	}
}
