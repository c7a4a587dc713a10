package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// reserves reserves nodes of a SKU for the tenant, for an hour.
func (n *tenant) reserves(t *testing.T, b *servertest.Broker, sku string, nodes int) {
	t.Helper()
	n.reserved = reserved(t, b, b.Token, api.ReservationCreate{Project: n.project.ID, SKU: sku, Nodes: nodes, To: b.Now().Add(time.Hour), Reason: "contract 17"})
}

func (n tenant) reservations() string { return "/projects/" + n.project.ID + "/reservations" }

func reserved(t *testing.T, b *servertest.Broker, token string, body api.ReservationCreate) (out api.PlatformReservation) {
	t.Helper()
	a := b.Ask(t, token, http.MethodPost, "/reservations", body)
	if err := json.Unmarshal(a.Body, &out); err != nil || a.Status != http.StatusCreated {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return out
}

// A platform admin reserves nodes; the project sees the reservation and gets the nodes, and another project
// reads of a shortage alone.
func TestAReservationIsMadeSeenAndEnded(t *testing.T) {
	b := servertest.Start(t)
	stocked(t, b, "h100", 3)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	mine.quota(t, b, "h100", 9)
	theirs.quota(t, b, "h100", 9)
	member := mine.tokens(t, b)["project_member of a project"]

	theirs.reserves(t, b, "h100", 2)
	r := theirs.reserved
	if r.Status != "in_force" || !strings.HasPrefix(r.ID, "rsv-") || r.ProjectID != theirs.project.ID || r.Site != "" || r.Nodes != 2 || r.EndedAt != nil || r.Held != 0 {
		t.Errorf("%+v", r)
	}
	a := b.Ask(t, member, http.MethodPost, mine.allocations(), mine.asks("h100", 2))
	text := string(a.Body)
	if a.Code() != "sku_unavailable" || strings.Contains(text, "reserv") || strings.Contains(text, theirs.project.ID) || strings.Contains(text, "dc1") {
		t.Errorf("another project reads %d %s", a.Status, text)
	}
	mine.allocated(t, b, member, mine.asks("h100", 1))
	theirs.allocated(t, b, b.Token, theirs.asks("h100", 1))

	var seen api.Reservation
	a = b.Ask(t, theirs.tokens(t, b)["project_viewer of a project"], http.MethodGet, theirs.reservations()+"/"+r.ID, nil)
	if err := json.Unmarshal(a.Body, &seen); err != nil || seen.ID != r.ID || seen.Status != "in_force" || seen.Held != 1 || strings.Contains(string(a.Body), "kept") {
		t.Errorf("the project sees %d %s, %v", a.Status, a.Body, err)
	}
	servertest.Eventually(t, "the free node to be on record", func() bool {
		b.Advance(time.Second)
		got := servertest.Must[api.PlatformReservation](t, b, http.MethodGet, "/reservations/"+r.ID, nil)
		return got.Held == 1 && got.Kept == 1 && got.Missing == 0
	})
	if rows := servertest.Must[api.Capacity](t, b, http.MethodGet, "/capacity", nil).Rows; rows[0].Nodes.Reserved != 1 || rows[0].Nodes.Available != 0 || rows[0].Nodes.Delivered != 3 {
		t.Errorf("the capacity is %+v", rows)
	}
	for query, fit := range map[string]int{"": 0, "&project=lab": 0, "&project=moonshot": 1, "&site=dc1": 0} {
		got := servertest.Must[api.AllocationExplanation](t, b, http.MethodGet, "/allocations/explain?sku=h100"+query, nil)
		if got.Fit != fit || got.WouldFit != (fit == 1) || fit == 0 && got.Reasons[len(got.Reasons)-1].Code != "reserved" {
			t.Errorf("%q: %+v", query, got)
		}
	}

	if a := b.Ask(t, b.Token, http.MethodPost, "/reservations/"+r.ID+"/end", api.ReasonBody{}); a.Code() != "reason_missing" {
		t.Errorf("ended without a reason: %d %s", a.Status, a.Body)
	}
	for range 2 {
		if got := servertest.Must[api.PlatformReservation](t, b, http.MethodPost, "/reservations/"+r.ID+"/end", api.ReasonBody{Reason: "paid no longer"}); got.Status != "ended" || got.EndedAt == nil || got.Held != 0 {
			t.Errorf("%+v", got)
		}
	}
	mine.allocated(t, b, member, mine.asks("h100", 1))
	for query, want := range map[string]int{"": 0, "?ended=true": 1, "?ended=true&project=lab": 0, "?ended=true&sku=h200": 0} {
		if got := servertest.Must[api.PlatformReservationList](t, b, http.MethodGet, "/reservations"+query, nil); len(got.Items) != want {
			t.Errorf("%q lists %+v", query, got.Items)
		}
	}
}

// A token that is bound to sites sees nothing of the reservations of other sites.
func TestATokenOfASiteSeesItsReservationsAlone(t *testing.T) {
	b := servertest.Start(t)
	stocked(t, b, "h100", 2)
	b.OnRecord(t, "dc1", "dc2")
	mine := newTenant(t, b, "acme", "lab")
	at := reserved(t, b, b.Token, api.ReservationCreate{Project: "lab", SKU: "h100", Nodes: 1, Site: "dc1", To: b.Now().Add(time.Hour), Reason: "r"})
	mine.reserves(t, b, "h100", 1)
	far := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}})
	for _, path := range []string{"/reservations/" + at.ID, mine.reservations() + "/" + at.ID} {
		if a := b.Ask(t, far, http.MethodGet, path, nil); a.Code() != "reservation_not_found" {
			t.Errorf("GET %s: %d %s", path, a.Status, a.Body)
		}
	}
	for _, path := range []string{"/reservations", mine.reservations()} {
		if a := b.Ask(t, far, http.MethodGet, path, nil); strings.Contains(string(a.Body), at.ID) || !strings.Contains(string(a.Body), mine.reserved.ID) {
			t.Errorf("GET %s: %s", path, a.Body)
		}
	}
}

// A repeated request with the same key makes one reservation.
func TestARepeatedRequestReservesOnce(t *testing.T) {
	b := servertest.Start(t)
	stocked(t, b, "h100", 2)
	newTenant(t, b, "acme", "lab")
	body := api.ReservationCreate{Project: "lab", SKU: "h100", Nodes: 1, To: b.Now().Add(time.Hour), Reason: "r"}
	var ids []string
	for range 2 {
		a := b.AskOnce(t, "job-17", b.Token, http.MethodPost, "/reservations", body)
		var got api.PlatformReservation
		if err := json.Unmarshal(a.Body, &got); err != nil || a.Status != http.StatusCreated {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		ids = append(ids, got.ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("two reservations: %v", ids)
	}
	body.Reason = ""
	if a := b.Ask(t, b.Token, http.MethodPost, "/reservations", body); a.Code() != "reason_missing" {
		t.Errorf("without a reason: %d %s", a.Status, a.Body)
	}
}

// A reservation that began while others have the nodes is an alert until it lacks none.
func TestAReservationThatLacksNodesIsAnAlert(t *testing.T) {
	b := servertest.Start(t)
	stocked(t, b, "h100", 2)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	mine.holds(t, b, "h100")
	alert := func() string {
		for _, a := range servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts {
			if a.Code == "reservation_short" {
				return a.Message
			}
		}
		return ""
	}
	theirs.reserves(t, b, "h100", 2)
	want := "reservation " + theirs.reserved.ID + " of project " + theirs.project.ID + ": 1 of 2 nodes of SKU h100 at any site are neither"
	servertest.Eventually(t, "the alert", func() bool { b.Advance(time.Second); return strings.HasPrefix(alert(), want) })
	scraped := func(n string) bool {
		text := string(b.Ask(t, b.Token, http.MethodGet, b.OperatorURL()+"/metrics", nil).Body)
		return strings.Contains(text, "\nhostler_reservations_short "+n+"\n")
	}
	if !scraped("1") {
		t.Error("no metric counts the reservation")
	}
	servertest.Must[api.PlatformReservation](t, b, http.MethodPost, "/reservations/"+theirs.reserved.ID+"/end", api.ReasonBody{Reason: "r"})
	if got := alert(); got != "" || !scraped("0") {
		t.Errorf("after its end: %s", got)
	}
}
