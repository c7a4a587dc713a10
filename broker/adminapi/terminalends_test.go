package adminapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// soon is a second with a margin for a busy machine.
const soon = 3 * time.Second

// joined is a session with both of its sides.
func (s *terminalSite) joined(token string, in api.TerminalStart) (k api.TerminalTicket, operator, node *servertest.Frames) {
	s.Helper()
	k = s.open(token, in)
	operator = s.b.JoinTerminal(s, token, k)
	operator.Send(s, frame.Ping{Nonce: 1}) // the relay has the operator before the node comes, so that the order of the messages is fixed
	servertest.Until[frame.Pong](s, operator)
	node, _ = s.node.OpenTerminal(s)
	servertest.Until[frame.Welcome](s, operator)
	operator.Send(s, frame.Ack{Limit: 1 << 16})
	return k, operator, node
}

// told waits until the node has a task that ends a session.
func (s *terminalSite) told(id, code string) {
	s.Helper()
	servertest.Eventually(s, "the node to be told", func() bool {
		for _, k := range servertest.Must[api.TaskList](s, s.b, http.MethodGet, "/tasks?node="+s.node.NodeID+"&type=terminal.close", nil).Items {
			var p taskcatalog.TerminalCloseParams
			if json.Unmarshal(k.Params, &p) == nil && p.SessionID == id && string(p.Code) == code {
				return true
			}
		}
		return false
	})
}

func TestASessionEndsWithinASecondOfWhatAllowedIt(t *testing.T) {
	ask := func(method, path string, body any) func(*terminalSite, string) {
		return func(s *terminalSite, id string) {
			if id != "" && path == "close" {
				path = "/terminals/" + id + "/close"
			}
			if a := s.b.Ask(s, s.b.Token, method, path, body); a.Status/100 != 2 {
				s.Fatalf("%d %s", a.Status, a.Body)
			}
		}
	}
	policy := func(p map[string]any) func(*terminalSite, string) {
		return func(s *terminalSite, _ string) { s.policy(p) }
	}
	asRoot := api.TerminalStart{Username: "root"}
	for name, c := range map[string]struct {
		who    string // empty: the operator
		in     api.TerminalStart
		policy map[string]any
		cause  func(s *terminalSite, id string)
		code   string
	}{
		"the node is quarantined": {cause: ask(http.MethodPost, "/nodes/h1/actions/quarantine", api.NodeAction{Reason: "test"}), code: "node_quarantined"},
		"the node is drained":     {cause: ask(http.MethodPost, "/nodes/h1/actions/drain", api.NodeAction{Reason: "test"}), code: "node_draining"},
		"the token is revoked":    {cause: ask(http.MethodPost, "/tokens/olga/revoke", api.ReasonBody{Reason: "test"}), code: "token_revoked"},
		"it is closed":            {cause: ask(http.MethodPost, "close", api.ReasonBody{Reason: "enough"}), code: "terminal_closed"},
		"the site is for admins":  {cause: policy(map[string]any{"open_role": "platform_admin"}), code: "role_insufficient"},
		"the site wants no root": {
			who: "admin", in: asRoot, policy: map[string]any{"allow_root": true}, cause: policy(nil), code: "terminal_root_refused",
		},
		"the site wants tenants alone": {
			who: "admin", in: api.TerminalStart{Username: "bob"}, policy: map[string]any{"any_user": true}, cause: policy(nil), code: "terminal_user_refused",
		},
		"the node that was in service is quarantined, and he may look after it": {
			who: "admin", in: asRoot, policy: map[string]any{"allow_root": true}, cause: ask(http.MethodPost, "/nodes/h1/actions/quarantine", api.NodeAction{Reason: "test"}), code: "node_quarantined",
		},
		"the user is taken away": {cause: ask(http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{
			Type: "allocation.revoke_user", Params: json.RawMessage(`{"allocation_id":"a-1","username":"alice"}`),
		}), code: "allocation_revoking"},
		"its process is killed": {cause: func(s *terminalSite, id string) {
			if code := s.node.TerminalGone(s, id, "signal"); code != "" {
				s.Errorf("its node is refused: %s", code)
			}
		}, code: "terminal_gone"},
		"the token runs out": {who: "short", cause: func(s *terminalSite, _ string) { s.b.Advance(2 * time.Minute) }, code: "token_expired"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTerminalSite(t)
			if c.policy != nil {
				s.policy(c.policy)
			}
			who := s.operator
			switch c.who {
			case "admin":
				who = s.b.Token
			case "short":
				who = s.b.NewToken(t, api.TokenCreate{Name: "short", Role: "operator", TTLSeconds: 60})
			}
			k, operator, node := s.joined(who, c.in)
			node.Send(t, frame.Data{Bytes: []byte("words")})
			servertest.Until[frame.Ack](t, node) // the bytes are stored
			c.cause(s, k.Terminal.ID)
			began := time.Now()
			if bye := servertest.ByeOf(t, node); string(bye.Code) != c.code || bye.Lasts {
				t.Errorf("%+v, want %s", bye, c.code)
			}
			if took := time.Since(began); took > soon {
				t.Errorf("it took %v", took)
			}
			node.Close()
			operator.Gone()
			if row := s.closed(k.Terminal.ID); row.EndCode != c.code {
				t.Errorf("%+v", row)
			}
			if r := servertest.Must[api.RecordingReport](t, s.b, http.MethodGet, "/recordings/"+k.Terminal.ID+"/verify", nil); !r.Complete || r.Bytes != 5 {
				t.Errorf("%+v", r)
			}
			s.told(k.Terminal.ID, c.code)
		})
	}
}

// A node's report ends only its own session, whatever id the report names.
func TestANodeEndsNoOtherNodesSession(t *testing.T) {
	s := newTerminalSite(t)
	k, _, node := s.joined(s.operator, api.TerminalStart{})
	other := s.b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc1"}).Settle(t)
	for id, want := range map[string]string{k.Terminal.ID: "terminal_wrong_node", "ts-none": "terminal_session_not_found"} {
		if code := other.TerminalGone(t, id, "signal"); code != want {
			t.Errorf("of %s it is told %q, want %s", id, code, want)
		}
	}
	node.Send(t, frame.Data{Bytes: []byte("words")})
	servertest.Until[frame.Ack](t, node)
	if row := s.show(k.Terminal.ID); row.Status != "open" || row.EndCode != "" {
		t.Errorf("%+v", row)
	}
	var refused []string
	for _, e := range servertest.Must[api.AuditList](t, s.b, http.MethodGet, "/audit?action=terminal.refused&actor=node:"+other.NodeID, nil).Items {
		refused = append(refused, e.Subject)
	}
	if slices.Sort(refused); !slices.Equal(refused, slices.Sorted(slices.Values([]string{"terminal/" + k.Terminal.ID, "terminal/ts-none"}))) {
		t.Errorf("on record are %q", refused)
	}
}

// A node that cannot open the session says why, and the operator stops waiting.
func TestASessionThatItsNodeCannotOpenIsOver(t *testing.T) {
	s := newTerminalSite(t)
	k := s.open(s.operator, api.TerminalStart{})
	operator := s.b.JoinTerminal(t, s.operator, k)
	d, task := s.node.Next(t)
	s.node.Fail(t, d, task, "terminal_user_unknown", "the node has no user alice")
	if bye := servertest.ByeOf(t, operator); bye.Code != "terminal_user_unknown" || !strings.Contains(bye.Text, "no user alice") || bye.Lasts {
		t.Errorf("%+v", bye)
	}
	operator.Close()
	if row := s.closed(k.Terminal.ID); row.EndCode != "terminal_user_unknown" {
		t.Errorf("%+v", row)
	}
}

// Operators may open a terminal on a node that is out of service, and a tenant's user may not. When
// the node's status changes again, the operator's session ends.
func TestANodeOutOfServiceIsForThoseWhoLookAfterIt(t *testing.T) {
	s := newTerminalSite(t)
	s.policy(map[string]any{"allow_root": true, "any_user": true})
	servertest.Must[api.NodeActionResult](t, s.b, http.MethodPost, "/nodes/h1/actions/quarantine", api.NodeAction{Reason: "test"})
	for name, who := range map[string]string{"an operator": s.operator, "an admin as the tenant": s.b.Token} {
		if a := s.ask(who, api.TerminalStart{Username: "alice"}); a.Code() != "node_quarantined" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	k, operator, node := s.joined(s.b.Token, api.TerminalStart{Username: "root"})
	node.Send(t, frame.Data{Bytes: []byte("# ")})
	servertest.Until[frame.Data](t, operator)
	servertest.Must[api.NodeActionResult](t, s.b, http.MethodPost, "/nodes/h1/actions/drain", api.NodeAction{Reason: "test"})
	if bye := servertest.ByeOf(t, node); bye.Code != "node_draining" {
		t.Errorf("%+v", bye)
	}
	s.closed(k.Terminal.ID)
	if a := s.ask(s.b.Token, api.TerminalStart{Username: "root"}); a.Code() != "node_draining" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A broker that stops releases its sessions: they can be joined again when this broker, or another,
// is there.
func TestASessionOutlastsItsBroker(t *testing.T) {
	s := newTerminalSite(t)
	k, operator, node := s.joined(s.operator, api.TerminalStart{})
	node.Send(t, frame.Data{Bytes: []byte("before ")})
	servertest.Until[frame.Data](t, operator)
	s.b = s.b.Again(t, func(c *server.Config) {
		c.Listen, c.AgentListen = hostPort(s.b.OperatorURL()), hostPort(s.b.AgentURL())
	})
	for name, f := range map[string]*servertest.Frames{"the operator": operator, "the node": node} {
		if bye := servertest.ByeOf(t, f); !bye.Lasts {
			t.Errorf("%s: %+v", name, bye)
		}
	}
	s.b.Advance(5 * time.Second) // a broker waits this long before it calls a session an orphan
	servertest.Eventually(t, "that it is detached", func() bool { return s.show(k.Terminal.ID).Status == "detached" })
	again := answered[api.TerminalTicket](t, s.b.Ask(t, s.operator, http.MethodPost, "/terminals/"+k.Terminal.ID+"/tickets", api.TerminalTicketRequest{Columns: 80, Rows: 24}))
	operator = s.b.JoinTerminal(t, s.operator, again)
	_, _, p, token := s.node.TakeTerminal(t)
	if p.Relay != s.b.RelayAddress() || p.SessionID != k.Terminal.ID || p.Username != "alice" {
		t.Errorf("the node is told %+v", p)
	}
	node = s.node.DialRelay(t, p.Relay)
	node.Send(t, frame.Hello{Version: frame.Version, SessionID: p.SessionID, Token: token, Sent: 7})
	if w := servertest.Until[frame.Welcome](t, node); w.Taken != 7 {
		t.Errorf("%+v", w)
	}
	servertest.Until[frame.Welcome](t, operator)
	operator.Send(t, frame.Ack{Limit: 1 << 16})
	node.Send(t, frame.Data{Offset: 7, Bytes: []byte("after")})
	servertest.Until[frame.Data](t, operator)
	servertest.Must[api.Terminal](t, s.b, http.MethodPost, "/terminals/"+k.Terminal.ID+"/close", api.ReasonBody{Reason: "done"})
	s.closed(k.Terminal.ID)
	if r := servertest.Must[api.RecordingReport](t, s.b, http.MethodGet, "/recordings/"+k.Terminal.ID+"/verify", nil); !r.Complete || r.Bytes != 12 {
		t.Errorf("%+v", r)
	}
}

// A session that nobody joins again after its relay has gone ends when its time without an operator
// is over.
func TestASessionWithoutARelayIsReaped(t *testing.T) {
	s := newTerminalSite(t)
	k, _, node := s.joined(s.operator, api.TerminalStart{})
	never := s.open(s.operator, api.TerminalStart{})
	node.Send(t, frame.Data{Bytes: []byte("words")})
	servertest.Until[frame.Ack](t, node)
	s.b = s.b.Again(t)
	s.b.Advance(5 * time.Second) // a broker waits this long before it calls a session an orphan
	servertest.Eventually(t, "that it is detached", func() bool { return s.show(k.Terminal.ID).Status == "detached" })
	s.b.Advance(3 * time.Minute)
	if row := s.closed(never.Terminal.ID); row.EndCode != "terminal_never_came" {
		t.Errorf("%+v", row)
	}
	if row := s.show(k.Terminal.ID); row.Status != "detached" {
		t.Errorf("%+v", row)
	}
	s.b.Advance(15 * time.Minute)
	if row := s.closed(k.Terminal.ID); row.EndCode != "relay_lost" {
		t.Errorf("%+v", row)
	}
	if r := servertest.Must[api.RecordingReport](t, s.b, http.MethodGet, "/recordings/"+k.Terminal.ID+"/verify", nil); !r.Complete || r.Bytes != 5 {
		t.Errorf("%+v", r)
	}
	s.told(k.Terminal.ID, "relay_lost")
}

func TestOperatorsEnqueueNoTerminalTasks(t *testing.T) {
	s := newTerminalSite(t)
	for name, params := range map[string]string{
		"terminal.open":  `{"session_id":"ts-7k2m4q6s","relay":"evil.example:7442","username":"root","allow_root":true,"max_seconds":60,"detach_seconds":60}`,
		"terminal.close": `{"session_id":"ts-7k2m4q6s","code":"x"}`,
	} {
		for who, token := range map[string]string{"an operator": s.operator, "an admin": s.b.Token} {
			if a := s.b.Ask(t, token, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: name, Version: 1, Params: json.RawMessage(params)}); a.Code() != "task_by_broker" {
				t.Errorf("%s as %s: %d %s", name, who, a.Status, a.Body)
			}
		}
		if got := servertest.Must[api.TaskType](t, s.b, http.MethodGet, "/task-types/"+name, nil); got.ByBroker != "hostler terminal" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if s.audited("request.refused", "task_by_broker") == 0 {
		t.Error("it is not on record")
	}
	// Nor is an ended session done again.
	k := s.open(s.operator, api.TerminalStart{})
	d, task := s.node.Next(t)
	s.node.Finish(t, d, task, taskcatalog.OutcomeInterrupted, nil, taskcatalog.Report{})
	if a := s.b.Ask(t, s.b.Token, http.MethodPost, "/tasks/"+task.TaskID+"/recover", api.ReasonBody{Reason: "again"}); a.Code() != "task_by_broker" {
		t.Errorf("%d %s (session %s)", a.Status, a.Body, k.Terminal.ID)
	}
}

// Only a terminal.open task gets a token for a relay, and only for a session that goes on.
func TestATokenIsMintedForASessionThatGoesOn(t *testing.T) {
	s := newTerminalSite(t)
	k := s.open(s.operator, api.TerminalStart{})
	d, _ := s.node.Next(t)
	servertest.Must[api.Terminal](t, s.b, http.MethodPost, "/terminals/"+k.Terminal.ID+"/close", api.ReasonBody{Reason: "test"})
	s.closed(k.Terminal.ID)
	if _, code := s.node.Mint(t, d, taskcatalog.CredentialTerminalSession); code != "terminal_session_over" && code != "lease_lost" { // its task may be taken back already
		t.Errorf("%q", code)
	}
	d, task := s.node.Next(t)
	if task.Type != "terminal.close" {
		t.Fatal(task.Type)
	}
	if _, code := s.node.Mint(t, d, taskcatalog.CredentialTerminalSession); code != "credential_refused" {
		t.Errorf("%q", code)
	}
}

// A recording belongs to its site, and is kept as long as the site's policy says.
func TestRecordingsOfOtherSitesAreNotRead(t *testing.T) {
	s := newTerminalSite(t)
	k := s.open(s.operator, api.TerminalStart{})
	away := s.token("otto", "operator", "dc2")
	viewer := s.token("vera", "viewer")
	for _, path := range []string{"/recordings/" + k.Terminal.ID + "/cast", "/recordings/" + k.Terminal.ID + "/verify", "/terminals/" + k.Terminal.ID} {
		if a := s.b.Ask(t, away, http.MethodGet, path, nil); a.Code() != "terminal_session_not_found" {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if a := s.b.Ask(t, viewer, http.MethodGet, path, nil); a.Code() != "role_insufficient" {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := s.b.Ask(t, away, http.MethodPost, "/terminals/"+k.Terminal.ID+"/close", api.ReasonBody{Reason: "x"}); a.Code() != "terminal_session_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for _, path := range []string{"/recordings", "/terminals"} {
		var list struct{ Items []any }
		if a := s.b.Ask(t, away, http.MethodGet, path, nil); json.Unmarshal(a.Body, &list) != nil || len(list.Items) != 0 {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
	if a := s.b.Ask(t, away, http.MethodGet, "/terminal-policy?site=dc1", nil); a.Code() != "site_forbidden" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestATerminalPolicyIsJudgedBeforeItIsKept(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1")
	if p := servertest.Must[api.TerminalPolicy](t, b, http.MethodGet, "/terminal-policy?site=dc1", nil); !p.Default || p.Policy.OpenRole != "operator" || p.Policy.AllowRoot || p.Policy.AnyUser || p.Policy.RecordInput || p.Policy.AllowClipboard || p.Policy.RetentionDays != 365 {
		t.Errorf("%+v", p)
	}
	for name, p := range map[string]string{
		"everybody":                 `{"open_role":"viewer"}`,
		"root for all":              `{"allow_root":true,"root_role":"viewer"}`,
		"root for fewer than enter": `{"open_role":"platform_admin","root_role":"operator"}`,
		"no recording":              `{"on_recording_failure":"go_on"}`,
		"for ever":                  `{"max_seconds":0}`,
		"idle for ever":             `{"idle_seconds":0}`,
		"detached for ever":         `{"detach_seconds":0}`,
		"kept for no time":          `{"retention_days":0}`,
		"what there is not":         `{"allow_everything":true}`,
	} {
		a := b.Ask(t, b.Token, http.MethodPut, "/terminal-policy", `{"site":"dc1","policy":`+p+`}`)
		if a.Code() != "terminal_policy_invalid" && a.Code() != "invalid_request" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPut, "/terminal-policy", `{"site":"../x","policy":{}}`); a.Code() != "terminal_policy_invalid" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	set := servertest.Must[api.TerminalPolicy](t, b, http.MethodPut, "/terminal-policy", api.TerminalPolicyPut{Site: "dc1", Policy: api.TerminalPolicyRules{
		OpenRole: "operator", AllowRoot: true, RootRole: "platform_admin", MaxSeconds: 3600, IdleSeconds: 600, DetachSeconds: 60, OnRecordingFailure: "end", RetentionDays: 30, AllowTitle: true,
	}, Reason: "ours"})
	if set.Default || !set.Policy.AllowRoot || set.UpdatedBy != "admin" || set.Policy.MaxSeconds != 3600 {
		t.Errorf("%+v", set)
	}
	if other := servertest.Must[api.TerminalPolicy](t, b, http.MethodGet, "/terminal-policy?site=dc2", nil); !other.Default || other.Policy.AllowRoot {
		t.Errorf("%+v", other)
	}
}

func hostPort(address string) string { return strings.TrimPrefix(address, "https://") }
