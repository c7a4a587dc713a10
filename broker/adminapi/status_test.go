package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestTheStatusShowsWhatAPersonShouldLookAt(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc2"}).Settle(t)
	b.OnRecord(t, "dc1")
	servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "new", Site: "dc1", TTLSeconds: 7200})
	act(t, b, "h1", "quarantine", api.NodeAction{Reason: "smells of smoke"})
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "smoke"})
	bound := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}, TTLSeconds: 5 * 24 * 3600})

	what := func(s api.Status) string {
		var out []string
		for _, h := range s.Holds {
			out = append(out, h.Kind+" "+h.Site+" "+h.Reason)
		}
		for _, n := range s.Quarantined {
			out = append(out, "quarantined "+n.Hostname+" "+n.Reason)
		}
		for _, e := range s.Expiring {
			out = append(out, fmt.Sprintf("%s %s %v", e.What, e.Name, e.Expired))
		}
		return strings.Join(out, ", ")
	}
	at := func(token, site, want string) {
		t.Helper()
		var s api.Status
		a := b.Ask(t, token, http.MethodGet, "/status"+site, nil)
		if err := json.Unmarshal(a.Body, &s); err != nil || what(s) != want {
			t.Errorf("the status%s is %q, want %q (%v)", site, what(s), want, err)
		}
	}
	at(b.Token, "", "freeze dc1 smoke, quarantined h1 smells of smoke, operator token dc2 false")
	at(b.Token, "?site=dc1", "freeze dc1 smoke, quarantined h1 smells of smoke")
	at(b.Token, "?site=dc2", "")
	at(bound, "", "")
	b.Advance(20 * time.Hour) // without a renewal
	at(bound, "", "node certificate h2 false")
	at(b.Token, "?site=dc1", "freeze dc1 smoke, quarantined h1 smells of smoke, enrolment token new true, node certificate h1 false")
	b.Advance(10 * time.Hour)
	at(bound, "", "node certificate h2 true")
}

// Although a guard holds the status of nodes, silence remains visible: the person on call sees it,
// followers of events are told, and no tenant gets such a node.
func TestASilentSiteIsSeenWhereAPersonLooksAndItsNodesAreNotHandedOut(t *testing.T) {
	b := servertest.Start(t)
	for i := range 6 {
		b.NewNode(t, api.NodeCreate{Hostname: fmt.Sprintf("h%d", i), Site: "dc1"}).Settle(t)
	}
	b.NewNode(t, api.NodeCreate{Hostname: "far", Site: "dc2"}).Settle(t)
	silent := func(site string) string {
		s := servertest.Must[api.Status](t, b, http.MethodGet, "/status"+site, nil)
		var codes []string
		for _, a := range s.Alerts {
			codes = append(codes, a.Code+" "+strings.Fields(a.Message)[1])
		}
		if site == "" && s.Nodes["active"] != 7 {
			t.Errorf("nodes are %v", s.Nodes)
		}
		return strings.Join(codes, ", ")
	}
	if got := silent(""); got != "" {
		t.Fatalf("alerts before: %s", got)
	}
	b.Advance(broker.SilentAfter + time.Second)
	if got, want := silent(""), "site_silent dc1:, site_silent dc2:"; got != want {
		t.Errorf("alerts %q, want %q", got, want)
	}
	if got, want := silent("?site=dc2"), "site_silent dc2:"; got != want {
		t.Errorf("alerts of dc2 %q, want %q", got, want)
	}
	n := servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/h0", nil)
	if n.Status != "active" || n.Handout == nil || n.Handout.MayBeHandedOut || n.Handout.Reasons[0].Code != "node_silent" {
		t.Errorf("%s: %+v", n.Status, n.Handout)
	}
	servertest.Eventually(t, "an event tells of it", func() bool { return documented(t, b)["site.silent"] > 0 })
}

// The database's machine has another clock than the broker's. A node that was heard just now still
// counts as just heard.
func TestANodeIsNotSilentForTheDatabasesClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		b := servertest.Start(t, func(c *server.Config) {
			c.StoreNow = func() time.Time { return time.Now().Add(ahead) }
		})
		n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
		first := servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/h1", nil).LastAgentContactAt
		n.Offered(t)
		servertest.Eventually(t, "its poll is written", func() bool {
			var at api.Node
			a := b.Ask(t, b.Token, http.MethodGet, "/nodes/h1", nil) // refused now and then by the rate limit
			return json.Unmarshal(a.Body, &at) == nil && a.Status == http.StatusOK && !at.LastAgentContactAt.Equal(first)
		})
		b.Advance(time.Minute) // the token's rate limit has recovered
		h := servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/h1", nil).Handout
		s := servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil)
		if h == nil || !h.MayBeHandedOut || len(s.Alerts) > 0 {
			t.Errorf("a store that is %s ahead: %+v, alerts %+v", ahead, h, s.Alerts)
		}
	}
}
