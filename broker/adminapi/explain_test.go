package adminapi_test

import (
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
