package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestAnOperatorSeesWhyNodesDoNotFit(t *testing.T) {
	b := servertest.Start(t)
	nodes := stocked(t, b, "h100", 3)
	mine := newTenant(t, b, "acme", "lab")
	servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/"+nodes[2].NodeID+"/actions/quarantine", api.NodeAction{Reason: "smoke"})
	mine.holds(t, b, "h100")

	got := servertest.Must[api.AllocationExplanation](t, b, http.MethodGet, "/allocations/explain?sku=h100", nil)
	if !got.WouldFit || got.Site != "dc1" || got.Fit != 1 || got.DoNotFit != 2 || got.Nodes != 1 || got.Code != "" || len(got.Sites) != 1 {
		t.Errorf("%+v", got)
	}
	codes := map[string]string{}
	for _, r := range got.Reasons {
		codes[r.Code] = r.Examples[0].NextAction
	}
	if codes["allocation_live"] == "" || !strings.Contains(codes["node_status"], "hostler node activate "+nodes[2].NodeID) {
		t.Errorf("the reasons are %+v", got.Reasons)
	}
	if got := servertest.Must[api.AllocationExplanation](t, b, http.MethodGet, "/allocations/explain?sku=h100&nodes=2", nil); got.WouldFit || got.Code != "sku_unavailable" || got.Site != "" {
		t.Errorf("%+v", got)
	}
	far := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}})
	for query, want := range map[string]string{
		"?sku=none": "sku_not_found", "": "invalid_request", "?sku=h100&nodes=0": "invalid_request", "?sku=h100&site=dc1": "site_forbidden",
	} {
		token := b.Token
		if want == "site_forbidden" {
			token = far
		}
		if a := b.Ask(t, token, http.MethodGet, "/allocations/explain"+query, nil); a.Code() != want {
			t.Errorf("%q: %d %s, want %s", query, a.Status, a.Body, want)
		}
	}
	if a := b.Ask(t, far, http.MethodGet, "/allocations/explain?sku=h100", nil); a.Status != http.StatusOK || strings.Contains(string(a.Body), "dc1") {
		t.Errorf("a token of dc2 sees %s", a.Body)
	}
}

// An operator pins a project to labels of nodes. The tenant sees nothing of that: not in its project, and not
// in the refusal of a request.
func TestAProjectIsPinnedToLabelsOfNodes(t *testing.T) {
	b := servertest.Start(t)
	nodes := stocked(t, b, "h100", 2)
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100", 2)
	tokens := mine.tokens(t, b)
	path := "/projects/" + mine.project.ID
	order := "least_used"
	pinned := servertest.Must[api.Project](t, b, http.MethodPatch, path, api.ProjectUpdate{
		PlacementOrder: &order, NodeLabels: map[string]string{"tier": "gold", "rack": "a"}, Reason: "contract 17",
	})
	if p := pinned.Placement; p == nil || p.PlacementOrder != order || p.NodeLabels["tier"] != "gold" || len(p.NodeLabels) != 2 {
		t.Fatalf("the project is %+v", pinned)
	}
	servertest.Must[api.Project](t, b, http.MethodPatch, path, api.ProjectUpdate{NodeLabels: map[string]string{"rack": ""}})
	if p := servertest.Must[api.Project](t, b, http.MethodGet, path, nil).Placement; p.PlacementOrder != order || len(p.NodeLabels) != 1 {
		t.Errorf("the placement is %+v", p)
	}
	for body, want := range map[string]string{
		`{}`: "invalid_request", `{"node_labels": {}}`: "invalid_request", `{"placement_order": "random"}`: "invalid_request",
		`{"node_labels": {"Tier": "x"}}`: "label_invalid", `{"node_labels": {"tier": "a b"}}`: "label_invalid",
	} {
		if a := b.Ask(t, b.Token, http.MethodPatch, path, json.RawMessage(body)); a.Code() != want {
			t.Errorf("%s: %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
	for role, token := range tokens {
		for _, of := range []string{path, "/projects"} {
			if a := b.Ask(t, token, http.MethodGet, of, nil); a.Status != http.StatusOK || strings.Contains(string(a.Body), "gold") || strings.Contains(string(a.Body), "placement") {
				t.Errorf("%s reads %s", role, a.Body)
			}
		}
	}
	bare := servertest.Start(t) // without any node
	offersSKU := newTenant(t, bare, "acme", "lab")
	stocked(t, bare, "h100", 0)
	offersSKU.quota(t, bare, "h100", 2)
	none := bare.Ask(t, bare.Token, http.MethodPost, "/projects/"+offersSKU.project.ID+"/allocations", offersSKU.asks("h100", 1))
	got := b.Ask(t, tokens["project_member"], http.MethodPost, path+"/allocations", mine.asks("h100", 1))
	if got.Code() != "sku_unavailable" || string(got.Body) != string(none.Body) {
		t.Errorf("the refusal is %s, and without any node %s", got.Body, none.Body)
	}
	why := servertest.Must[api.AllocationExplanation](t, b, http.MethodGet, "/allocations/explain?sku=h100&project="+mine.project.ID, nil)
	if why.WouldFit || len(why.Reasons) != 1 || why.Reasons[0].Code != "label_missing" || why.Reasons[0].Nodes != 2 {
		t.Errorf("it is explained by %+v", why)
	}
	servertest.Must[api.Node](t, b, http.MethodPut, "/nodes/"+nodes[1].NodeID+"/labels", api.Labels{Labels: map[string]string{"tier": "gold"}})
	made := mine.allocated(t, b, tokens["project_member"], mine.asks("h100", 1))
	if at := servertest.Must[api.PlatformAllocation](t, b, http.MethodGet, "/allocations/"+made.ID, nil); len(at.NodeIDs) != 1 || at.NodeIDs[0] != nodes[1].NodeID {
		t.Errorf("given was %v", at.NodeIDs)
	}
}
