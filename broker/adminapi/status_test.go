package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestTheStatusShowsWhatAPersonShouldLookAt(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, resource.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.NewNode(t, resource.NodeCreate{Hostname: "h2", Site: "dc2"}).Settle(t)
	servertest.Must[resource.NodeBootstrap](t, b, http.MethodPost, "/nodes", resource.NodeCreate{Hostname: "new", Site: "dc1", TTLSeconds: 7200})
	act(t, b, "h1", "quarantine", resource.NodeAction{Reason: "smells of smoke"})
	servertest.Must[resource.FreezeResult](t, b, http.MethodPost, "/freeze", resource.FreezePut{Site: "dc1", Reason: "smoke"})
	bound := b.NewToken(t, resource.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}, TTLSeconds: 5 * 24 * 3600})

	what := func(s resource.Status) string {
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
		var s resource.Status
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
