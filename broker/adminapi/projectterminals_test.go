package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// terminalTenant is a tenant with an active allocation of one node, and another tenant.
type terminalTenant struct {
	*testing.T
	tenant
	b      *servertest.Broker
	node   *servertest.Node
	other  tenant
	tokens map[string]string
}

func newTerminalTenant(t *testing.T) *terminalTenant {
	t.Helper()
	return terminalTenantOf(t, servertest.Start(t, func(c *server.Config) { c.Often = 20 * time.Millisecond }))
}

func terminalTenantOf(t *testing.T, b *servertest.Broker) *terminalTenant {
	t.Helper()
	nodes := stocked(t, b, "h100.8gpu", 2)
	s := &terminalTenant{T: t, tenant: newTenant(t, b, "acme", "lab"), b: b, other: newTenant(t, b, "secret", "moonshot")}
	s.holds(t, b, "h100.8gpu")
	s.other.holds(t, b, "h100.8gpu")
	s.tokens = s.tenant.tokens(t, b)
	for _, held := range []api.Allocation{s.held, s.other.held} {
		s.nodeOf(held.ID, nodes).Provision(t, held.ID)
	}
	s.node = s.nodeOf(s.held.ID, nodes)
	return s
}

func (s *terminalTenant) nodeOf(allocation string, nodes []*servertest.Node) *servertest.Node {
	s.Helper()
	of := servertest.Must[api.PlatformAllocation](s, s.b, http.MethodGet, "/allocations/"+allocation, nil)
	i := slices.IndexFunc(nodes, func(n *servertest.Node) bool { return n.NodeID == of.NodeIDs[0] })
	return nodes[i]
}

func (s *terminalTenant) member() string { return s.tokens["project_member of a project"] }

func (s *terminalTenant) project() string { return "/projects/" + s.tenant.project.ID }

func (s *terminalTenant) ask(token, allocation string) servertest.Answer {
	s.Helper()
	s.b.Advance(1e9) // no token asks too often
	return s.b.Ask(s, token, http.MethodPost, s.project()+"/allocations/"+allocation+"/terminals",
		api.ProjectTerminalStart{Columns: 80, Rows: 24, Reason: "a look"})
}

func (s *terminalTenant) opened(token string) api.ProjectTerminalTicket {
	s.Helper()
	return answered[api.ProjectTerminalTicket](s, s.ask(token, s.held.ID))
}

// dials shows a ticket at the project's route.
func (s *terminalTenant) dials(token, id, ticket string) (*servertest.Frames, string) {
	s.Helper()
	return s.b.DialTerminalAt(s, token, s.project()+"/terminals/"+id, ticket)
}

// joined is a session with both of its sides.
func (s *terminalTenant) joined(token string) (k api.ProjectTerminalTicket, member, node *servertest.Frames, p taskcatalog.TerminalOpenParams) {
	s.Helper()
	k = s.opened(token)
	member, code := s.dials(token, k.Terminal.ID, k.Ticket)
	if code != "" {
		s.Fatalf("the ticket is refused: %s", code)
	}
	member.Send(s, frame.Hello{Version: frame.Version, SessionID: k.Terminal.ID}, frame.Ping{Nonce: 1})
	servertest.Until[frame.Pong](s, member) // the relay has the member before the node comes
	node, p = s.node.OpenTerminal(s)
	servertest.Until[frame.Welcome](s, member)
	member.Send(s, frame.Ack{Limit: 1 << 16})
	return k, member, node, p
}

func (s *terminalTenant) show(token, id string) api.ProjectTerminal {
	s.Helper()
	return answered[api.ProjectTerminal](s, s.b.Ask(s, token, http.MethodGet, s.project()+"/terminals/"+id, nil))
}

// hidden are the words that no answer to a tenant may have.
func (s *terminalTenant) hidden() []string {
	return []string{s.node.NodeID, "dc1", "gpu-h100", s.b.RelayAddress()}
}

func (s *terminalTenant) tellsNothing(what, text string) {
	s.Helper()
	for _, word := range s.hidden() {
		// A random id may have the short name of a site within.
		if regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text) {
			s.Errorf("%s has %q: %s", what, word, text)
		}
	}
}

func TestAMemberHasATerminalOfTheOwnAllocation(t *testing.T) {
	s := newTerminalTenant(t)
	k, member, node, p := s.joined(s.member())
	if k.Terminal.AllocationID != s.held.ID || k.Terminal.Username != "tenant" || !k.Terminal.Recorded || k.Terminal.RecordInput ||
		k.Terminal.Status != "opening" || k.Terminal.OpenedBy != "acme-project-member" || k.Terminal.MaxSeconds != 8*3600 {
		t.Errorf("%+v", k.Terminal)
	}
	if p.Username != "tenant" || p.AllowRoot || p.AllocationID != s.held.ID || len(p.Command) != 0 {
		t.Errorf("the node is told %+v", p)
	}
	node.Send(t, frame.Data{Bytes: []byte("shown\r\n")})
	if got := servertest.Until[frame.Data](t, member); string(got.Bytes) != "shown\r\n" {
		t.Errorf("%q", got.Bytes)
	}
	viewer := s.tokens["project_viewer of a project"]
	list := s.b.Ask(t, viewer, http.MethodGet, s.project()+"/terminals?status=live&allocation="+s.held.ID, nil)
	if got := answered[api.ProjectTerminalList](t, list); len(got.Items) != 1 || got.Items[0].ID != k.Terminal.ID || got.Items[0].Status != "open" {
		t.Errorf("%+v", got)
	}
	s.tellsNothing("the list", string(list.Body))
	again := answered[api.ProjectTerminalTicket](t, s.b.Ask(t, s.member(), http.MethodPost, s.project()+"/terminals/"+k.Terminal.ID+"/tickets",
		api.TerminalTicketRequest{Columns: 80, Rows: 24}))
	if again.Ticket == "" || again.Ticket == k.Ticket {
		t.Errorf("%+v", again)
	}
	member.Send(t, frame.Ack{Taken: 7, Limit: 1 << 16})
	node.Send(t, frame.EOF{Offset: 7}, frame.Exit{Status: 3})
	if bye := servertest.ByeOf(t, member); bye.Code != "terminal_exited" || bye.Status == nil || *bye.Status != 3 {
		t.Errorf("%+v", bye)
	}
	servertest.Eventually(t, "the end", func() bool { return s.show(viewer, k.Terminal.ID).Status == "closed" })
	if row := s.show(viewer, k.Terminal.ID); row.EndCode != "terminal_exited" || row.ExitStatus == nil || *row.ExitStatus != 3 || row.ClosedAt == nil {
		t.Errorf("%+v", row)
	}
	// What the terminal showed is recorded, with the member on record.
	cast := s.b.Ask(t, s.b.Token, http.MethodGet, "/recordings/"+k.Terminal.ID+"/cast", nil)
	if cast.Status != http.StatusOK || !strings.Contains(string(cast.Body), "shown") {
		t.Errorf("%d %s", cast.Status, cast.Body)
	}
	rows := servertest.Must[api.AuditList](t, s.b, http.MethodGet, "/audit?limit=100&action=terminal.create", nil)
	if len(rows.Items) != 1 || rows.Items[0].Actor != "acme-project-member" || !strings.Contains(string(rows.Items[0].After), s.tenant.project.ID) {
		t.Errorf("%+v", rows.Items)
	}
	if got := servertest.Must[api.Terminal](t, s.b, http.MethodGet, "/terminals/"+k.Terminal.ID, nil); got.ProjectID != s.tenant.project.ID {
		t.Errorf("the platform sees %+v", got)
	}
}

func TestWhoMayOpenATerminalOfAnAllocation(t *testing.T) {
	s := newTerminalTenant(t)
	for name, row := range map[string]struct{ token, allocation, code string }{
		"a viewer":                     {s.tokens["project_viewer of a project"], s.held.ID, "role_insufficient"},
		"a viewer of the organisation": {s.tokens["project_viewer"], s.held.ID, "role_insufficient"},
		"a member of another project":  {s.b.NewToken(t, api.TokenCreate{Name: "eve", Role: "project_admin", Project: s.other.project.ID}), s.held.ID, "project_not_found"},
		"another project's allocation": {s.member(), s.other.held.ID, "allocation_not_found"},
		"no allocation":                {s.member(), "alc-none", "allocation_not_found"},
		"an admin of the platform":     {s.b.Token, s.held.ID, "terminal_members_only"},
		"an operator":                  {s.b.NewToken(t, api.TokenCreate{Name: "olga", Role: "operator"}), s.held.ID, "role_insufficient"},
		"a member":                     {s.member(), s.held.ID, ""},
		"an admin of the project":      {s.tokens["project_admin of a project"], s.held.ID, ""},
		"a member of the organisation": {s.tokens["project_member"], s.held.ID, ""},
		"an admin of the organisation": {s.tokens["tenant_admin"], s.held.ID, ""},
	} {
		a := s.ask(row.token, row.allocation)
		if a.Code() != row.code || row.code == "" && a.Status/100 != 2 {
			t.Errorf("%s: %d %s, want %q", name, a.Status, a.Body, row.code)
		}
		if row.token != s.b.Token && name != "an operator" {
			s.tellsNothing(name, string(a.Body))
		}
	}
	// A member has no route of operators.
	if a := s.b.Ask(t, s.member(), http.MethodPost, "/terminals", api.TerminalStart{Node: s.node.NodeID, Columns: 80, Rows: 24}); a.Code() != "role_insufficient" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for name, body := range map[string]map[string]any{
		"another user":        {"columns": 80, "rows": 24, "username": "root"},
		"a command":           {"columns": 80, "rows": 24, "command": []string{"id"}},
		"a node":              {"columns": 80, "rows": 24, "node": s.node.NodeID},
		"another hostname":    {"columns": 80, "rows": 24, "hostname": "gpu-none"},
		"a TERM of two lines": {"columns": 80, "rows": 24, "term": "xterm\nLD_PRELOAD=x"},
	} {
		if a := s.b.Ask(t, s.member(), http.MethodPost, s.project()+"/allocations/"+s.held.ID+"/terminals", body); a.Status/100 != 4 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		} else {
			s.tellsNothing(name, string(a.Body))
		}
	}
}

func TestATerminalNeedsAnActiveAllocation(t *testing.T) {
	s := newTerminalTenant(t)
	release := store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationUser}
	refused := func(status, token string) {
		t.Helper()
		a := s.ask(token, s.held.ID)
		if a.Code() != "allocation_not_active" || !strings.Contains(string(a.Body), "it is "+status) {
			t.Errorf("%s: %d %s", status, a.Status, a.Body)
		}
		s.tellsNothing(status, string(a.Body))
	}
	leads(t, s.b, s.held.ID, release)
	refused("releasing", s.member())
	rows := servertest.Must[api.AuditList](t, s.b, http.MethodGet, "/audit?action=terminal.refused", nil).Items
	if len(rows) != 1 || rows[0].Actor != "acme-project-member" || rows[0].Code != "allocation_not_active" || rows[0].Subject != "allocation/"+s.held.ID {
		t.Errorf("the refusal is on record as %+v", rows)
	}
	leads(t, s.b, s.held.ID, toReleaseFailed)
	refused("release_failed", s.member())

	// An allocation before it is active, and one that never was.
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100.8gpu", 1)
	early := newTenant(t, b, "acme", "lab")
	early.holds(t, b, "h100.8gpu")
	before := &terminalTenant{T: t, tenant: early, b: b, node: s.node}
	ada := b.NewToken(t, api.TokenCreate{Name: "ada", Role: "project_member", Project: early.project.ID})
	for _, step := range []struct {
		status string
		lead   []store.AllocationChange
	}{{"requested", nil}, {"provisioning", []store.AllocationChange{toProvisioning}}, {"failed", []store.AllocationChange{toFailed}}} {
		leads(t, b, early.held.ID, step.lead...)
		a := before.ask(ada, early.held.ID)
		if a.Code() != "allocation_not_active" || !strings.Contains(string(a.Body), "it is "+step.status) {
			t.Errorf("%s: %d %s", step.status, a.Status, a.Body)
		}
	}
}

func TestAMembersTerminalEndsWithItsCause(t *testing.T) {
	done := func(s *terminalTenant, a servertest.Answer) {
		s.Helper()
		if a.Status/100 != 2 {
			s.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	admin := func(s *terminalTenant, method, path string, body any) {
		s.Helper()
		done(s, s.b.Ask(s, s.b.Token, method, path, body))
	}
	why := api.ReasonBody{Reason: "of gpu-h100-8gpu-0 at dc1"}
	for name, row := range map[string]struct {
		cause func(s *terminalTenant, id string)
		code  string
	}{
		"the allocation is released": {func(s *terminalTenant, _ string) {
			done(s, s.b.Ask(s, s.member(), http.MethodPost, s.project()+"/allocations/"+s.held.ID+"/release", api.ReasonBody{}))
		}, "allocation_not_active"},
		"the allocation is released by force": {func(s *terminalTenant, _ string) {
			admin(s, http.MethodPost, "/allocations/"+s.held.ID+"/force-release", why)
		}, "allocation_not_active"},
		"the member is ended": {func(s *terminalTenant, _ string) {
			for _, m := range servertest.Must[api.MemberList](s, s.b, http.MethodGet, s.project()+"/members", nil).Items {
				if m.Subject == "acme-project-member" {
					admin(s, http.MethodPost, "/members/"+m.ID+"/end", why)
				}
			}
		}, "token_revoked"},
		"the token is revoked": {func(s *terminalTenant, _ string) {
			admin(s, http.MethodPost, "/tokens/acme-project-member/revoke", why)
		}, "token_revoked"},
		"the node is quarantined": {func(s *terminalTenant, _ string) {
			admin(s, http.MethodPost, "/nodes/"+s.node.NodeID+"/actions/quarantine", api.NodeAction{Reason: "test"})
		}, "terminal_node_unready"},
		"an operator closes it": {func(s *terminalTenant, id string) {
			admin(s, http.MethodPost, "/terminals/"+id+"/close", why)
		}, "terminal_closed"},
		"an admin of the project closes it": {func(s *terminalTenant, id string) {
			done(s, s.b.Ask(s, s.tokens["project_admin"], http.MethodPost, s.project()+"/terminals/"+id+"/close", api.ReasonBody{}))
		}, "terminal_closed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTerminalTenant(t)
			k, member, _, _ := s.joined(s.member())
			row.cause(s, k.Terminal.ID)
			// A revoked token ends the member's connection by itself, before or after the session.
			if row.code != "token_revoked" {
				bye := servertest.ByeOf(t, member)
				if string(bye.Code) != row.code || bye.Lasts {
					t.Errorf("%+v, want %s", bye, row.code)
				}
				s.tellsNothing("the end", bye.Text)
			}
			viewer := s.tokens["project_viewer"]
			servertest.Eventually(t, "the end", func() bool { return s.show(viewer, k.Terminal.ID).Status == "closed" })
			end := s.b.Ask(t, viewer, http.MethodGet, s.project()+"/terminals/"+k.Terminal.ID, nil)
			if got := answered[api.ProjectTerminal](t, end); got.EndCode != row.code || got.EndText == "" {
				t.Errorf("%+v, want %s", got, row.code)
			}
			s.tellsNothing("the session", string(end.Body))
			want := row.code
			if want == broker.TerminalNodeUnready {
				want = "node_quarantined" // operators see the cause
			}
			if got := servertest.Must[api.Terminal](t, s.b, http.MethodGet, "/terminals/"+k.Terminal.ID, nil); got.EndCode != want {
				t.Errorf("operators see %s, want %s", got.EndCode, want)
			}
			if a := s.ask(s.member(), s.held.ID); row.code != "terminal_closed" && a.Status/100 == 2 {
				t.Errorf("another is opened: %s", a.Body)
			}
			rows := servertest.Must[api.AuditList](t, s.b, http.MethodGet, "/audit?action=terminal.refused", nil).Items
			if row.code == broker.TerminalNodeUnready && (len(rows) != 1 || rows[0].Code != want || rows[0].Subject != "node/"+s.node.NodeID) {
				t.Errorf("the audit log has %+v", rows)
			}
		})
	}
}

// A ticket is for one token, one session, once; and no session is reached but the project's own.
func TestATenantReachesNoTerminalButItsOwn(t *testing.T) {
	s := newTerminalTenant(t)
	k, second := s.opened(s.member()), s.opened(s.member())
	eve := s.b.NewToken(t, api.TokenCreate{Name: "eve", Role: "project_admin", Project: s.other.project.ID})
	theirs := answered[api.ProjectTerminalTicket](t, s.b.Ask(t, eve, http.MethodPost, s.other.allocations()+"/"+s.other.held.ID+"/terminals",
		api.ProjectTerminalStart{Columns: 80, Rows: 24}))
	olga := s.b.NewToken(t, api.TokenCreate{Name: "olga", Role: "operator"})
	operators := answered[api.TerminalTicket](t, s.b.Ask(t, olga, http.MethodPost, "/terminals", api.TerminalStart{Node: s.node.NodeID, Columns: 80, Rows: 24}))
	admin := s.tokens["project_admin of a project"]
	for name, row := range map[string]struct{ token, id, ticket, code string }{
		"another member's ticket":     {admin, k.Terminal.ID, k.Ticket, "terminal_ticket_wrong_operator"},
		"a ticket of another session": {s.member(), second.Terminal.ID, k.Ticket, "terminal_ticket_wrong_session"},
		"another project's ticket":    {s.member(), k.Terminal.ID, theirs.Ticket, "terminal_ticket_wrong_operator"},
		"an operator's ticket":        {s.member(), k.Terminal.ID, operators.Ticket, "terminal_ticket_wrong_operator"},
		"another project's session":   {s.member(), theirs.Terminal.ID, theirs.Ticket, "terminal_session_not_found"},
		"an operator's session":       {s.member(), operators.Terminal.ID, operators.Ticket, "terminal_session_not_found"},
		"an operator's, as operator":  {olga, operators.Terminal.ID, operators.Ticket, "terminal_session_not_found"},
		"a viewer":                    {s.tokens["project_viewer"], k.Terminal.ID, k.Ticket, "role_insufficient"},
		"no session":                  {s.member(), "ts-none", k.Ticket, "terminal_session_not_found"},
	} {
		if _, code := s.dials(row.token, row.id, row.ticket); code != row.code {
			t.Errorf("%s: %q, want %s", name, code, row.code)
		}
	}
	for _, id := range []string{theirs.Terminal.ID, operators.Terminal.ID} {
		for path, body := range map[string]any{"": nil, "/close": api.ReasonBody{}, "/tickets": api.TerminalTicketRequest{Columns: 80, Rows: 24}} {
			method := http.MethodPost
			if body == nil {
				method = http.MethodGet
			}
			was, never := s.b.Ask(t, admin, method, s.project()+"/terminals/"+id+path, body), s.b.Ask(t, admin, method, s.project()+"/terminals/ts-none"+path, body)
			if was.Code() != "terminal_session_not_found" || strings.ReplaceAll(string(was.Body), id, "ts-none") != string(never.Body) {
				t.Errorf("%s %s: %d %s, and %s", method, path, was.Status, was.Body, never.Body)
			}
		}
	}
	list := s.b.Ask(t, admin, http.MethodGet, s.project()+"/terminals?cursor="+operators.Terminal.ID, nil)
	if got := answered[api.ProjectTerminalList](t, list); len(got.Items) != 0 {
		t.Errorf("after an operator's session: %+v", got)
	}
	if got := answered[api.ProjectTerminalList](t, s.b.Ask(t, admin, http.MethodGet, s.project()+"/terminals", nil)); len(got.Items) != 2 {
		t.Errorf("%+v", got)
	}
	// Another member's session is that member's.
	for path, body := range map[string]any{"/close": api.ReasonBody{}, "/tickets": api.TerminalTicketRequest{Columns: 80, Rows: 24}} {
		if a := s.b.Ask(t, s.tokens["project_member"], http.MethodPost, s.project()+"/terminals/"+k.Terminal.ID+path, body); a.Code() != "terminal_not_yours" {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	f, code := s.dials(s.member(), k.Terminal.ID, k.Ticket)
	if code != "" {
		t.Fatal(code)
	}
	f.Close()
	if _, code := s.dials(s.member(), k.Terminal.ID, k.Ticket); code != "terminal_ticket_used" {
		t.Errorf("twice: %q", code)
	}
}

// A project has so many terminals at once, and leaves the others to operators.
func TestAProjectCannotUseUpTheTerminalsOfANode(t *testing.T) {
	s := newTerminalTenant(t)
	var last api.ProjectTerminalTicket
	for range broker.MostTerminalsOfProject {
		last = s.opened(s.member())
	}
	a := s.ask(s.tokens["project_admin"], s.held.ID)
	if a.Code() != "terminal_limit" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	s.tellsNothing("the limit", string(a.Body))
	servertest.Must[api.TerminalTicket](t, s.b, http.MethodPost, "/terminals", api.TerminalStart{Node: s.node.NodeID, Columns: 80, Rows: 24})
	if a := s.b.Ask(t, s.member(), http.MethodPost, s.project()+"/terminals/"+last.Terminal.ID+"/close", api.ReasonBody{}); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	servertest.Eventually(t, "its end", func() bool { return s.show(s.member(), last.Terminal.ID).Status == "closed" })
	s.opened(s.member())
	if n := fmt.Sprint(len(answered[api.ProjectTerminalList](t, s.b.Ask(t, s.member(), http.MethodGet, s.project()+"/terminals?limit=3", nil)).Items)); n != "3" {
		t.Errorf("a page of 3 has %s", n)
	}
	var page api.ProjectTerminalList
	if err := json.Unmarshal(s.b.Ask(t, s.member(), http.MethodGet, s.project()+"/terminals?status=closed", nil).Body, &page); err != nil || len(page.Items) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
}
