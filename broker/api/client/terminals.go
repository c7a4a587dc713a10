package client

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

// TerminalFilter narrows a list of terminal sessions; empty fields narrow nothing.
type TerminalFilter struct {
	Node, Status, OpenedBy string
	Limit                  int // newest first; 0: all
}

// Terminals lists sessions, newest first.
func (c *Client) Terminals(ctx context.Context, f TerminalFilter) (*api.TerminalList, error) {
	q := query("node", f.Node, "status", f.Status, "opened_by", f.OpenedBy)
	all := &api.TerminalList{Items: []api.Terminal{}}
	for {
		q.Set("limit", strconv.Itoa(nextPage(f.Limit, len(all.Items))))
		page, err := fetch[api.TerminalList](ctx, c, "/terminals", q)
		if err != nil {
			return nil, err
		}
		all.Standing, all.Items, all.Next = page.Standing, append(all.Items, page.Items...), page.Next
		if page.Next == "" || f.Limit > 0 && len(all.Items) >= f.Limit {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Terminal returns one session.
func (c *Client) Terminal(ctx context.Context, id string) (*api.Terminal, error) {
	return fetch[api.Terminal](ctx, c, at("terminals", id), nil)
}

// OpenTerminal begins a session. The request is never repeated, because a repeat would start a
// second session.
func (c *Client) OpenTerminal(ctx context.Context, s api.TerminalStart) (*api.TerminalTicket, error) {
	return submit[api.TerminalTicket](ctx, c, http.MethodPost, "/terminals", s)
}

// TerminalTicket gets a ticket to an existing session.
func (c *Client) TerminalTicket(ctx context.Context, id string, r api.TerminalTicketRequest) (*api.TerminalTicket, error) {
	return submit[api.TerminalTicket](ctx, c, http.MethodPost, at("terminals", id, "tickets"), r)
}

// CloseTerminal ends a session.
func (c *Client) CloseTerminal(ctx context.Context, id, reason string) (*api.Terminal, error) {
	return submit[api.Terminal](ctx, c, http.MethodPost, at("terminals", id, "close"), api.ReasonBody{Reason: reason})
}

// RecordingFilter narrows a list of recordings; empty fields narrow nothing.
type RecordingFilter struct {
	Node, OpenedBy string
	From, To       time.Time
	Limit          int // newest first; 0: all
}

// Recordings lists recordings, newest first.
func (c *Client) Recordings(ctx context.Context, f RecordingFilter) (*api.RecordingList, error) {
	q := query("node", f.Node, "opened_by", f.OpenedBy, "from", timestamp(f.From), "to", timestamp(f.To))
	all := &api.RecordingList{Items: []api.Recording{}}
	for {
		q.Set("limit", strconv.Itoa(nextPage(f.Limit, len(all.Items))))
		page, err := fetch[api.RecordingList](ctx, c, "/recordings", q)
		if err != nil {
			return nil, err
		}
		all.Standing, all.Items, all.Next = page.Standing, append(all.Items, page.Items...), page.Next
		if page.Next == "" || f.Limit > 0 && len(all.Items) >= f.Limit {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// CopyRecording copies a recording as it was written. A broken stream is an error; bytes already
// copied stay.
func (c *Client) CopyRecording(ctx context.Context, id string, w io.Writer) error {
	res, err := c.send(ctx, call{method: http.MethodGet, path: at("recordings", id, "cast")}, http.NoBody)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	written := &countedErr{w: w}
	if _, err := io.Copy(written, res.Body); err != nil {
		if written.err != nil {
			return written.err
		}
		return broker.Errorf(broker.Unavailable, "recording_incomplete",
			"cannot read the recording of session %s to its end: the transfer was interrupted (try again; hostler recording verify %s checks whether the recording is complete)", id, id)
	}
	return nil
}

// VerifyRecording checks a recording against its hashes. The time needed grows with the recording;
// the limit is an hour.
func (c *Client) VerifyRecording(ctx context.Context, id string) (*api.RecordingReport, error) {
	out := new(api.RecordingReport)
	if err := c.do(ctx, call{method: http.MethodGet, path: at("recordings", id, "verify"), limit: time.Hour}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// TerminalPolicy returns a site's policy; an empty site means the nodes without a site.
func (c *Client) TerminalPolicy(ctx context.Context, site string) (*api.TerminalPolicy, error) {
	return fetch[api.TerminalPolicy](ctx, c, "/terminal-policy", query("site", site))
}

// SetTerminalPolicy replaces a site's policy.
func (c *Client) SetTerminalPolicy(ctx context.Context, p api.TerminalPolicyPut) (*api.TerminalPolicy, error) {
	return submit[api.TerminalPolicy](ctx, c, http.MethodPut, "/terminal-policy", p)
}
