package adminapi_test

import (
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAnInterruptedTaskIsProbedAndRecoveredByAnOperator(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "s1"}).Settle(t)
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	d, signed := n.Next(t)
	n.Finish(t, d, signed, taskcatalog.OutcomeInterrupted, nil, taskcatalog.Report{})

	path := "/tasks/" + task.ID
	reason := api.ReasonBody{Reason: "the agent was killed"}
	if a := b.Ask(t, b.Token, http.MethodPost, path+"/recover", api.ReasonBody{}); a.Code() != "reason_missing" {
		t.Errorf("without a reason: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, path+"/recover", reason); a.Code() != "probe_missing" {
		t.Errorf("without a probe: %d %s", a.Status, a.Body)
	}
	elsewhere := b.NewToken(t, api.TokenCreate{Name: "o", Role: string(broker.RoleOperator), Sites: []string{"s2"}})
	viewer := b.NewToken(t, api.TokenCreate{Name: "v", Role: string(broker.RoleViewer)})
	for _, action := range []string{"/probe", "/recover"} {
		if a := b.Ask(t, elsewhere, http.MethodPost, path+action, reason); a.Status != http.StatusNotFound {
			t.Errorf("an operator of another site: %d %s", a.Status, a.Body)
		}
		if a := b.Ask(t, viewer, http.MethodPost, path+action, reason); a.Code() != "role_insufficient" {
			t.Errorf("a viewer: %d %s", a.Status, a.Body)
		}
	}
	probe := servertest.Must[api.Task](t, b, http.MethodPost, path+"/probe", api.ReasonBody{})
	d, signed = n.Next(t)
	if signed.TaskID != probe.ID || string(signed.Params) != `{"task_id":"`+task.ID+`"}` {
		t.Fatalf("the node got %s %s", signed.TaskID, signed.Params)
	}
	n.Finish(t, d, signed, taskcatalog.OutcomeSucceeded, taskcatalog.TaskProbeResult{Known: true, State: "finished", Outcome: taskcatalog.OutcomeInterrupted}, taskcatalog.Report{})
	again := servertest.Must[api.Task](t, b, http.MethodPost, path+"/recover", reason)
	if again.RetryOf != task.ID || again.Type != task.Type || again.EnqueuedBy != "admin" {
		t.Errorf("%+v", again)
	}
	if d, _ := n.Next(t); d.TaskID != again.ID {
		t.Errorf("the node got %s", d.TaskID)
	}
}
