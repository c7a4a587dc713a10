package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
)

func nodeCertificates(t *testing.T, b *servertest.Broker, node string) api.NodeCertificateList {
	t.Helper()
	return servertest.Must[api.NodeCertificateList](t, b, http.MethodGet, "/nodes/"+node+"/certificates", nil)
}

func states(l api.NodeCertificateList) string {
	var s []string
	for _, c := range l.Items {
		state := c.State
		if c.Newest {
			state += "!"
		}
		s = append(s, state)
	}
	return strings.Join(s, " ")
}

func TestANodesCertificatesAreListedByWhatTheyAreGoodFor(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	if l := nodeCertificates(t, b, "h1"); states(l) != "valid!" || l.Hostname != "h1" || l.NodeID != n.NodeID || l.Items[0].Epoch != 1 || l.Items[0].Reason != "" {
		t.Fatalf("of an enrolled node: %+v", l)
	}
	if code := n.TryRenew(t); code != "" {
		t.Fatal(code)
	}
	renewed := nodeCertificates(t, b, "h1")
	if states(renewed) != "valid valid!" || renewed.Items[0].Key != renewed.Items[1].Key {
		t.Fatalf("of a node that renewed: %+v", renewed)
	}
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes/h1/token", api.TokenRequest{Reason: "a new system"})
	again := b.Enroll(t, boot.Token, "h1")
	if l := nodeCertificates(t, b, "h1"); states(l) != "superseded superseded valid!" {
		t.Errorf("of a node that enrolled again: %+v", l)
	}
	again.Offered(t) // the first contact denies the earlier certificates
	if l := nodeCertificates(t, b, "h1"); states(l) != "denied denied valid!" || l.Items[0].Reason != "node_reenrolled" {
		t.Errorf("of a node that was heard: %+v", l)
	}
	b.Advance(100 * 24 * time.Hour)
	if l := nodeCertificates(t, b, "h1"); states(l) != "denied denied expired!" {
		t.Errorf("after the end of all of them: %+v", l)
	}
}

func TestOneCertificateIsDeniedByAnAdminWithAReason(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc1"})
	thief := *n
	if code := n.TryRenew(t); code != "" {
		t.Fatal(code)
	}
	serial := nodeCertificates(t, b, "h1").Items[0].Serial
	path := func(node, serial string) string { return "/nodes/" + node + "/certificates/" + serial + "/deny" }
	operator := b.NewToken(t, api.TokenCreate{Name: "ann", Role: "operator"})
	for what, row := range map[string]struct {
		token, path, reason, code string
	}{
		"an operator":             {operator, path("h1", serial), "stolen", "role_insufficient"},
		"no reason":               {b.Token, path("h1", serial), " ", "reason_missing"},
		"another node's":          {b.Token, path("h2", serial), "stolen", "certificate_not_found"},
		"one that nobody has had": {b.Token, path("h1", "00"), "stolen", "certificate_not_found"},
	} {
		if a := b.Ask(t, row.token, http.MethodPost, row.path, api.ReasonBody{Reason: row.reason}); a.Code() != row.code {
			t.Errorf("%s: %d %s, want %s", what, a.Status, a.Body, row.code)
		}
	}
	if got := states(nodeCertificates(t, b, "h1")); got != "valid valid!" {
		t.Fatalf("refused denials left %s", got)
	}

	for range 2 { // a repeat changes nothing
		l := servertest.Must[api.NodeCertificateList](t, b, http.MethodPost, path("h1", serial), api.ReasonBody{Reason: "stolen"})
		if c := l.Items[0]; states(l) != "denied valid!" || c.Reason != "operator: stolen" || c.DeniedAt.IsZero() {
			t.Errorf("answered %+v", l)
		}
	}
	servertest.Eventually(t, "the refusal of the denied certificate", func() bool {
		_, code, err := thief.Try(http.MethodPost, "/renew")
		return err != nil || code == "certificate_denied"
	})
	n.Offered(t) // fails the test if the node's present certificate is refused
	if got := show(t, b, "h1"); got.Status != "active" {
		t.Errorf("the node is %s", got.Status)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=certificate.deny&limit=100", nil)
	var done []api.AuditEntry
	for _, e := range rows.Items {
		if e.Code == "" {
			done = append(done, e)
		}
	}
	if len(done) != 1 || done[0].Actor != "admin" || done[0].Reason != "stolen" || done[0].Subject != "node/"+n.NodeID || !strings.Contains(string(done[0].After), serial) {
		t.Errorf("the audit log has %+v", done)
	}
	servertest.Eventually(t, "the event", func() bool { return documented(t, b)[store.CertificateDeniedEvent] == 1 })
}

// A serial of another node and an unknown serial are refused in the same words. Each attempt is
// audited.
func TestAWrongSerialIsRefusedAlikeAndAudited(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h3", Site: "dc2"}).Settle(t)
	for what, serial := range map[string]string{
		"another node's": nodeCertificates(t, b, "h2").Items[0].Serial,
		"another site's": nodeCertificates(t, b, "h3").Items[0].Serial,
		"nobody's":       "0f",
	} {
		a := b.Ask(t, b.Token, http.MethodPost, "/nodes/h1/certificates/"+serial+"/deny", api.ReasonBody{Reason: "stolen"})
		want := fmt.Sprintf("cannot deny certificate %q: node %s has no such certificate (see hostler node certificate list %s)", serial, n.NodeID, n.NodeID)
		var p api.Problem
		if err := json.Unmarshal(a.Body, &p); err != nil || p.Status != http.StatusNotFound || p.Code != "certificate_not_found" || p.Detail != want {
			t.Errorf("%s: %d %s, want %s", what, a.Status, a.Body, want)
		}
		rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=certificate.deny&limit=100", nil).Items
		if !slices.ContainsFunc(rows, func(e api.AuditEntry) bool {
			return e.Code == "certificate_not_found" && e.Actor == "admin" && e.Subject == "node/"+n.NodeID && e.Reason == want && strings.Contains(string(e.After), "stolen")
		}) {
			t.Errorf("%s: the audit log has %+v", what, rows)
		}
	}
}

// A node that was off for long comes back by renewing an expired certificate; the denial of that
// certificate shuts the node out as well.
func TestAnExpiredCertificateMayBeTheNewest(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.Advance(25 * time.Hour)
	if l := nodeCertificates(t, b, "h1"); states(l) != "expired!" {
		t.Errorf("of a node that was off for a day: %+v", l)
	}
	servertest.Eventually(t, "the renewal", func() bool { return n.TryRenew(t) == "" }) // once the deny list is read again
	if l := nodeCertificates(t, b, "h1"); states(l) != "expired valid!" {
		t.Errorf("of a node that came back: %+v", l)
	}
}

// The broker lets certificates that it denied itself, as after a rotation, get as far as their
// request. An operator's text is never taken for one of these reasons.
func TestTheWordsOfADenialOpenNothing(t *testing.T) {
	for _, words := range []string{store.DenyRotated, store.DenyReleased, store.DenyKnown} {
		b := servertest.Start(t)
		n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
		serial := nodeCertificates(t, b, "h1").Items[0].Serial
		servertest.Must[api.NodeCertificateList](t, b, http.MethodPost, "/nodes/h1/certificates/"+serial+"/deny", api.ReasonBody{Reason: words})
		servertest.Eventually(t, "the end of its connections", func() bool {
			_, _, err := n.At(t, b).Try(http.MethodPost, "/renew")
			return err != nil // not even a handshake
		})
	}
}
