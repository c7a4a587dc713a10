package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// The leading broker turns over a node after its tenant, unless the site's policy forbids that.
func TestTheLeaderTurnsANodeOverAfterItsTenant(t *testing.T) {
	b := servertest.Start(t)
	for _, name := range []string{"dc1", "dc2"} {
		servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", map[string]any{
			"name": name, "region_code": name, "api_base_url": "http://" + name + ".invalid:5240/MAAS/", "pxe_iface": "ens19", "node_pxe_iface": "eno8303",
		})
	}
	servertest.Must[api.SiteProfile](t, b, http.MethodPatch, "/maas-sites/dc2/profiles/default", map[string]any{"turnover_automatic": false})
	other := b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc2"}).Settle(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	for _, n := range []*servertest.Node{other, n} {
		n.LetIn(t, "a-1", "alice")
		servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/"+n.NodeID+"/tasks", map[string]any{
			"type": "allocation.revoke_user", "params": map[string]any{"allocation_id": "a-1", "username": "alice"},
		})
		d, task := n.Next(t)
		n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.RevokeUserResult{}, taskcatalog.Report{})
	}
	servertest.Eventually(t, "the turnover of h1", func() bool {
		all := servertest.Must[api.DecommissionList](t, b, http.MethodGet, "/decommissions", nil).Items
		if len(all) > 1 || len(all) == 1 && (all[0].NodeID != n.NodeID || all[0].RequestedBy != "system" || !strings.Contains(all[0].Reason, "a-1")) {
			t.Fatalf("%+v", all)
		}
		return len(all) == 1
	})
}
