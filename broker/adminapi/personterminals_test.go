package adminapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/operators/oidc/oidctest"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// signedIn are the tokens of people of the lab who sign in.
type signedIn struct {
	*terminalTenant
	fake *oidctest.Provider
}

func newSignedIn(t *testing.T) signedIn {
	t.Helper()
	b, fake := withPeople(t)
	return signedIn{terminalTenantOf(t, b), fake}
}

// person is an ID token that is good for a while by the broker's clock.
func (s signedIn) person(subject, group string, lasts time.Duration) string {
	s.Helper()
	return s.fake.Token(s, subject, map[string]any{"groups": []string{group}, "exp": s.b.Now().Add(lasts).Unix()})
}

func (s signedIn) ticket(token, id string) servertest.Answer {
	s.Helper()
	return s.b.Ask(s, token, http.MethodPost, s.project()+"/terminals/"+id+"/tickets", api.TerminalTicketRequest{Columns: 80, Rows: 24})
}

func TestAPersonOfATenantHasATerminal(t *testing.T) {
	s := newSignedIn(t)
	ada := s.person("7", "lab", time.Hour)
	k, member, node, p := s.joined(ada)
	if k.Terminal.OpenedBy != "oidc:7" || !k.Terminal.Recorded || p.Username != "tenant" || p.AllowRoot {
		t.Errorf("%+v, the node is told %+v", k.Terminal, p)
	}
	node.Send(t, frame.Data{Bytes: []byte("shown\r\n")})
	if got := servertest.Until[frame.Data](t, member); string(got.Bytes) != "shown\r\n" {
		t.Errorf("%q", got.Bytes)
	}
	for what, path := range map[string]string{
		"the audit log": "/audit?action=terminal.create", "the recording": "/recordings?opened_by=oidc:7", "the platform's list": "/terminals?opened_by=oidc:7",
	} {
		if a := s.b.Ask(t, s.b.Token, http.MethodGet, path, nil); !strings.Contains(string(a.Body), `"oidc:7"`) {
			t.Errorf("%s does not name the person: %d %s", what, a.Status, a.Body)
		}
	}

	// A person is in the own sessions alone, and an operator who signs in is in none.
	id := k.Terminal.ID
	for what, row := range map[string]struct{ token, code string }{
		"another person":           {s.person("8", "lab", time.Hour), "terminal_not_yours"},
		"an operator who signs in": {s.person("9", "ops", time.Hour), "terminal_needs_token"},
		"another token":            {s.member(), "terminal_not_yours"},
		"the person":               {ada, ""},
	} {
		if a := s.ticket(row.token, id); a.Code() != row.code {
			t.Errorf("%s: %d %s, want %q", what, a.Status, a.Body, row.code)
		}
	}
	again := answered[api.ProjectTerminalTicket](t, s.ticket(ada, id))
	if _, code := s.dials(s.person("8", "lab", time.Hour), id, again.Ticket); code != "terminal_ticket_wrong_operator" {
		t.Errorf("another person with the ticket: %q", code)
	}
	second, code := s.dials(ada, id, again.Ticket)
	if code != "" {
		t.Fatalf("the person with the ticket: %q", code)
	}
	second.Send(t, frame.Hello{Version: frame.Version, SessionID: id, Taken: 7})
	servertest.Until[frame.Welcome](t, second)
}

func TestAPersonsTerminalEndsWithItsCause(t *testing.T) {
	why := api.ReasonBody{Reason: "of gpu-h100-8gpu-0 at dc1"}
	for name, row := range map[string]struct {
		cause func(s signedIn)
		code  string
	}{
		// Less than the two minutes that the colleague's session waits for its node.
		"the ID token ends": {func(s signedIn) { s.b.Advance(90 * time.Second) }, "token_expired"},
		"the person is denied": {func(s signedIn) {
			servertest.Must[api.Member](s, s.b, http.MethodPost, s.project()+"/members/deny", api.MemberDeny{Subject: "oidc:7", Reason: "left"})
		}, "person_denied"},
		"the allocation ends": {func(s signedIn) {
			servertest.Must[api.PlatformAllocation](s, s.b, http.MethodPost, "/allocations/"+s.held.ID+"/force-release", why)
		}, "allocation_not_active"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSignedIn(t)
			k, _, _, _ := s.joined(s.person("7", "lab", time.Minute))
			// A colleague who keeps the sign-in going keeps the session.
			other := s.opened(s.person("8", "lab", time.Minute)).Terminal.ID
			if a := s.ticket(s.person("8", "lab", time.Hour), other); a.Status/100 != 2 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if a := s.ticket(s.person("8", "lab", time.Minute), other); a.Status/100 != 2 { // an older one takes nothing away
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			row.cause(s)
			viewer := s.tokens["project_viewer"]
			servertest.Eventually(t, "the end", func() bool { return s.show(viewer, k.Terminal.ID).Status == "closed" })
			end := s.show(viewer, k.Terminal.ID)
			if end.EndCode != row.code || end.EndText == "" || strings.Contains(end.EndText, s.node.NodeID) {
				t.Errorf("%+v, want %s", end, row.code)
			}
			if got := s.show(viewer, other); row.code != "allocation_not_active" && got.Status == "closed" {
				t.Errorf("the colleague's session ended, too: %+v", got)
			}
		})
	}
}
