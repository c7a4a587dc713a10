package adminapi

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/terminals"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

type openTerminalInput struct{ Body api.TerminalStart }

func (a *API) openTerminal(ctx context.Context, in *openTerminalInput) (*api.TerminalTicket, error) {
	b := in.Body
	n, err := a.node(ctx, b.Node)
	if err != nil {
		return nil, err
	}
	id, k, err := a.c.Terminals.Open(ctx, callerOf(ctx).OperatorToken, terminals.Request{
		NodeID: n.ID, Username: b.Username, AllocationID: b.AllocationID, Command: b.Command, Term: b.Term, Locale: b.Locale,
		Size: terminals.Size{Columns: b.Columns, Rows: b.Rows}, Reason: taskcatalog.Clean(b.Reason, 500),
	})
	if err != nil {
		return nil, err
	}
	return a.ticketResource(ctx, id, k)
}

// TerminalInput names a session; exported for the same reason as NodeInput.
type TerminalInput struct {
	Terminal string `path:"terminal" maxLength:"64"`
}

type terminalTicketInput struct {
	TerminalInput
	Body api.TerminalTicketRequest
}

func (a *API) issueTerminalTicket(ctx context.Context, in *terminalTicketInput) (*api.TerminalTicket, error) {
	if _, err := a.terminal(ctx, in.Terminal); err != nil {
		return nil, err
	}
	k, err := a.c.Terminals.Ticket(ctx, callerOf(ctx).OperatorToken, in.Terminal,
		terminals.Size{Columns: in.Body.Columns, Rows: in.Body.Rows})
	if err != nil {
		return nil, err
	}
	return a.ticketResource(ctx, in.Terminal, k)
}

func (a *API) ticketResource(ctx context.Context, id string, k terminals.Ticket) (*api.TerminalTicket, error) {
	v, err := a.c.DB.Terminal(ctx, id)
	if err != nil {
		return nil, err
	}
	return &api.TerminalTicket{Terminal: a.terminalResource(v), Ticket: k.Secret, TicketExpiresAt: k.Expires}, nil
}

// terminal finds a session of a node that the caller may see.
func (a *API) terminal(ctx context.Context, id string) (store.Terminal, error) {
	v, err := a.c.DB.Terminal(ctx, id)
	if err == nil && !callerOf(ctx).MaySee(v.Site) {
		return store.Terminal{}, broker.TerminalNotFound(id)
	}
	return v, err
}

func (a *API) showTerminal(ctx context.Context, in *TerminalInput) (*api.Terminal, error) {
	v, err := a.terminal(ctx, in.Terminal)
	if err != nil {
		return nil, err
	}
	out := a.terminalResource(v)
	return &out, nil
}

type terminalsInput struct {
	Node     string `query:"node" maxLength:"320"`
	Status   string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas; live: all but closed"`
	OpenedBy string `query:"opened_by" maxLength:"64"`
	Cursor   string `query:"cursor" maxLength:"64"`
	Limit    int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listTerminals(ctx context.Context, in *terminalsInput) (*api.TerminalList, error) {
	f := store.TerminalFilter{Sites: callerOf(ctx).sites(), OpenedBy: in.OpenedBy, After: in.Cursor, Limit: pageLimit(in.Limit) + 1}
	var err error
	if f.Statuses, err = terminalStatuses(in.Status); err != nil {
		return nil, err
	}
	if in.Node != "" {
		n, err := a.node(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		f.NodeID = n.ID
	}
	read, err := a.c.DB.Terminals(ctx, f)
	if err != nil {
		return nil, err
	}
	page, next := firstOf(read, pageLimit(in.Limit), func(v store.Terminal) string { return v.ID })
	out := &api.TerminalList{Items: make([]api.Terminal, len(page)), Next: next}
	for i, v := range page {
		out.Items[i] = a.terminalResource(v)
	}
	return out, nil
}

// terminalStatuses are the statuses that a list names. Code: status_unknown.
func terminalStatuses(names string) (all []broker.TerminalStatus, err error) {
	live := []broker.TerminalStatus{broker.TerminalOpening, broker.TerminalOpen, broker.TerminalDetached, broker.TerminalClosing}
	for name := range strings.SplitSeq(names, ",") {
		switch s := broker.TerminalStatus(name); s {
		case "":
		case "live":
			all = append(all, live...)
		case broker.TerminalOpening, broker.TerminalOpen, broker.TerminalDetached, broker.TerminalClosing, broker.TerminalClosed:
			all = append(all, s)
		default:
			return nil, broker.Errorf(broker.Invalid, "status_unknown", "cannot filter by status %q: there is no such terminal status",
				taskcatalog.Clean(name, 40))
		}
	}
	return all, nil
}

type closeTerminalInput struct {
	TerminalInput
	Body api.ReasonBody
}

func (a *API) closeTerminal(ctx context.Context, in *closeTerminalInput) (*api.Terminal, error) {
	if _, err := a.terminal(ctx, in.Terminal); err != nil {
		return nil, err
	}
	if err := a.c.Terminals.Close(ctx, callerOf(ctx).OperatorToken, in.Terminal, taskcatalog.Clean(in.Body.Reason, 300)); err != nil {
		return nil, err
	}
	return a.showTerminal(ctx, &in.TerminalInput)
}

func (a *API) terminalResource(v store.Terminal) api.Terminal {
	state, err := a.c.Relay.State(v.ID)
	if err != nil { // the session is over or at another replica
		state = frame.State{}
	}
	return api.Terminal{
		ID: v.ID, NodeID: v.NodeID, Hostname: v.Hostname, Site: v.Site, AllocationID: v.AllocationID,
		ProjectID: v.ProjectID, Username: v.Username, OpenedBy: v.OpenedBy, Reason: v.Reason, Status: string(v.Status),
		EndCode: v.EndCode, ExitStatus: v.ExitStatus, RecordInput: v.RecordInput,
		MaxSeconds: int64(v.Limits.Max.Seconds()), IdleSeconds: int64(v.Limits.Idle.Seconds()),
		DetachSeconds: int64(v.Limits.Detach.Seconds()),
		CreatedAt:     v.CreatedAt, StatusAt: v.StatusAt, ClosedAt: v.ClosedAt, EndRequestedBy: v.AskedBy, Transport: state.Transport,
		Filter: api.TerminalFilter{Title: v.Policy.AllowTitle, Clipboard: v.Policy.AllowClipboard},
	}
}
