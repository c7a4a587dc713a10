package adminapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

func TestANodeCarriesItsAvailability(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"})
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc1"})
	n.Settle(t)
	is := func(want string) {
		t.Helper()
		servertest.Eventually(t, "the word "+want, func() bool { return show(t, b, "h1").Availability == want })
	}
	is("available")
	servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/h1/actions/quarantine", api.NodeAction{Reason: "a smell"})
	is("held")
	got := show(t, b, "h1")
	if len(got.AvailabilityCodes) == 0 || got.AvailabilityCodes[0] != "node_status" || got.AvailabilitySince.IsZero() || got.AvailabilityAt.Before(got.AvailabilitySince) {
		t.Errorf("%+v", got.NodeAvailability)
	}
	servertest.Eventually(t, "the other node's word", func() bool { return show(t, b, "h2").Availability == "out_of_service" })
	for filter, want := range map[string]string{"held": "h1", "held,out_of_service": "h1 h2", "available": "", "": "h1 h2"} {
		list := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes?availability="+filter, nil)
		names := map[string]bool{}
		for _, n := range list.Items {
			names[n.Hostname] = true
			if n.Availability == "" {
				t.Errorf("node %s carries no availability in a list", n.Hostname)
			}
		}
		if len(names) != len(strings.Fields(want)) {
			t.Errorf("of %q there are %v, want %s", filter, names, want)
		}
		for _, name := range strings.Fields(want) {
			if !names[name] {
				t.Errorf("of %q there are %v, want %s", filter, names, want)
			}
		}
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/nodes?availability=broken", nil); a.Code() != "availability_unknown" {
		t.Errorf("a misspelled filter gives %s", a.Body)
	}
}

// The status names sites with nodes that nobody turns over.
func TestTheStatusTellsOfNodesThatNobodyTurnsOver(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	alert := func() (message string) {
		for _, a := range servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts {
			if a.Code == "turnover_not_begun" {
				message = a.Message
			}
		}
		return message
	}
	n.LetIn(t, "a-1", "alice")
	if got := alert(); got != "" {
		t.Fatalf("with a tenant: %s", got)
	}
	servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{
		Type: "allocation.revoke_user", Params: json.RawMessage(`{"allocation_id":"a-1","username":"alice"}`),
	})
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.RevokeUserResult{Existed: true}, taskcatalog.Report{})
	b.Advance(store.TurnoverWithin + time.Minute)
	servertest.Eventually(t, "the alert", func() bool { return strings.HasPrefix(alert(), "site dc1: 1 nodes whose tenant left") })
}

// The status names disabled sites with nodes that could be handed out.
func TestTheStatusTellsOfADisabledSite(t *testing.T) {
	r := newRack(t, `{}`)
	r.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	alert := func() (message string) {
		for _, a := range servertest.Must[api.Status](t, r.Broker, http.MethodGet, "/status", nil).Alerts {
			if a.Code == "site_disabled" {
				message = a.Message
			}
		}
		return message
	}
	servertest.Eventually(t, "the node to be available", func() bool { return show(t, r.Broker, "h1").Availability == "available" })
	if got := alert(); got != "" {
		t.Fatalf("before: %s", got)
	}
	servertest.Must[api.Site](t, r.Broker, http.MethodDelete, "/maas-sites/dc1?reason=closing", nil)
	servertest.Eventually(t, "the alert", func() bool { return strings.HasPrefix(alert(), "site dc1: 1 nodes are handed to nobody") })
	if n := show(t, r.Broker, "h1"); n.Availability != "maintenance" || n.Handout == nil || n.Handout.Reasons[0].Code != "site_disabled" {
		t.Errorf("%+v", n)
	}
}

// A token of a site counts the nodes of its site.
func TestCapacityIsOfTheSitesInView(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc2"})
	servertest.Eventually(t, "both words", func() bool {
		return show(t, b, "h1").Availability == "available" && show(t, b, "h2").Availability == "out_of_service"
	})
	all := servertest.Must[api.Capacity](t, b, http.MethodGet, "/capacity", nil)
	if len(all.Rows) != 2 || all.Rows[0].Site != "dc1" || all.Rows[0].Nodes.Available != 1 || all.Rows[1].Nodes.OutOfService != 1 || all.Rows[1].Nodes.Healthy != 0 {
		t.Errorf("%+v", all.Rows)
	}
	bound := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}})
	b.Token = bound
	one := servertest.Must[api.Capacity](t, b, http.MethodGet, "/capacity", nil)
	if len(one.Rows) != 1 || one.Rows[0].Site != "dc2" {
		t.Errorf("%+v", one.Rows)
	}
	if a := b.Ask(t, bound, http.MethodGet, "/capacity?site=dc1", nil); a.Code() != "site_forbidden" {
		t.Errorf("another site's capacity is %s", a.Body)
	}
}

// A node that could not be provisioned again and again is shown by list, node and status until an operator activates it.
func TestANodeThatCannotBeProvisionedIsShownUntilItIsActivated(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100", 1)
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100", 1)
	member := mine.tokens(t, b)["project_member"]
	nodes := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes", nil).Items
	id := nodes[0].ID
	said := func() (messages []string) {
		for _, a := range servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts {
			if a.Code == "provisioning_failing" {
				messages = append(messages, a.Message)
			}
		}
		return messages
	}
	for i := range 2 {
		if all := said(); len(all) > 0 {
			t.Fatalf("after %d failures: %q", i, all)
		}
		servertest.Eventually(t, "a free node", func() bool { return show(t, b, id).Availability == "available" })
		made := mine.allocated(t, b, member, mine.asks("h100", 1))
		leads(t, b, made.ID, toProvisioning, store.AllocationChange{
			To: broker.AllocationFailed, By: broker.AllocationWorker, Code: "node_not_ready",
			Faults: []broker.ProvisionFault{{NodeID: id, Code: "login_refused", Message: "sshd is away"}},
		})
	}
	if all := said(); len(all) != 1 || !strings.HasPrefix(all[0], "site dc1: 1 nodes are handed to nobody") {
		t.Errorf("the alerts are %q", all)
	}
	servertest.Eventually(t, "the node to be held", func() bool { return show(t, b, id).Availability == "held" })
	n := show(t, b, id)
	if len(n.Handout.Reasons) != 1 || n.Handout.Reasons[0].Code != "provisioning_failing" || !strings.Contains(n.Handout.Reasons[0].Message, "sshd is away") {
		t.Errorf("against the node stand %+v", n.Handout.Reasons)
	}
	listed := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes?availability=held", nil).Items
	if len(listed) != 1 || !slices.Equal(listed[0].AvailabilityCodes, []string{"provisioning_failing"}) {
		t.Errorf("listed are %+v", listed)
	}
	why := servertest.Must[api.AllocationExplanation](t, b, http.MethodGet, "/allocations/explain?sku=h100&nodes=1", nil)
	if len(why.Reasons) != 1 || why.Reasons[0].Code != "provisioning_failing" {
		t.Errorf("it is explained by %+v", why.Reasons)
	}
	done := act(t, b, id, "activate", api.NodeAction{Reason: "sshd runs"})
	if done.Node.Status != "active" || len(said()) > 0 || !show(t, b, id).Handout.MayBeHandedOut {
		t.Errorf("after the activation: %+v, %q", done.Node, said())
	}
}
