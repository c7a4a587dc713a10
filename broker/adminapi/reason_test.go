package adminapi_test

import (
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestAReasonIsInTheAuditLog(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h0", Reason: "because of create"})
	b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	servertest.Must[api.Node](t, b, http.MethodPut, "/nodes/h1/labels", api.Labels{Labels: map[string]string{"a": "b"}, Reason: "because of label"})
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check", Reason: "because of task"})
	servertest.Must[api.Task](t, b, http.MethodPost, "/tasks/"+task.ID+"/cancel", api.ReasonBody{Reason: "because of cancel"})
	servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/baseline/retake", api.ReasonBody{Reason: "because of retake"})
	servertest.Must[api.TokenCreated](t, b, http.MethodPost, "/tokens", api.TokenCreate{Name: "ann", Role: "viewer", Reason: "because of token"})
	servertest.Must[api.Token](t, b, http.MethodPost, "/tokens/ann/revoke", api.ReasonBody{Reason: "because of revoke"})
	act(t, b, "h1", "drain", api.NodeAction{Reason: "because of drain"})
	servertest.Must[api.CleanPolicy](t, b, http.MethodPut, "/clean-policy", api.CleanPolicyPut{Reason: "because of policy"})

	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?limit=1000", nil)
	seen := map[string]api.AuditEntry{}
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
