package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func ptr[T any](v T) *T { return &v }

func TestANodeIsPlacedInParts(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1", Place: api.Place{Rack: "c07", Unit: 3}, Labels: map[string]string{"room": "hall-1", "rack": "old"}})
	place := func(c api.PlaceChange) api.Node {
		t.Helper()
		return servertest.Must[api.Node](t, b, http.MethodPatch, "/nodes/h1/place", api.NodePlaceChange{PlaceChange: c, Reason: "moved"})
	}
	place(api.PlaceChange{Zone: ptr("az1"), Domain: ptr("feed-a")})
	place(api.PlaceChange{Unit: ptr(12)})
	place(api.PlaceChange{Unit: ptr(12)}) // once more
	n := place(api.PlaceChange{Zone: ptr("")})
	if n.Zone != "" || n.Room != "hall-1" || n.Rack != "c07" || n.Unit != 12 || n.Domain != "feed-a" {
		t.Errorf("it stands in %q, %q, %q, %d, %q", n.Zone, n.Room, n.Rack, n.Unit, n.Domain)
	}
	if listed := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes", nil).Items[0]; listed.Rack != "c07" || listed.Unit != 12 || listed.Domain != "feed-a" {
		t.Errorf("it is listed in %q, %d, %q", listed.Rack, listed.Unit, listed.Domain)
	}
	if seen := documented(t, b)["node.place.changed"]; seen != 3 {
		t.Errorf("%d events for three changes", seen)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=node.place", nil).Items
	if len(rows) != 3 || rows[0].Reason != "moved" || !strings.Contains(string(rows[1].Before)+string(rows[1].After), `"unit":12`) {
		t.Errorf("audited are %+v", rows)
	}
	for name, c := range map[string]api.PlaceChange{"a capital": {Rack: ptr("C07")}, "a comma": {Zone: ptr("a,b")}} {
		if a := b.Ask(t, b.Token, http.MethodPatch, "/nodes/h1/place", api.NodePlaceChange{PlaceChange: c}); a.Code() != "place_invalid" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h2", Place: api.Place{Rack: "C07"}}); a.Code() != "place_invalid" {
		t.Errorf("a new node: %d %s", a.Status, a.Body)
	}
}

// A site's capacity is counted by the racks of its nodes.
func TestCapacityIsCountedByPlaces(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1", Place: api.Place{Rack: "c07"}})
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc1"})
	k := servertest.Must[api.Capacity](t, b, http.MethodGet, "/capacity?by=rack", nil)
	if len(k.Rows) != 2 || k.By != "rack" || k.Rows[0].Place != "" || k.Rows[1].Place != "c07" || k.Rows[1].Nodes.Delivered != 1 {
		t.Errorf("%+v", k)
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/capacity?by=unit", nil); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("by unit: %d %s", a.Status, a.Body)
	}
}

// A list of places is judged whole before a node changes.
func TestManyNodesArePlacedOrNone(t *testing.T) {
	b := servertest.Start(t)
	for _, name := range []string{"h1", "h2"} {
		b.NewNode(t, api.NodeCreate{Hostname: name, Site: "dc1"})
	}
	item := func(node string, line int, rack string) api.NodePlace {
		return api.NodePlace{Node: node, Line: line, PlaceChange: api.PlaceChange{Rack: &rack}}
	}
	for name, c := range map[string]struct {
		second     api.NodePlace
		code, says string
	}{
		"no such node": {item("h9", 7, "c08"), "node_not_found", "line 7: there is no node"},
		"a bad word":   {item("h2", 7, "C08"), "place_invalid", "line 7: cannot use rack"},
		"twice":        {item("dc1/h1", 0, "c08"), "place_invalid", "item 2: the list names node"},
	} {
		a := b.Ask(t, b.Token, http.MethodPut, "/node-places", api.NodePlaces{Items: []api.NodePlace{item("h1", 2, "c07"), c.second}})
		if a.Code() != c.code || !strings.Contains(string(a.Body), c.says) {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if n := show(t, b, "h1"); n.Rack != "" {
			t.Errorf("%s: h1 stands in %s", name, n.Rack)
		}
	}
	list := api.NodePlaces{Items: []api.NodePlace{item("h1", 2, "c07"), item("h2", 3, "c08")}, Reason: "survey"}
	for _, want := range []api.NodePlacesResult{{Changed: 2}, {Unchanged: 2}} {
		if got := servertest.Must[api.NodePlacesResult](t, b, http.MethodPut, "/node-places", list); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if h1, h2 := show(t, b, "h1"), show(t, b, "h2"); h1.Rack != "c07" || h2.Rack != "c08" {
		t.Errorf("they stand in %s and %s", h1.Rack, h2.Rack)
	}
}

func TestAMachineBringsItsPlace(t *testing.T) {
	r := newRack(t, `{"require_hw_sync":false,"enable_phase2_roce":false}`)
	for name, c := range map[string]struct {
		machine int
		zone    string // in MAAS
		place   api.Place
		want    api.Place
	}{
		"as ordered":          {1, "az2", api.Place{Zone: "az1", Rack: "c07", Unit: 3}, api.Place{Zone: "az1", Rack: "c07", Unit: 3}},
		"the zone of MAAS":    {2, "AZ2", api.Place{Domain: "feed-a"}, api.Place{Zone: "az2", Domain: "feed-a"}},
		"MAAS's default zone": {3, "", api.Place{}, api.Place{}},
		"a zone with a comma": {4, "a,b", api.Place{}, api.Place{}},
	} {
		o := r.adopt(api.AdoptedMachine{SystemID: r.deployedIn(c.machine, "", c.zone), Place: c.place})
		n := show(t, r.Broker, *r.until(o.OnboardingID, "its agent's turn", atStage("wait_for_agent_enrollment")).NodeID)
		if got := (api.Place{Zone: n.Zone, Room: n.Room, Row: n.Row, Rack: n.Rack, Unit: n.Unit, Domain: n.Domain}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	m := r.box(5)
	m.Place = api.Place{Rack: "c09", Unit: 40}
	o := r.start(m)
	if n := show(t, r.Broker, *r.until(o.OnboardingID, "its agent's turn", atStage("wait_for_agent_enrollment")).NodeID); n.Rack != "c09" || n.Unit != 40 {
		t.Errorf("an onboarded node stands in %s, %d", n.Rack, n.Unit)
	}
	m = r.box(6)
	m.Place.Rack = "C09"
	if a := r.Ask(t, r.Token, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: m}); a.Code() != "onboarding_invalid" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := r.Ask(t, r.Token, http.MethodPost, "/adoptions", api.AdoptionStart{SiteID: "dc1", AdoptedMachine: api.AdoptedMachine{SystemID: "abc123", Place: m.Place}}); a.Code() != "adoption_invalid" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
