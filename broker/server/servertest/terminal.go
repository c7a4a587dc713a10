package servertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// patience is how long a side of a terminal waits for the other.
const patience = time.Minute

// Frames is one side of a terminal session, controlled by the test.
type Frames struct {
	send func(frame.Frame) error
	next func() (frame.Frame, error)
	// Close cuts the connection without notice.
	Close func()
}

// Send sends frames.
func (f *Frames) Send(t testing.TB, frames ...frame.Frame) {
	t.Helper()
	for _, one := range frames {
		if err := f.send(one); err != nil {
			t.Fatalf("cannot send %T: %v", one, err)
		}
	}
}

// Next waits for a frame.
func (f *Frames) Next(t testing.TB) frame.Frame {
	t.Helper()
	got, err := f.next()
	if err != nil {
		t.Fatalf("no frame came: %v", err)
	}
	return got
}

// Gone waits until the connection has ended, whatever frames come before.
func (f *Frames) Gone() {
	for {
		if _, err := f.next(); err != nil && taskcatalog.CodeOf(err, "") == "" {
			return
		}
	}
}

// Until reads up to a frame of a type; a Bye in its place fails the test.
func Until[F frame.Frame](t testing.TB, f *Frames) F {
	t.Helper()
	for {
		switch got := f.Next(t).(type) {
		case F:
			return got
		case frame.Bye:
			t.Fatalf("it was ended instead: %+v", got)
		}
	}
}

// ByeOf reads up to the Bye.
func ByeOf(t testing.TB, f *Frames) frame.Bye {
	t.Helper()
	for {
		if bye, ok := f.Next(t).(frame.Bye); ok {
			return bye
		}
	}
}

// DialTerminal opens an operator's WebSocket of a session; code is the code of a refusal. change
// may turn the request into one that no client of ours sends.
func (b *Broker) DialTerminal(t testing.TB, token, id, ticket string, change ...func(*websocket.DialOptions)) (f *Frames, code string) {
	t.Helper()
	return b.DialTerminalAt(t, token, "/terminals/"+id, ticket, change...)
}

// DialTerminalAt is DialTerminal for a session at a path, such as one of a project.
func (b *Broker) DialTerminalAt(
	t testing.TB, token, path, ticket string, change ...func(*websocket.DialOptions),
) (f *Frames, code string) {
	t.Helper()
	o := &websocket.DialOptions{
		HTTPClient: b.client, HTTPHeader: http.Header{}, CompressionMode: websocket.CompressionContextTakeover, // which is not taken up
		Subprotocols: []string{api.TerminalProtocol, api.TerminalTicketPrefix + ticket},
	}
	if token != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+token)
	}
	for _, f := range change {
		f(o)
	}
	ctx, done := context.WithTimeout(context.Background(), patience)
	t.Cleanup(done)
	conn, res, err := websocket.Dial(ctx, b.OperatorURL()+api.Path(path+"/attach"), o)
	if err != nil {
		if res == nil {
			t.Fatal(err)
			return nil, ""
		}
		var p api.Problem
		raw, _ := io.ReadAll(res.Body)
		if json.Unmarshal(raw, &p) != nil {
			t.Fatalf("%d %s: %v", res.StatusCode, raw, err)
		}
		return nil, p.Code
	}
	if said := res.Header.Get("Sec-WebSocket-Protocol"); said != api.TerminalProtocol ||
		strings.Contains(strings.Join(res.Header.Values("Sec-WebSocket-Extensions"), ""), "deflate") {
		t.Errorf("the answer is %q, with %q", said, res.Header.Values("Sec-WebSocket-Extensions"))
	}
	conn.SetReadLimit(frame.Largest)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &Frames{
		send: func(f frame.Frame) error {
			raw, err := frame.Append(nil, f)
			if err != nil {
				return err
			}
			return conn.Write(ctx, websocket.MessageBinary, raw)
		},
		next: func() (frame.Frame, error) {
			_, raw, err := conn.Read(ctx)
			if err != nil {
				return nil, err
			}
			return frame.Parse(raw)
		},
		Close: func() { _ = conn.CloseNow() },
	}, ""
}

// JoinTerminal shows a ticket and sends Hello.
func (b *Broker) JoinTerminal(t testing.TB, token string, k api.TerminalTicket) *Frames {
	t.Helper()
	f, code := b.DialTerminal(t, token, k.Terminal.ID, k.Ticket)
	if code != "" {
		t.Fatalf("the ticket is refused: %s", code)
	}
	f.Send(t, frame.Hello{Version: frame.Version, SessionID: k.Terminal.ID})
	return f
}

// TakeTerminal takes the next task, which must be terminal.open, as an agent does: the agent has
// the token minted and sends the session's process to the relay.
func (n *Node) TakeTerminal(t testing.TB) (wire.Delivery, *taskcatalog.Task, taskcatalog.TerminalOpenParams, string) {
	t.Helper()
	d, task := n.Next(t)
	if task.Type != "terminal.open" {
		t.Fatalf("the next task is %s, want terminal.open", task.Type)
	}
	var p taskcatalog.TerminalOpenParams
	if err := taskcatalog.DecodeStrict(task.Params, &p); err != nil {
		t.Fatal(err)
	}
	reply, code := n.Mint(t, d, taskcatalog.CredentialTerminalSession)
	if code != "" {
		t.Fatalf("no token is minted: %s", code)
	}
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.TerminalOpenResult{Unit: "hostler-terminal-" + p.SessionID + ".service"},
		taskcatalog.Report{})
	return d, task, p, reply.Secret
}

// DialRelay connects as a session's process, over TCP.
func (n *Node) DialRelay(t testing.TB, address string) *Frames {
	t.Helper()
	config := n.TLS()
	config.NextProtos, config.ServerName = []string{relay.ALPN}, strings.Split(address, ":")[0]
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = c.Close() })
	reader := frame.NewReader(c)
	return &Frames{
		send: func(f frame.Frame) error {
			raw, err := frame.Append(nil, f)
			if err == nil {
				_, err = c.Write(raw)
			}
			return err
		},
		next: func() (frame.Frame, error) {
			f, err := reader.Next()
			if d, ok := f.(frame.Data); ok {
				d.Bytes = bytes.Clone(d.Bytes)
				return d, err
			}
			return f, err
		},
		Close: func() { _ = c.NetConn().Close() },
	}
}

// TLS is the node's client configuration: its certificate and its trusted roots.
func (n *Node) TLS() *tls.Config { return n.client.Transport.(*http.Transport).TLSClientConfig.Clone() }

// OpenTerminal takes the task of a session and joins its relay as the session's process.
func (n *Node) OpenTerminal(t testing.TB) (*Frames, taskcatalog.TerminalOpenParams) {
	t.Helper()
	_, _, p, token := n.TakeTerminal(t)
	f := n.DialRelay(t, p.Relay)
	f.Send(t, frame.Hello{Version: frame.Version, SessionID: p.SessionID, Token: token})
	Until[frame.Welcome](t, f)
	return f, p
}

// TerminalGone reports that the process of a session was killed, as the agent does after its
// restart. code is the code of a refusal; empty: accepted.
func (n *Node) TerminalGone(t testing.TB, id, how string) (code string) {
	t.Helper()
	status, raw := n.do(t, http.MethodPost, n.path("/terminals/"+id+"/gone"), wire.TerminalGone{How: how})
	if status/100 == 2 {
		return ""
	}
	var p wire.Problem
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return string(p.Code)
}

// LetIn makes an allocation's user on the node.
func (n *Node) LetIn(t testing.TB, allocationID, username string) {
	t.Helper()
	params, err := taskcatalog.Encode(taskcatalog.ProvisionUserParams{
		AllocationID: allocationID, Username: username,
		SSHKeys: []string{testKey},
	})
	if err != nil {
		t.Fatal(err)
	}
	Must[api.Task](t, n.b, http.MethodPost, "/nodes/"+n.NodeID+"/tasks", api.TaskCreate{Type: "allocation.provision_user", Params: params})
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ProvisionUserResult{}, taskcatalog.Report{})
}

// testKey is a public key whose private half nobody has.
const testKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g tenant"

// Provision does the tasks of the run that provisions an allocation, which holds this node alone, until
// the allocation is active.
func (n *Node) Provision(t testing.TB, allocationID string) {
	t.Helper()
	for _, want := range []struct {
		typ    string
		result any
	}{
		{"allocation.provision_user", taskcatalog.ProvisionUserResult{}},
		{"allocation.check_login", taskcatalog.CheckLoginResult{Address: "10.0.0.7", KeyTypes: []string{"ssh-ed25519"}, HostKey: testHostKey}},
	} {
		Eventually(t, "task "+want.typ, func() bool {
			n.b.Advance(time.Second / 2) // over the pauses of the run
			var found wire.WaitReply
			if len(n.more) == 0 {
				n.must(t, http.MethodGet, n.path("/tasks/wait?lanes=exclusive,concurrent"), nil, &found)
				n.more = found.Tasks
			}
			return len(n.more) > 0
		})
		d, task := n.Next(t)
		if task.Type != want.typ {
			t.Fatalf("the next task is %s, want %s", task.Type, want.typ)
		}
		n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, want.result, taskcatalog.Report{})
	}
	Eventually(t, "the allocation to be active", func() bool {
		n.b.Advance(time.Second / 2)
		return Must[api.PlatformAllocation](t, n.b, http.MethodGet, "/allocations/"+allocationID, nil).Status == "active"
	})
}

// testHostKey is the key of a node's SSH server.
const testHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
