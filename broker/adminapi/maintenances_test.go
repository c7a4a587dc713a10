package adminapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// A token of another site neither sees a maintenance nor can tell whether there is one.
func TestAMaintenanceBelongsToTheSiteOfItsNode(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"})
	m := servertest.Must[api.MaintenanceDetail](t, b, http.MethodPost, "/maintenances", api.MaintenanceCreate{
		Node: "h1", Category: "cooling", Reason: "r",
	})
	other := b.NewToken(t, api.TokenCreate{Name: "olga", Role: string(broker.RoleOperator), Sites: []string{"dc2"}})
	for _, ask := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, "/maintenances/" + m.ID, nil},
		{http.MethodPost, "/maintenances/" + m.ID + "/notes", api.MaintenanceNoteAdd{Text: "mine"}},
		{http.MethodPost, "/maintenances/" + m.ID + "/close", api.MaintenanceClose{Reason: "r"}},
	} {
		if a := b.Ask(t, other, ask.method, ask.path, ask.body); a.Code() != "maintenance_not_found" {
			t.Errorf("%s %s: %d %s", ask.method, ask.path, a.Status, a.Body)
		}
	}
	if a := b.Ask(t, other, http.MethodPost, "/maintenances", api.MaintenanceCreate{Node: "h1", Category: "gpu", Reason: "r"}); a.Code() != "node_not_found" {
		t.Errorf("of a node of another site: %d %s", a.Status, a.Body)
	}
	mine := b.NewToken(t, api.TokenCreate{Name: "otto", Role: string(broker.RoleOperator), Sites: []string{"dc1"}})
	if a := b.Ask(t, mine, http.MethodPost, "/maintenances/"+m.ID+"/close", api.MaintenanceClose{Reason: "r", Override: true}); a.Code() != "role_insufficient" {
		t.Errorf("an operator leaves the checks out: %d %s", a.Status, a.Body)
	}
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc1"})
	leaves := api.MaintenanceCreate{Node: "h2", Category: "gpu", Tenant: "leaves", Reason: "r"}
	if a := b.Ask(t, mine, http.MethodPost, "/maintenances", leaves); a.Code() != "role_insufficient" {
		t.Errorf("an operator releases the allocation of a tenant: %d %s", a.Status, a.Body)
	}
	servertest.Must[api.MaintenanceDetail](t, b, http.MethodPost, "/maintenances", leaves)
	if a := b.Ask(t, b.Token, http.MethodPost, "/maintenances/"+m.ID+"/close", api.MaintenanceClose{}); a.Code() != "reason_missing" {
		t.Errorf("closed without a reason: %d %s", a.Status, a.Body)
	}
}

// A maintenance that is open beyond its end is an alert of the status, and each step of it is documented.
func TestAMaintenanceBeyondItsEndIsAnAlert(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"})
	m := servertest.Must[api.MaintenanceDetail](t, b, http.MethodPost, "/maintenances", api.MaintenanceCreate{
		Node: "h1", Category: "gpu", Reason: "r", Until: b.Now().Add(time.Hour),
	})
	b.Advance(2 * time.Hour)
	found := false
	for _, a := range servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts {
		found = found || a.Code == "maintenance_overdue"
	}
	if !found {
		t.Error("the status has no alert")
	}
	servertest.Eventually(t, "the event that its end has passed", func() bool { return documented(t, b)["node.maintenance.overdue"] == 1 })
	if seen := servertest.Must[api.MaintenanceDetail](t, b, http.MethodGet, "/maintenances/"+m.ID, nil); !seen.Overdue {
		t.Errorf("it is %+v", seen)
	}
}
