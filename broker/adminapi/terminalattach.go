package adminapi

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// helloWithin is how long an operator's side has to send its Hello.
const helloWithin = 5 * time.Second

// AttachInput is the request for a WebSocket; exported for the same reason as NodeInput.
type AttachInput struct {
	TerminalInput
	Origin    string   `header:"Origin" doc:"left out, or the API's own origin"`
	Upgrade   string   `header:"Upgrade" doc:"websocket"`
	Protocols []string `header:"Sec-WebSocket-Protocol" doc:"hostler-terminal.1, and hostler-ticket. followed by a ticket"`
	host      string
}

// Resolve implements huma.Resolver.
func (in *AttachInput) Resolve(hc huma.Context) []error {
	in.host = hc.Host()
	return nil
}

// attachTerminal lets an operator into a session.
func (a *API) attachTerminal(ctx context.Context, in *AttachInput) (*huma.StreamResponse, error) {
	v, err := a.terminal(ctx, in.Terminal)
	if err != nil {
		return nil, err
	}
	return a.join(ctx, in, v.ID, func(err error) error { return err }, func(s *socket) side { return s })
}

// side is the caller's side of a session, before and after the relay has it.
type side interface {
	relay.Side
	refuse(taskcatalog.Code, string)
	wait()
}

// join lets a caller into a session. The caller and the ticket are checked before the connection
// becomes a WebSocket, so that a refusal is an ordinary answer. shown is the refusal for the caller, and
// of the caller's side of the session.
func (a *API) join(
	ctx context.Context, in *AttachInput, id string, shown func(error) error, of func(*socket) side,
) (*huma.StreamResponse, error) {
	if err := a.checkOrigin(ctx, in); err != nil {
		return nil, err
	}
	ticket, err := in.ticket()
	if err != nil {
		return nil, err
	}
	if err := a.c.Terminals.Join(ctx, callerOf(ctx).OperatorToken, id, ticket); err != nil {
		return nil, shown(err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols:    []string{api.TerminalProtocol},
			CompressionMode: websocket.CompressionDisabled,
		})
		if err != nil {
			return // Accept has answered
		}
		a.attach(ctx, id, of(newSocket(ctx, conn, pingEvery, pongWithin)))
	}}, nil
}

// checkOrigin refuses a connection that a page of another host makes a browser open.
func (a *API) checkOrigin(ctx context.Context, in *AttachInput) error {
	if in.Origin == "" {
		return nil
	}
	u, err := url.Parse(in.Origin)
	if err == nil && u.Scheme == "https" && strings.EqualFold(u.Host, in.host) {
		return nil
	}
	who := callerOf(ctx)
	a.auditRefusal(ctx, "attach-terminal", broker.AuditEntry{
		Actor: who.Name, Code: "origin_forbidden", Reason: taskcatalog.Clean(in.Origin, 200), CorrelationID: who.correlationID,
	})
	return broker.Errorf(broker.Forbidden, "origin_forbidden",
		"cannot attach a terminal from origin %q: only the API's own host is allowed", taskcatalog.Clean(in.Origin, 200))
}

// ticket finds the ticket among the offered protocols. There no log and no history records the
// ticket, as they would in a URL. Codes: websocket_required, websocket_protocol,
// terminal_ticket_missing.
func (in *AttachInput) ticket() (ticket string, err error) {
	if !strings.EqualFold(in.Upgrade, "websocket") {
		return "", broker.Errorf(broker.Invalid, "websocket_required",
			"cannot attach a terminal: the request does not open a WebSocket (hostler terminal attach)")
	}
	speaks := false
	for _, offered := range in.Protocols {
		offered = strings.TrimSpace(offered)
		speaks = speaks || offered == api.TerminalProtocol
		if rest, ok := strings.CutPrefix(offered, api.TerminalTicketPrefix); ok {
			ticket = rest
		}
	}
	switch {
	case !speaks:
		return "", broker.Errorf(broker.Invalid, "websocket_protocol",
			"cannot attach a terminal: the client does not offer %s (update the client)", api.TerminalProtocol)
	case ticket == "" || len(ticket) > 100:
		return "", broker.Errorf(broker.Invalid, "terminal_ticket_missing",
			"cannot attach a terminal: the request has no ticket (hostler terminal attach gets one)")
	}
	return ticket, nil
}

// attach hands a socket to the relay after its Hello, and returns when the socket has ended.
func (a *API) attach(ctx context.Context, id string, s side) {
	defer s.wait()
	timer := time.AfterFunc(helloWithin, func() { _ = s.Close() })
	f, err := s.Next()
	if !timer.Stop() || err != nil {
		s.refuse("hello_missing", "no Hello arrived in time")
		return
	}
	h, ok := f.(frame.Hello)
	if !ok || h.Version != frame.Version || h.SessionID != id {
		s.refuse("hello_invalid", "the first frame must be the Hello of the session, version 1")
		return
	}
	if err := a.c.Relay.Attach(id, callerOf(ctx).Name, h, s); err != nil {
		a.c.Log.Info("an operator attached too late", zap.String("session", id), zap.Error(err))
	}
}
