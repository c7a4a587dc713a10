package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/attach"
)

// terminalRoutes are the routes for terminals that a token has: those of operators, or those of a project.
type terminalRoutes struct {
	remote  *client.Client
	project string // empty: of operators
}

// terminals makes a client for the terminals of a project: the one that is named, or that of the token. A
// token of the platform has those of operators.
func (a *app) terminals(ctx context.Context, project string) (terminalRoutes, error) {
	remote, err := a.connect()
	if err != nil {
		return terminalRoutes{}, err
	}
	project, err = ownProject(ctx, remote, project)
	return terminalRoutes{remote, project}, err
}

func terminalProjectFlag(c *cobra.Command, project *string) {
	c.Flags().StringVar(project, "project", "",
		"`PROJECT` whose members opened the session: an id, a name, or ORGANISATION/NAME; default: the project of the token")
}

// seenTerminal is a session as the caller may see it.
type seenTerminal struct {
	api.Terminal
	why       string // why it ended, for people
	ofProject bool
	answer    any // as the API gave it
}

// place says where a session is: a project knows no node.
func (t seenTerminal) place() string {
	if t.ofProject {
		return "on a node of allocation " + t.AllocationID
	}
	return "on " + t.Hostname
}

func operatorsTerminal(t *api.Terminal) *seenTerminal { return &seenTerminal{*t, t.EndCode, false, t} }

func projectsTerminal(t *api.ProjectTerminal) *seenTerminal {
	seen := api.Terminal{
		ID: t.ID, AllocationID: t.AllocationID, Username: t.Username, OpenedBy: t.OpenedBy, Reason: t.Reason, Status: t.Status,
		EndCode: t.EndCode, ExitStatus: t.ExitStatus, RecordInput: t.RecordInput, MaxSeconds: t.MaxSeconds, IdleSeconds: t.IdleSeconds,
		DetachSeconds: t.DetachSeconds, CreatedAt: t.CreatedAt, StatusAt: t.StatusAt, Filter: t.Filter,
	}
	if t.ClosedAt != nil {
		seen.ClosedAt = *t.ClosedAt
	}
	return &seenTerminal{seen, t.EndText, true, t}
}

func (r terminalRoutes) show(ctx context.Context, id string) (*seenTerminal, error) {
	if r.project == "" {
		return seen(operatorsTerminal)(r.remote.Terminal(ctx, id))
	}
	return seen(projectsTerminal)(r.remote.ProjectTerminal(ctx, r.project, id))
}

func (r terminalRoutes) close(ctx context.Context, id, reason string) (*seenTerminal, error) {
	if r.project == "" {
		return seen(operatorsTerminal)(r.remote.CloseTerminal(ctx, id, reason))
	}
	return seen(projectsTerminal)(r.remote.CloseProjectTerminal(ctx, r.project, id, reason))
}

func seen[T any](of func(*T) *seenTerminal) func(*T, error) (*seenTerminal, error) {
	return func(t *T, err error) (*seenTerminal, error) {
		if err != nil {
			return nil, err
		}
		return of(t), nil
	}
}

// ticket gets a ticket to an existing session.
func (r terminalRoutes) ticket(ctx context.Context, id string, size api.TerminalTicketRequest) (*seenTerminal, string, error) {
	if r.project == "" {
		k, err := r.remote.TerminalTicket(ctx, id, size)
		if err != nil {
			return nil, "", err
		}
		return operatorsTerminal(&k.Terminal), k.Ticket, nil
	}
	k, err := r.remote.ProjectTerminalTicket(ctx, r.project, id, size)
	if err != nil {
		return nil, "", err
	}
	return projectsTerminal(&k.Terminal), k.Ticket, nil
}

func (r terminalRoutes) attach(ctx context.Context, id, ticket string) (attach.Conn, error) {
	var conn *client.Attachment
	var err error
	if r.project == "" {
		conn, err = r.remote.AttachTerminal(ctx, id, ticket)
	} else {
		conn, err = r.remote.AttachProjectTerminal(ctx, r.project, id, ticket)
	}
	if err != nil {
		return nil, err // an untyped nil
	}
	return conn, nil
}

// list returns the answer, and its sessions.
func (r terminalRoutes) list(ctx context.Context, f client.TerminalFilter, allocation string) (answer any, all []api.Terminal, err error) {
	switch {
	case r.project == "" && allocation != "":
		return nil, nil, usage("--allocation lists the sessions of a project (use --project PROJECT)")
	case r.project == "":
		l, err := r.remote.Terminals(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		return l, l.Items, nil
	case f.Node != "" || f.OpenedBy != "":
		return nil, nil, usage("--node and --opened-by list the sessions of operators, and not those of a project")
	}
	only := client.ProjectTerminalFilter{Allocation: allocation, Status: f.Status, Limit: f.Limit}
	l, err := r.remote.ProjectTerminals(ctx, r.project, only)
	if err != nil {
		return nil, nil, err
	}
	for i := range l.Items {
		all = append(all, projectsTerminal(&l.Items[i]).Terminal)
	}
	return l, all, nil
}
