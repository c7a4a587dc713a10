package adminapi

import (
	"context"
	"errors"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/terminals"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

type openProjectTerminalInput struct {
	ProjectInput
	AllocationInput
	Body api.ProjectTerminalStart
}

// openProjectTerminal opens a terminal for a member of the project, as the allocation's own user. Codes:
// project_not_found, allocation_not_found, allocation_not_active, terminal_members_only,
// terminal_node_missing, terminal_env_refused, terminal_limit, terminal_node_unready.
func (a *API) openProjectTerminal(ctx context.Context, in *openProjectTerminalInput) (*api.ProjectTerminalTicket, error) {
	of, err := a.allocation(ctx, in.Project, in.Allocation)
	if err != nil {
		return nil, err
	}
	who, b := callerOf(ctx), in.Body
	node, err := a.terminalNode(ctx, of, b.Hostname)
	if no, is := errors.AsType[*broker.Error](err); is {
		a.auditDenial(ctx, "terminal.refused", "allocation/"+of.ID, b.Reason, no)
		return nil, no
	} else if err != nil {
		return nil, err
	}
	id, k, err := a.c.Terminals.Open(ctx, who.OperatorToken, terminals.Request{
		NodeID: node, Username: broker.AllocationAccount, AllocationID: of.ID, ProjectID: of.ProjectID, Term: b.Term, Locale: b.Locale,
		Size: terminals.Size{Columns: b.Columns, Rows: b.Rows}, Reason: taskcatalog.Clean(b.Reason, 500),
	})
	if err != nil {
		return nil, tenantsRefusal(err)
	}
	return a.projectTicket(ctx, of.ProjectID, id, k)
}

// watchable refuses a person of the platform who signed in by OIDC: such a person is in no session, and so
// joins none of a project. Code: terminal_needs_token.
func watchable(who caller) error {
	if who.SignedIn() && who.Place.OfPlatform() {
		return broker.Errorf(broker.Forbidden, "terminal_needs_token",
			"cannot use a terminal: %s signed in by OIDC as %s, and operators use terminals with an operator token (hostler token create)",
			who.Name, who.Role)
	}
	return nil
}

// terminalNode is the node of an active allocation with a hostname; without one, the only node. Codes:
// terminal_members_only, allocation_not_active, terminal_node_missing.
func (a *API) terminalNode(ctx context.Context, of broker.Allocation, hostname string) (string, error) {
	who := callerOf(ctx)
	if who.Place.OfPlatform() {
		return "", broker.Errorf(broker.Forbidden, "terminal_members_only",
			"cannot open a terminal of allocation %s for its project: token %s is no member's (open one as an operator: hostler terminal NODE)",
			of.ID, who.Name)
	}
	if of.Status != broker.AllocationActive {
		return "", broker.Errorf(broker.Refused, "allocation_not_active",
			"cannot open a terminal of allocation %s: it is %s, and a member has a terminal only while it is active", of.ID, of.Status)
	}
	logins, err := a.c.DB.AllocationLogins(ctx, []string{of.ID})
	if err != nil {
		return "", err
	}
	all := logins[of.ID]
	i := slices.IndexFunc(all, func(l store.AllocationLogin) bool { return l.Hostname == hostname })
	switch {
	case hostname == "" && len(all) == 1:
		return all[0].NodeID, nil
	case hostname != "" && i >= 0:
		return all[i].NodeID, nil
	}
	return "", broker.Errorf(broker.Invalid, "terminal_node_missing",
		"cannot open a terminal of allocation %s: it has %d nodes, and the request names none of them (hostname of one of its logins)",
		of.ID, len(all))
}

type projectTerminalInput struct {
	ProjectInput
	TerminalInput
}

// projectTerminal finds a session that a member opened for the project. An operator's session on a node of
// the project, and another project's session, are answered like one that never was.
func (a *API) projectTerminal(ctx context.Context, in projectTerminalInput) (store.Terminal, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return store.Terminal{}, err
	}
	v, err := a.c.DB.ProjectTerminal(ctx, p.ID, in.Terminal)
	if who := callerOf(ctx); err == nil && who.Place.OfPlatform() && !who.MaySee(v.Site) {
		return store.Terminal{}, broker.TerminalNotFound(in.Terminal)
	}
	return v, err
}

func (a *API) projectTicket(ctx context.Context, projectID, id string, k terminals.Ticket) (*api.ProjectTerminalTicket, error) {
	v, err := a.c.DB.ProjectTerminal(ctx, projectID, id)
	if err != nil {
		return nil, err
	}
	return &api.ProjectTerminalTicket{Terminal: projectTerminalResource(v), Ticket: k.Secret, TicketExpiresAt: k.Expires}, nil
}

type projectTerminalsInput struct {
	ProjectInput
	Allocation string `query:"allocation" maxLength:"64" doc:"only sessions of this allocation"`
	Status     string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas; live: all but closed"`
	Cursor     string `query:"cursor" maxLength:"64"`
	Limit      int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listProjectTerminals(ctx context.Context, in *projectTerminalsInput) (*api.ProjectTerminalList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	f := store.TerminalFilter{ProjectID: p.ID, AllocationID: in.Allocation, After: in.Cursor, Limit: pageLimit(in.Limit) + 1}
	if who := callerOf(ctx); who.Place.OfPlatform() {
		f.Sites = who.sites()
	}
	if f.Statuses, err = terminalStatuses(in.Status); err != nil {
		return nil, err
	}
	read, err := a.c.DB.Terminals(ctx, f)
	if err != nil {
		return nil, err
	}
	page, next := firstOf(read, pageLimit(in.Limit), func(v store.Terminal) string { return v.ID })
	return &api.ProjectTerminalList{Items: resources(page, projectTerminalResource), Next: next}, nil
}

func (a *API) showProjectTerminal(ctx context.Context, in *projectTerminalInput) (*api.ProjectTerminal, error) {
	return resource(projectTerminalResource)(a.projectTerminal(ctx, *in))
}

type closeProjectTerminalInput struct {
	ProjectInput
	TerminalInput
	Body api.ReasonBody
}

// closeProjectTerminal ends a session: a member those that their own token opened, an admin of the project
// all of the project's. Code: terminal_not_yours.
func (a *API) closeProjectTerminal(ctx context.Context, in *closeProjectTerminalInput) (*api.ProjectTerminal, error) {
	of := projectTerminalInput{in.ProjectInput, in.TerminalInput}
	v, err := a.projectTerminal(ctx, of)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	if !who.Place.OfPlatform() && v.OpenedBy != who.Name && !who.Role.Covers(projectAdmin) {
		no := broker.Errorf(broker.Forbidden, "terminal_not_yours",
			"cannot close terminal session %s: %s opened the session (ask that member, or an admin of the project)", v.ID, v.OpenedBy)
		a.auditDenial(ctx, "terminal.close", "terminal/"+v.ID, "", no)
		return nil, no
	}
	if err := a.c.Terminals.Close(ctx, who.OperatorToken, v.ID, taskcatalog.Clean(in.Body.Reason, 300)); err != nil {
		return nil, tenantsRefusal(err)
	}
	return a.showProjectTerminal(ctx, &of)
}

type projectTerminalTicketInput struct {
	ProjectInput
	TerminalInput
	Body api.TerminalTicketRequest
}

func (a *API) issueProjectTerminalTicket(ctx context.Context, in *projectTerminalTicketInput) (*api.ProjectTerminalTicket, error) {
	v, err := a.projectTerminal(ctx, projectTerminalInput{in.ProjectInput, in.TerminalInput})
	if err != nil {
		return nil, err
	}
	if err := watchable(callerOf(ctx)); err != nil {
		return nil, err
	}
	k, err := a.c.Terminals.Ticket(ctx, callerOf(ctx).OperatorToken, v.ID, terminals.Size{Columns: in.Body.Columns, Rows: in.Body.Rows})
	if err != nil {
		return nil, tenantsRefusal(err)
	}
	return a.projectTicket(ctx, v.ProjectID, v.ID, k)
}

type attachProjectTerminalInput struct {
	ProjectInput
	AttachInput
}

// attachProjectTerminal lets a member into a session of the project, like attachTerminal.
func (a *API) attachProjectTerminal(ctx context.Context, in *attachProjectTerminalInput) (*huma.StreamResponse, error) {
	v, err := a.projectTerminal(ctx, projectTerminalInput{in.ProjectInput, in.TerminalInput})
	if err != nil {
		return nil, err
	}
	if err := watchable(callerOf(ctx)); err != nil {
		return nil, err
	}
	return a.join(ctx, &in.AttachInput, v.ID, tenantsRefusal, func(s *socket) side { return tenantsSide{s} })
}

// tenantsSide is a member's side of a session. It replaces the reason of the end, which may name a node
// or an operator.
type tenantsSide struct{ *socket }

// Send implements relay.Side.
func (s tenantsSide) Send(f frame.Frame) error {
	if bye, ok := f.(frame.Bye); ok {
		code, text := broker.TenantTerminalCode(string(bye.Code))
		bye.Code, bye.Text = taskcatalog.Code(code), text
		f = bye
	}
	return s.socket.Send(f)
}

// plainRefusals are the refusals that a project is shown as they are: they name the session, the ticket or
// what the caller sent.
var plainRefusals = []string{
	"terminal_session_not_found", "terminal_session_over", "terminal_not_yours", "terminal_limit", "terminal_env_refused",
	"terminal_ticket_unknown", "terminal_ticket_wrong_operator", "terminal_ticket_wrong_session", "terminal_ticket_used",
	"terminal_ticket_expired",
}

// tenantsRefusal is a refusal as a project may know it: without a node, a run, a task, a relay.
func tenantsRefusal(err error) error {
	e := broker.AsError(err)
	if e.Kind == broker.Internal || slices.Contains(plainRefusals, e.Code) {
		return err
	}
	code, text := broker.TenantTerminalCode(e.Code)
	kind := e.Kind
	if code != e.Code && kind != broker.Unavailable {
		kind = broker.Refused // the kind would tell causes apart
	}
	return broker.Errorf(kind, code, "cannot use a terminal of the allocation: %s", text)
}

func projectTerminalResource(v store.Terminal) api.ProjectTerminal {
	code, text := broker.TenantTerminalCode(v.EndCode)
	return api.ProjectTerminal{
		ID: v.ID, AllocationID: v.AllocationID, Username: v.Username, OpenedBy: v.OpenedBy, Reason: v.Reason, Status: string(v.Status),
		EndCode: code, EndText: text, ExitStatus: v.ExitStatus, Recorded: true, RecordInput: v.RecordInput,
		MaxSeconds: int64(v.Limits.Max.Seconds()), IdleSeconds: int64(v.Limits.Idle.Seconds()),
		DetachSeconds: int64(v.Limits.Detach.Seconds()), CreatedAt: v.CreatedAt, StatusAt: v.StatusAt, ClosedAt: timeOrNull(v.ClosedAt),
		Filter: api.TerminalFilter{Title: v.Policy.AllowTitle, Clipboard: v.Policy.AllowClipboard},
	}
}
