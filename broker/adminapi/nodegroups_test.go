package adminapi_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// The platform plans and begins one operation on the nodes that a selector names. What a tenant has is passed over, and a
// request without a reason or with two targets begins nothing.
func TestThePlatformRunsAnOperationOnAGroupOfNodes(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	nodes := stocked(t, b, "h100.8gpu", 3, servertest.H100s(8))
	n := newTenant(t, b, "acme", "lab")
	n.quota(t, b, "h100.8gpu", 1)
	n.allocated(t, b, b.Token, n.asks("h100.8gpu", 1))
	ask := api.PlatformOperationCreate{Operation: readiness, Nodes: "sku=h100.8gpu", Canary: 1, Reason: "look"}
	a := b.Ask(t, b.Token, http.MethodPost, "/operations/plan", ask)
	var plan api.OperationPlan
	if err := json.Unmarshal(a.Body, &plan); err != nil || len(plan.Nodes) != 2 || len(plan.PassedOver) != 1 || plan.PassedOver[0].Code != "allocation_live" ||
		plan.Nodes[0].Batch != 1 || plan.Nodes[1].Batch != 2 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for name, c := range map[string]struct {
		change func(*api.PlatformOperationCreate)
		code   string
	}{
		"two targets":  {func(o *api.PlatformOperationCreate) { o.Node = nodes[0].NodeID }, "operation_target_invalid"},
		"no target":    {func(o *api.PlatformOperationCreate) { o.Nodes = "" }, "operation_target_invalid"},
		"no reason":    {func(o *api.PlatformOperationCreate) { o.Reason = "" }, "reason_missing"},
		"no selector":  {func(o *api.PlatformOperationCreate) { o.Nodes = "sku=,=" }, "selector_invalid"},
		"nobody's":     {func(o *api.PlatformOperationCreate) { o.Nodes = "sku=none" }, "operation_group_empty"},
		"unknown node": {func(o *api.PlatformOperationCreate) { o.Nodes = "gpu-none" }, "node_not_found"},
	} {
		bad := ask
		c.change(&bad)
		if a := b.Ask(t, b.Token, http.MethodPost, "/operations", bad); a.Code() != c.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, c.code)
		}
	}
	for name, c := range map[string]struct {
		token, nodes, code string
	}{
		"a viewer":                       {b.NewToken(t, api.TokenCreate{Name: "eve", Role: "viewer"}), ask.Nodes, "role_insufficient"},
		"an operator of another site":    {b.NewToken(t, api.TokenCreate{Name: "dc9", Role: "operator", Sites: []string{"dc9"}}), ask.Nodes, "operation_group_empty"},
		"who names a node of a site":     {b.NewToken(t, api.TokenCreate{Name: "dc8", Role: "operator", Sites: []string{"dc8"}}), nodes[1].NodeID, "node_not_found"},
		"the administrator of a project": {n.tokens(t, b)["project_admin of a project"], ask.Nodes, "role_insufficient"},
	} {
		foreign := ask
		foreign.Nodes = c.nodes
		for _, path := range []string{"/operations", "/operations/plan"} {
			if a := b.Ask(t, c.token, http.MethodPost, path, foreign); a.Code() != c.code {
				t.Errorf("%s, %s: %d %s, want %s", name, path, a.Status, a.Body, c.code)
			}
		}
	}
	var made, again api.PlatformOperation
	a = b.AskOnce(t, "key-1", b.Token, http.MethodPost, "/operations", ask)
	if err := json.Unmarshal(a.Body, &made); err != nil || a.Status != http.StatusCreated || made.Target != "group" || len(made.Members) != 2 ||
		made.Members[0].NodeID != made.NodeIDs[0] || made.Members[0].AllocationID != "" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	a = b.AskOnce(t, "key-1", b.Token, http.MethodPost, "/operations", ask)
	if err := json.Unmarshal(a.Body, &again); err != nil || again.ID != made.ID {
		t.Errorf("the same key began %d %s", a.Status, a.Body)
	}
	other := ask
	other.Canary = 0
	if a := b.AskOnce(t, "key-1", b.Token, http.MethodPost, "/operations", other); a.Code() != "idempotency_conflict" {
		t.Errorf("the same key for something else: %d %s", a.Status, a.Body)
	}
}
