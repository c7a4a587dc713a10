package adminapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestANodeIsShownByAnyNameAndChangedByItsOwnAlone(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1", "dc2")
	enrol := func(hostname, site, serial string) string {
		boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: hostname, Site: site})
		return b.EnrollMachine(t, boot.Token, hostname, "", &taskcatalog.Facts{ChassisSerial: serial}).Settle(t).NodeID
	}
	one := enrol("g1", "dc1", "SN-1")
	two, three := enrol("g2", "dc1", "SN-2"), enrol("g3", "dc2", "SN-2")

	if n := show(t, b, "sn-1"); n.ID != one {
		t.Errorf("the serial number shows %s, want %s", n.ID, one)
	}
	a := b.Ask(t, b.Token, http.MethodGet, "/nodes/sn-2", nil)
	if a.Code() != "ambiguous_node" || !strings.Contains(string(a.Body), two) || !strings.Contains(string(a.Body), three) {
		t.Errorf("a serial number of two: %d %s", a.Status, a.Body)
	}
	bound := b.NewToken(t, api.TokenCreate{Name: "dc1", Role: "viewer", Sites: []string{"dc1"}})
	if a := b.Ask(t, bound, http.MethodGet, "/nodes/sn-2", nil); a.Status != http.StatusOK || !strings.Contains(string(a.Body), two) {
		t.Errorf("a token that sees one of the two: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/nodes/sn-1/actions/quarantine", api.NodeAction{Reason: "r"}); a.Code() != "node_not_found" {
		t.Errorf("a change by serial number: %d %s", a.Status, a.Body)
	}

	found := servertest.Must[api.FoundList](t, b, http.MethodGet, "/find?q=sn-2&limit=1", nil)
	if len(found.Items) != 1 || found.Next == "" || found.Items[0].Kind != "node" || found.Items[0].By != "serial" {
		t.Fatalf("found %+v", found)
	}
	servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/g1/actions/retire", api.NodeAction{Reason: "r", Force: true})
	servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/g1/actions/remove", api.NodeAction{Reason: "r", Force: true})
	if n := show(t, b, "sn-1"); n.ID != one || n.Status != "deleted" {
		t.Errorf("after its removal the serial number shows %s, %s", n.ID, n.Status)
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/find?q=x", nil); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("a word of one character: %d %s", a.Status, a.Body)
	}
}

// What belongs to tenants is found by whoever of the platform may read it: terminals by operators, the
// rest by viewers. A tenant finds nothing by a word.
func TestWhatBelongsToTenantsIsFoundByThoseWhoMayReadIt(t *testing.T) {
	s := newTerminalTenant(t)
	session := s.opened(s.member()).Terminal.ID
	viewer := s.b.NewToken(t, api.TokenCreate{Name: "vera", Role: "viewer"})
	operator := s.b.NewToken(t, api.TokenCreate{Name: "olga", Role: "operator"})
	for word, kinds := range map[string][2]string{ // for the viewer, and for the operator
		session:             {"", "terminal"},
		s.tenant.project.ID: {"project", "project"},
		"acme/lab":          {"project", "project"},
		s.tenant.org.ID:     {"organisation", "organisation"},
		s.held.ID:           {"allocation project_allocation", "allocation project_allocation"},
	} {
		for i, token := range []string{viewer, operator} {
			var got []string
			for _, f := range answered[api.FoundList](t, s.b.Ask(t, token, http.MethodGet, "/find?q="+url.QueryEscape(word), nil)).Items {
				got = append(got, f.Kind)
			}
			if strings.Join(got, " ") != kinds[i] {
				t.Errorf("%q finds %q, want %q", word, got, kinds[i])
			}
		}
		if a := s.b.Ask(t, s.tokens["tenant_admin"], http.MethodGet, "/find?q="+url.QueryEscape(word), nil); a.Code() != "role_insufficient" {
			t.Errorf("a tenant finds %s", a.Body)
		}
	}
	if a := s.b.Ask(t, viewer, http.MethodGet, "/nodes/"+session, nil); a.Code() != "node_not_found" {
		t.Errorf("a viewer is shown a node by a terminal: %d %s", a.Status, a.Body)
	}
	if n := answered[api.Node](t, s.b.Ask(t, operator, http.MethodGet, "/nodes/"+session, nil)); n.ID != s.node.NodeID {
		t.Errorf("an operator is shown %s by a terminal", n.ID)
	}
}
