package adminapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// terminalSite is a node with a tenant's user, and an operator.
type terminalSite struct {
	*testing.T
	b        *servertest.Broker
	node     *servertest.Node
	operator string
}

func newTerminalSite(t *testing.T) *terminalSite {
	t.Helper()
	b := servertest.Start(t)
	s := &terminalSite{T: t, b: b, node: b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)}
	s.node.LetIn(t, "a-1", "alice")
	s.operator = s.token("olga", "operator")
	return s
}

func (s *terminalSite) token(name, role string, sites ...string) string {
	s.Helper()
	return s.b.NewToken(s, api.TokenCreate{Name: name, Role: role, Sites: sites})
}

func (s *terminalSite) ask(token string, in api.TerminalStart) servertest.Answer {
	s.Helper()
	if in.Node == "" {
		in.Node = "h1"
	}
	in.Columns, in.Rows = 80, 24
	return s.b.Ask(s, token, http.MethodPost, "/terminals", in)
}

func answered[T any](t testing.TB, a servertest.Answer) (out T) {
	t.Helper()
	if a.Status/100 != 2 || json.Unmarshal(a.Body, &out) != nil {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return out
}

func (s *terminalSite) open(token string, in api.TerminalStart) api.TerminalTicket {
	s.Helper()
	return answered[api.TerminalTicket](s, s.ask(token, in))
}

func (s *terminalSite) show(id string) api.Terminal {
	s.Helper()
	return servertest.Must[api.Terminal](s, s.b, http.MethodGet, "/terminals/"+id, nil)
}

// closed waits for the end of a session and returns the session.
func (s *terminalSite) closed(id string) api.Terminal {
	s.Helper()
	servertest.Eventually(s, "the session's end", func() bool { return s.show(id).Status == "closed" })
	return s.show(id)
}

// policy sets dc1's policy.
func (s *terminalSite) policy(p map[string]any) {
	s.Helper()
	if p == nil {
		p = map[string]any{} // the default
	}
	servertest.Must[api.TerminalPolicy](s, s.b, http.MethodPut, "/terminal-policy", map[string]any{"site": "dc1", "policy": p})
}

// audited counts audit rows.
func (s *terminalSite) audited(action, code string) (n int) {
	s.Helper()
	rows := servertest.Must[api.AuditList](s, s.b, http.MethodGet, "/audit?limit=1000&action="+action, nil)
	for _, e := range rows.Items {
		if e.Code == code {
			n++
		}
	}
	return n
}

func TestATerminalFromItsStartToItsRecording(t *testing.T) {
	s := newTerminalSite(t)
	k := s.open(s.operator, api.TerminalStart{Command: []string{"/bin/sh", "-c", "read x\necho $x"}, Term: "xterm-256color", Locale: map[string]string{"LANG": "C.UTF-8"}, Reason: "a look"})
	if k.Terminal.Status != "opening" || k.Terminal.Username != "alice" || k.Terminal.AllocationID != "a-1" || k.Terminal.OpenedBy != "olga" || k.Terminal.Hostname != "h1" || k.Terminal.MaxSeconds != 8*3600 {
		t.Errorf("%+v", k.Terminal)
	}
	operator := s.b.JoinTerminal(t, s.operator, k)
	node, p := s.node.OpenTerminal(t)
	if p.AllowRoot || p.Username != "alice" || p.Relay != s.b.RelayAddress() || len(p.Command) != 3 || p.Term != "xterm-256color" || p.MaxSeconds != 8*3600 || p.DetachSeconds != 900 {
		t.Errorf("the node is told %+v", p)
	}
	servertest.Until[frame.Welcome](t, operator)
	operator.Send(t, frame.Resize{Columns: 100, Rows: 30}, frame.Ack{Limit: 1 << 16})
	for servertest.Until[frame.Resize](t, node).Columns != 100 { // the first is that of the ticket
		continue
	}
	node.Send(t, frame.Ack{Limit: 1 << 16})
	for servertest.Until[frame.Ack](t, operator).Limit != 1<<16 { // the operator may type now
		continue
	}
	operator.Send(t, frame.Data{Bytes: []byte("typed\n")})
	if got := servertest.Until[frame.Data](t, node); string(got.Bytes) != "typed\n" {
		t.Errorf("%q", got.Bytes)
	}
	node.Send(t, frame.Data{Bytes: []byte("shown\r\n")})
	if got := servertest.Until[frame.Data](t, operator); string(got.Bytes) != "shown\r\n" {
		t.Errorf("%q", got.Bytes)
	}
	if row := s.show(k.Terminal.ID); row.Transport != "tcp" {
		t.Errorf("%+v", row)
	}
	if live := servertest.Must[api.TerminalList](t, s.b, http.MethodGet, "/terminals?status=live&node=h1&opened_by=olga", nil); len(live.Items) != 1 || live.Items[0].Status != "open" {
		t.Errorf("%+v", live)
	}
	operator.Send(t, frame.Ack{Taken: 7, Limit: 1 << 16})
	node.Send(t, frame.EOF{Offset: 7}, frame.Exit{Status: 3})
	if bye := servertest.ByeOf(t, operator); bye.Code != "terminal_exited" || bye.Lasts || bye.Status == nil || *bye.Status != 3 {
		t.Errorf("%+v", bye)
	}
	operator.Close()
	if row := s.closed(k.Terminal.ID); row.EndCode != "terminal_exited" || row.ExitStatus == nil || *row.ExitStatus != 3 || row.ClosedAt.IsZero() {
		t.Errorf("%+v", row)
	}

	list := answered[api.RecordingList](t, s.b.Ask(t, s.operator, http.MethodGet, "/recordings?node=h1&opened_by=olga", nil))
	if len(list.Items) != 1 || !list.Items[0].Ended || list.Items[0].Bytes != 7 || list.Items[0].Hostname != "h1" {
		t.Fatalf("%+v", list.Items)
	}
	cast := s.b.Ask(t, s.operator, http.MethodGet, "/recordings/"+k.Terminal.ID+"/cast", nil)
	if cast.Status != http.StatusOK || !bytes.HasPrefix(cast.Body, []byte(`{"version":2`)) || !bytes.Contains(cast.Body, []byte(`shown`)) || bytes.Contains(cast.Body, []byte("typed")) {
		t.Errorf("%d %s", cast.Status, cast.Body)
	}
	if kind := cast.Header.Get("Content-Type"); kind != "application/x-asciicast; charset=utf-8" {
		t.Error(kind)
	}
	report := answered[api.RecordingReport](t, s.b.Ask(t, s.operator, http.MethodGet, "/recordings/"+k.Terminal.ID+"/verify", nil))
	if !report.Complete || !report.Ended || !report.Intact || report.Bytes != 7 || report.Head == nil || report.Head.AuditID == 0 || report.Head.Blocks != report.Blocks {
		t.Errorf("%+v %+v", report, report.Head)
	}
	if s.audited("recording.read", "") != 1 || s.audited("recording.verify", "") != 1 {
		t.Error("who read it is not on record")
	}
	if a := s.b.Ask(t, s.token("oskar", "operator"), http.MethodGet, "/recordings/"+k.Terminal.ID+"/cast", nil); a.Code() != "recording_not_yours" || bytes.Contains(a.Body, []byte("shown")) {
		t.Errorf("another operator reads it: %d %s", a.Status, a.Body)
	}
	if s.audited("request.refused", "recording_not_yours") != 1 {
		t.Error("that another wanted to is not on record")
	}
	if a := s.b.Ask(t, s.token("vera", "viewer"), http.MethodGet, "/tasks?node=h1&type=terminal.open", nil); a.Status != http.StatusOK || !bytes.Contains(a.Body, []byte(k.Terminal.ID)) || bytes.Contains(a.Body, []byte("read x")) {
		t.Errorf("a viewer reads the command: %d %s", a.Status, a.Body)
	}
	if a := s.b.Ask(t, s.operator, http.MethodGet, "/recordings/ts-nonenone/cast", nil); a.Code() != "terminal_session_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	servertest.Eventually(t, "the metrics to say so", func() bool {
		text := string(s.b.Ask(t, "", http.MethodGet, s.b.OperatorURL()+"/metrics", nil).Body)
		return strings.Contains(text, "hostler_terminal_sessions 0\n") && strings.Contains(text, "hostler_terminal_recording_failures_total 0\n") && !strings.Contains(text, "hostler_terminal_recorded_bytes_total 0\n")
	})
}

func TestWhoMayOpenATerminal(t *testing.T) {
	s := newTerminalSite(t)
	viewer, away := s.token("vera", "viewer"), s.token("otto", "operator", "dc2")
	short := s.b.NewToken(t, api.TokenCreate{Name: "short", Role: "operator", TTLSeconds: 60})
	root := api.TerminalStart{Username: "root"}
	for name, c := range map[string]struct {
		token  string
		in     api.TerminalStart
		policy map[string]any
		code   string
	}{
		"a viewer":                       {viewer, api.TerminalStart{}, nil, "role_insufficient"},
		"an operator of another site":    {away, api.TerminalStart{}, nil, "node_not_found"},
		"another user":                   {s.operator, api.TerminalStart{Username: "bob"}, nil, "terminal_user_refused"},
		"another user, and any will do":  {s.operator, api.TerminalStart{Username: "bob"}, map[string]any{"any_user": true}, "terminal_user_refused"},
		"an admin as another user":       {s.b.Token, api.TerminalStart{Username: "bob"}, nil, "terminal_user_refused"},
		"another allocation":             {s.operator, api.TerminalStart{AllocationID: "a-2"}, nil, "terminal_user_refused"},
		"another's allocation":           {s.operator, api.TerminalStart{AllocationID: "a-1", Username: "bob"}, nil, "terminal_user_refused"},
		"root":                           {s.operator, root, nil, "terminal_root_refused"},
		"root, as an admin":              {s.b.Token, root, nil, "terminal_root_refused"},
		"root, where admins may":         {s.operator, root, map[string]any{"allow_root": true}, "terminal_root_refused"},
		"a site for admins":              {s.operator, api.TerminalStart{}, map[string]any{"open_role": "platform_admin"}, "role_insufficient"},
		"a name with a NUL":              {s.operator, api.TerminalStart{Username: "alice\x00"}, nil, "malformed"},
		"a name of two lines":            {s.operator, api.TerminalStart{Username: "alice\nroot"}, nil, "terminal_user_refused"},
		"an option as name":              {s.operator, api.TerminalStart{Username: "-f"}, nil, "terminal_user_refused"},
		"a path as name":                 {s.operator, api.TerminalStart{Username: "../root"}, nil, "terminal_user_refused"},
		"a path as TERM":                 {s.operator, api.TerminalStart{Term: "../../etc/x"}, nil, "terminal_env_refused"},
		"a TERM of two lines":            {s.operator, api.TerminalStart{Term: "xterm\nLD_PRELOAD=x"}, nil, "terminal_env_refused"},
		"a TERM with a NUL":              {s.operator, api.TerminalStart{Term: "x\x00"}, nil, "malformed"},
		"an option as TERM":              {s.operator, api.TerminalStart{Term: "-x"}, nil, "terminal_env_refused"},
		"a variable that is no language": {s.operator, api.TerminalStart{Locale: map[string]string{"LD_PRELOAD": "x"}}, nil, "terminal_env_refused"},
		"a path as language":             {s.operator, api.TerminalStart{Locale: map[string]string{"LANG": "../x"}}, nil, "terminal_env_refused"},
		"a language of two lines":        {s.operator, api.TerminalStart{Locale: map[string]string{"LC_ALL": "C\nX=1"}}, nil, "terminal_env_refused"},
		"a command with a NUL":           {s.operator, api.TerminalStart{Command: []string{"ls", "a\x00b"}}, nil, "malformed"},
		"an option as command":           {s.operator, api.TerminalStart{Command: []string{"-c", "id"}}, nil, "terminal_command_refused"},
		"a command that climbs":          {s.operator, api.TerminalStart{Command: []string{"../../bin/sh"}}, nil, "terminal_command_refused"},
		"a whole path that climbs":       {s.operator, api.TerminalStart{Command: []string{"/usr/../bin/sh"}}, nil, "terminal_command_refused"},
		"a command of two lines":         {s.operator, api.TerminalStart{Command: []string{"ls\nid"}}, nil, "terminal_command_refused"},
		"a command of nothing":           {s.operator, api.TerminalStart{Command: []string{""}}, nil, "terminal_command_refused"},
		"a shell's line as command":      {s.operator, api.TerminalStart{Command: []string{"id;id"}}, nil, "terminal_command_refused"},
		"a command that is far too long": {s.operator, api.TerminalStart{Command: []string{"echo", strings.Repeat("x", 5000)}}, nil, "terminal_command_refused"},
		"an allocation that is no id":    {s.operator, api.TerminalStart{AllocationID: "../a"}, nil, "terminal_user_refused"},
	} {
		s.policy(c.policy)
		if a := s.ask(c.token, c.in); a.Code() != c.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, c.code)
		}
	}
	for _, code := range []string{"terminal_user_refused", "terminal_root_refused", "terminal_env_refused", "terminal_command_refused", "role_insufficient"} {
		if s.audited("terminal.refused", code) == 0 {
			t.Errorf("%s is not on record", code)
		}
	}
	if all := servertest.Must[api.TerminalList](t, s.b, http.MethodGet, "/terminals", nil); len(all.Items) != 0 {
		t.Errorf("what was refused made %d sessions", len(all.Items))
	}
	s.policy(map[string]any{"allow_root": true, "any_user": true})
	for _, who := range []string{"root", "bob"} {
		k := s.open(s.b.Token, api.TerminalStart{Username: who})
		_, _, p, _ := s.node.TakeTerminal(t)
		if !p.AllowRoot || p.Username != who || p.AllocationID != "" || k.Terminal.Username != who {
			t.Errorf("%+v", p)
		}
	}
	s.b.Advance(2 * time.Minute)
	if a := s.ask(short, api.TerminalStart{}); a.Code() != "token_expired" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A tenant with root has the rights of root.
func TestATenantWithRootIsRoot(t *testing.T) {
	s := newTerminalSite(t)
	servertest.Must[api.Task](t, s.b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "allocation.provision_user", Params: json.RawMessage(
		`{"allocation_id":"a-1","username":"alice","sudo":true,"ssh_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0000000000000000000000000000000000000000000 eve"]}`)})
	d, task := s.node.Next(t)
	s.node.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ProvisionUserResult{}, taskcatalog.Report{})
	if a := s.ask(s.operator, api.TerminalStart{}); a.Code() != "terminal_root_refused" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	s.policy(map[string]any{"allow_root": true, "root_role": "operator"})
	s.open(s.operator, api.TerminalStart{})
}

func TestATicketIsOneOperatorsForOneSessionOnce(t *testing.T) {
	s := newTerminalSite(t)
	k, other := s.open(s.operator, api.TerminalStart{}), s.open(s.operator, api.TerminalStart{})
	thief, away, viewer := s.token("tom", "operator"), s.token("otto", "operator", "dc2"), s.token("vera", "viewer")
	id := k.Terminal.ID
	offer := func(protocols ...string) func(*websocket.DialOptions) {
		return func(o *websocket.DialOptions) { o.Subprotocols = protocols }
	}
	from := func(origin string) func(*websocket.DialOptions) {
		return func(o *websocket.DialOptions) { o.HTTPHeader.Set("Origin", origin) }
	}
	for name, c := range map[string]struct {
		token, id, ticket string
		change            func(*websocket.DialOptions)
		code              string
	}{
		"without a token":           {"", id, k.Ticket, nil, "token_missing"},
		"another operator's":        {thief, id, k.Ticket, nil, "terminal_ticket_wrong_operator"},
		"an admin's":                {s.b.Token, id, k.Ticket, nil, "terminal_ticket_wrong_operator"},
		"an operator's elsewhere":   {away, id, k.Ticket, nil, "terminal_session_not_found"},
		"a viewer's":                {viewer, id, k.Ticket, nil, "role_insufficient"},
		"for another session":       {s.operator, other.Terminal.ID, k.Ticket, nil, "terminal_ticket_wrong_session"},
		"for none":                  {s.operator, "ts-nonenone", k.Ticket, nil, "terminal_session_not_found"},
		"guessed":                   {s.operator, id, strings.Repeat("A", 26), nil, "terminal_ticket_unknown"},
		"none":                      {s.operator, id, "", nil, "terminal_ticket_missing"},
		"not offered":               {s.operator, id, k.Ticket, offer("hostler-terminal.1"), "terminal_ticket_missing"},
		"of another protocol":       {s.operator, id, k.Ticket, offer("hostler-terminal.2", "hostler-ticket."+k.Ticket), "websocket_protocol"},
		"from another page":         {s.operator, id, k.Ticket, from("https://evil.example"), "origin_forbidden"},
		"from a page without TLS":   {s.operator, id, k.Ticket, from(strings.Replace(s.b.OperatorURL(), "https", "http", 1)), "origin_forbidden"},
		"from a page of no place":   {s.operator, id, k.Ticket, from("null"), "origin_forbidden"},
		"from a port beside":        {s.operator, id, k.Ticket, from("https://127.0.0.1:1"), "origin_forbidden"},
		"from a name that contains": {s.operator, id, k.Ticket, from(s.b.OperatorURL() + ".evil.example"), "origin_forbidden"},
	} {
		change := []func(*websocket.DialOptions){}
		if c.change != nil {
			change = append(change, c.change)
		}
		if _, code := s.b.DialTerminal(t, c.token, c.id, c.ticket, change...); code != c.code {
			t.Errorf("%s: %q, want %s", name, code, c.code)
		}
	}
	if a := s.b.Ask(t, s.operator, http.MethodGet, "/terminals/"+id+"/attach", nil); a.Code() != "websocket_required" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	// None of these refusals has used up the ticket.
	f, code := s.b.DialTerminal(t, s.operator, id, k.Ticket, from(s.b.OperatorURL()))
	if code != "" {
		t.Fatal(code)
	}
	f.Close()
	if _, code := s.b.DialTerminal(t, s.operator, id, k.Ticket); code != "terminal_ticket_used" {
		t.Errorf("twice: %q", code)
	}
	s.b.Advance(31 * time.Second)
	if _, code := s.b.DialTerminal(t, s.operator, other.Terminal.ID, other.Ticket); code != "terminal_ticket_expired" {
		t.Errorf("late: %q", code)
	}
	for _, code := range []string{"terminal_ticket_wrong_operator", "terminal_ticket_wrong_session", "terminal_ticket_unknown", "terminal_ticket_used", "terminal_ticket_expired"} {
		if s.audited("terminal.attack", code) == 0 {
			t.Errorf("%s is not on record", code)
		}
	}
	if s.audited("request.refused", "origin_forbidden") == 0 {
		t.Error("origin_forbidden is not on record")
	}
	// Only the operator that opened the session, and admins, get another ticket.
	ask := func(token string) servertest.Answer {
		return s.b.Ask(t, token, http.MethodPost, "/terminals/"+id+"/tickets", api.TerminalTicketRequest{Columns: 80, Rows: 24})
	}
	if a := ask(thief); a.Code() != "terminal_not_yours" || s.audited("terminal.refused", "terminal_not_yours") != 1 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := ask(away); a.Code() != "terminal_session_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for _, who := range []string{s.operator, s.b.Token} {
		again := answered[api.TerminalTicket](t, ask(who))
		f, code := s.b.DialTerminal(t, who, id, again.Ticket)
		if code != "" {
			t.Fatal(code)
		}
		f.Close()
	}
	servertest.Must[api.Token](t, s.b, http.MethodPost, "/tokens/olga/revoke", api.ReasonBody{Reason: "test"})
	if a := ask(s.operator); a.Code() != "token_revoked" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A protocol violation of an operator's side ends its own connection, and nobody else's.
func TestASocketThatBreaksTheProtocol(t *testing.T) {
	s := newTerminalSite(t)
	k := s.open(s.operator, api.TerminalStart{})
	again := func() *servertest.Frames {
		k := servertest.Must[api.TerminalTicket](t, s.b, http.MethodPost, "/terminals/"+k.Terminal.ID+"/tickets", api.TerminalTicketRequest{Columns: 80, Rows: 24})
		f, code := s.b.DialTerminal(t, s.b.Token, k.Terminal.ID, k.Ticket)
		if code != "" {
			t.Fatal(code)
		}
		return f
	}
	hello := frame.Hello{Version: frame.Version, SessionID: k.Terminal.ID}
	for name, first := range map[string]frame.Frame{
		"no Hello":           frame.Ping{},
		"another version":    frame.Hello{Version: 2, SessionID: k.Terminal.ID},
		"of another session": frame.Hello{Version: frame.Version, SessionID: "ts-otherother"},
	} {
		f := again()
		f.Send(t, first)
		if bye := servertest.ByeOf(t, f); bye.Code != "hello_invalid" || bye.Lasts {
			t.Errorf("%s: %+v", name, bye)
		}
		f.Gone()
	}
	for name, second := range map[string]frame.Frame{
		"a frame of the relay's": frame.Welcome{},
		"bytes beyond the limit": frame.Data{Offset: 1 << 40, Bytes: []byte("x")},
	} {
		f := again()
		f.Send(t, hello, second)
		if bye := servertest.ByeOf(t, f); bye.Code == "" || !bye.Lasts {
			t.Errorf("%s: %+v", name, bye)
		}
		f.Gone()
	}
	if row := s.show(k.Terminal.ID); row.Status == "closed" {
		t.Errorf("%+v", row)
	}
}
