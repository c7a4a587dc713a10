package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/hostler/hostler/broker/api"
)

// ProjectTerminalFilter narrows a list of a project's terminal sessions; empty fields narrow nothing.
type ProjectTerminalFilter struct {
	Allocation, Status string
	Limit              int // newest first; 0: all
}

// ProjectTerminals lists the sessions that members opened for a project, newest first.
func (c *Client) ProjectTerminals(ctx context.Context, project string, f ProjectTerminalFilter) (*api.ProjectTerminalList, error) {
	q := query("allocation", f.Allocation, "status", f.Status)
	all := &api.ProjectTerminalList{Items: []api.ProjectTerminal{}}
	for {
		q.Set("limit", strconv.Itoa(nextPage(f.Limit, len(all.Items))))
		page, err := fetch[api.ProjectTerminalList](ctx, c, at("projects", project, "terminals"), q)
		if err != nil {
			return nil, err
		}
		all.Items, all.Next = append(all.Items, page.Items...), page.Next
		if page.Next == "" || f.Limit > 0 && len(all.Items) >= f.Limit {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// ProjectTerminal returns a session of a project.
func (c *Client) ProjectTerminal(ctx context.Context, project, id string) (*api.ProjectTerminal, error) {
	return fetch[api.ProjectTerminal](ctx, c, at("projects", project, "terminals", id), nil)
}

// OpenProjectTerminal begins a session on a node of an active allocation, as a member of its project. The
// request is never repeated, because a repeat would start a second session.
func (c *Client) OpenProjectTerminal(
	ctx context.Context, project, allocation string, s api.ProjectTerminalStart,
) (*api.ProjectTerminalTicket, error) {
	return submit[api.ProjectTerminalTicket](ctx, c, http.MethodPost, at("projects", project, "allocations", allocation, "terminals"), s)
}

// ProjectTerminalTicket gets a ticket to a session that the caller has opened.
func (c *Client) ProjectTerminalTicket(
	ctx context.Context, project, id string, r api.TerminalTicketRequest,
) (*api.ProjectTerminalTicket, error) {
	return submit[api.ProjectTerminalTicket](ctx, c, http.MethodPost, at("projects", project, "terminals", id, "tickets"), r)
}

// CloseProjectTerminal ends a session of a project.
func (c *Client) CloseProjectTerminal(ctx context.Context, project, id, reason string) (*api.ProjectTerminal, error) {
	return submit[api.ProjectTerminal](ctx, c, http.MethodPost, at("projects", project, "terminals", id, "close"), api.ReasonBody{Reason: reason})
}

// AttachProjectTerminal joins a session of a project, like AttachTerminal.
func (c *Client) AttachProjectTerminal(ctx context.Context, project, id, ticket string) (*Attachment, error) {
	return c.attach(ctx, at("projects", project, "terminals", id, "attach"), id, ticket)
}
