package adminapi_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// The handout of a shown node has the reason for which a tenant's user is refused.
func TestANodeSaysWhetherItMayBeHandedOut(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	if h := show(t, b, "h1").Handout; h == nil || !h.MayBeHandedOut || len(h.Reasons) != 0 || h.Certificate != nil {
		t.Fatalf("fresh: %+v", h)
	}
	letIn := func(allocation, tenant string) servertest.Answer {
		params := `{"allocation_id":"` + allocation + `","username":"u","tenant":"` + tenant + `","ssh_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0000000000000000000000000000000000000000000 u"]}`
		return b.Ask(t, b.Token, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "allocation.provision_user", Params: json.RawMessage(params)})
	}
	if a := letIn("a-1", "acme"); a.Status >= 300 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ProvisionUserResult{UID: 2000, GID: 2000, Home: "/home/u", Created: true}, taskcatalog.Report{})
	h := show(t, b, "h1").Handout
	if h.MayBeHandedOut || len(h.Reasons) != 1 || h.Reasons[0].Code != "allocation_live" || h.Reasons[0].NextAction == "" {
		t.Fatalf("with a tenant: %+v", h)
	}
	if a := letIn("a-2", "evil"); a.Code() != h.Reasons[0].Code {
		t.Errorf("another tenant: %d %s", a.Status, a.Body)
	}
	act(t, b, "h1", "quarantine", api.NodeAction{Reason: "ECC errors"})
	if h = show(t, b, "h1").Handout; len(h.Reasons) != 2 || h.Reasons[0].Code != "node_status" {
		t.Fatalf("quarantined: %+v", h)
	}
	if a := letIn("a-1", "acme"); a.Code() != "node_status" {
		t.Errorf("more for its tenant: %d %s", a.Status, a.Body)
	}
	list := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes", nil)
	if list.Items[0].Handout != nil {
		t.Error("a list tells it of every node")
	}
}
