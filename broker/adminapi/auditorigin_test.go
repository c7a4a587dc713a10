package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
)

// behindProxy starts a broker that believes the proxy at this machine's address.
func behindProxy(t *testing.T) *servertest.Broker {
	return servertest.Start(t, func(c *server.Config) { c.Proxies = []string{"127.0.0.0/8", "::1"} })
}

func from(address string) http.Header {
	return http.Header{"X-Forwarded-For": {"10.9.9.9, " + address}, "User-Agent": {"curl/8 \u009b2J"}}
}

func auditRows(t *testing.T, b *servertest.Broker, query string) []api.AuditEntry {
	t.Helper()
	return servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?"+query, nil).Items
}

func TestAnAuditRowSaysFromWhereAndAboutWhichSite(t *testing.T) {
	b := behindProxy(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc2"}).Settle(t)
	for _, host := range []string{"h1", "h2"} {
		a := b.AskWith(t, from("203.0.113.9"), b.Token, http.MethodPost, "/nodes/"+host+"/actions/quarantine", api.NodeAction{Reason: "fan"})
		if a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	rows := auditRows(t, b, "source=203.0.113.9&site=dc1&action=node.transition")
	if len(rows) != 1 || rows[0].Subject != "node/"+n.NodeID || rows[0].Source != "203.0.113.9" || rows[0].Site != "dc1" ||
		!strings.HasPrefix(rows[0].UserAgent, "curl/8") || strings.Contains(rows[0].UserAgent, "\u009b") {
		t.Fatalf("the rows are %+v", rows)
	}
	if rows := auditRows(t, b, "source=203.0.113.7"); len(rows) != 0 {
		t.Errorf("another address has %+v", rows)
	}
	for _, r := range auditRows(t, b, "actor=node:"+n.NodeID) {
		if r.Source != "" || r.UserAgent != "" {
			t.Errorf("a row of the node has the origin of an operator: %+v", r)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/audit?source=here", nil); a.Code() != "source_invalid" {
		t.Errorf("a source that is no address: %d %s", a.Status, a.Body)
	}
	servertest.Eventually(t, "the seals", func() bool {
		v := servertest.Must[api.AuditVerification](t, b, http.MethodGet, "/audit/verify", nil)
		if !v.OK {
			t.Fatalf("%+v", v)
		}
		return v.Rows > 0 && v.Unsealed == 0
	})
}

func TestARefusalNamesTheNodeAndTheAction(t *testing.T) {
	b := behindProxy(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	viewer := b.NewToken(t, api.TokenCreate{Name: "vic", Role: "viewer"})
	if a := b.AskWith(t, from("203.0.113.9"), viewer, http.MethodPost, "/nodes/h1/actions/quarantine", api.NodeAction{Reason: "fan"}); a.Status != http.StatusForbidden {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	rows := auditRows(t, b, "action=request.refused&actor=vic")
	if len(rows) != 1 || rows[0].Subject != "node/"+n.NodeID || rows[0].Code != "role_insufficient" || rows[0].Source != "203.0.113.9" || rows[0].Site != "dc1" ||
		!strings.Contains(string(rows[0].After), `"action":"quarantine"`) || !strings.Contains(string(rows[0].After), `"route":"POST /admin/nodes/{node}/actions/{action}"`) {
		t.Fatalf("the rows are %+v", rows)
	}

	// The guard of a handler that writes no row itself.
	for range 3 {
		if a := b.AskWith(t, from("203.0.113.9"), b.Token, http.MethodPost, "/nodes/h1/actions/resume", api.NodeAction{Reason: "r"}); a.Code() != "nothing_to_resume" {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	rows = auditRows(t, b, "action=request.refused&source=203.0.113.9&actor=admin")
	if len(rows) != 1 || rows[0].Subject != "node/"+n.NodeID || rows[0].Code != "nothing_to_resume" || !strings.Contains(string(rows[0].After), `"action":"resume"`) {
		t.Fatalf("three equal refusals are %+v", rows)
	}
}

func TestNamesThatACallerInventsMakeOneRow(t *testing.T) {
	b := behindProxy(t)
	viewer := b.NewToken(t, api.TokenCreate{Name: "vic", Role: "viewer"})
	for _, name := range []string{"a", "b", "c", "d"} {
		b.Ask(t, viewer, http.MethodPost, "/nodes/"+name+"/actions/quarantine", api.NodeAction{Reason: "fan"})
	}
	if rows := auditRows(t, b, "actor=vic"); len(rows) != 1 || rows[0].Subject != "token/vic" || !strings.Contains(string(rows[0].After), `"node":"a"`) {
		t.Errorf("four invented nodes are %+v", rows)
	}
}

// A viewer who is refused about each node of a fleet has one row for each of a few nodes, and one for all others.
func TestRefusalsAboutAFleetAreCounted(t *testing.T) {
	b := behindProxy(t)
	const nodes = 70
	for i := range nodes {
		b.NewNode(t, api.NodeCreate{Hostname: fmt.Sprintf("h%d", i), Site: "dc1"})
	}
	viewer := b.NewToken(t, api.TokenCreate{Name: "vic", Role: "viewer"})
	round := func() {
		for i := range nodes {
			b.Ask(t, viewer, http.MethodPost, fmt.Sprintf("/nodes/h%d/actions/quarantine", i), api.NodeAction{Reason: "fan"})
		}
	}
	round()
	rows := auditRows(t, b, "action=request.refused&actor=vic&limit=1000")
	if last := rows[0]; len(rows) != 61 || last.Subject != "token/vic" || last.Code != "role_insufficient" {
		t.Fatalf("%d rows, the last is %+v", len(rows), last)
	}
	other := b.NewToken(t, api.TokenCreate{Name: "ann", Role: "viewer"})
	b.Ask(t, other, http.MethodPost, "/nodes/h69/actions/quarantine", api.NodeAction{Reason: "fan"})
	if rows := auditRows(t, b, "action=request.refused&actor=ann"); len(rows) != 1 || !strings.HasPrefix(rows[0].Subject, "node/") {
		t.Errorf("another actor has %+v", rows)
	}
	b.Advance(time.Minute)
	round()
	rows = auditRows(t, b, "action=request.refused&actor=vic&limit=1000")
	if last := rows[0]; len(rows) != 122 || !strings.Contains(last.Reason, "and 9 similar refusals") {
		t.Errorf("a minute later: %d rows, the last is %+v", len(rows), last)
	}
}

func TestAWrongTokenLeavesARow(t *testing.T) {
	b := behindProxy(t)
	for i := range 20 {
		secret := "hso_" + strings.Repeat(string(rune('A'+i)), 43)
		b.AskWith(t, from("203.0.113.9"), secret, http.MethodGet, "/nodes", nil)
	}
	rows := auditRows(t, b, "action=token.refused")
	if len(rows) == 0 || len(rows) > 2 { // token_unknown, and the limit on guessing, which is no wrong token
		t.Fatalf("20 wrong tokens are %d rows: %+v", len(rows), rows)
	}
	r := rows[len(rows)-1]
	if r.Code != "token_unknown" || r.Source != "203.0.113.9" || r.Actor != "unknown" || strings.Contains(r.Reason+r.UserAgent, "hso_") {
		t.Errorf("the row is %+v", r)
	}
}
