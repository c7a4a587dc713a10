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

// Status returns the system at a glance.
func (c *Client) Status(ctx context.Context, site string) (*api.Status, error) {
	return fetch[api.Status](ctx, c, "/status", query("site", site))
}

// Whoami describes the token of this client.
func (c *Client) Whoami(ctx context.Context) (*api.Token, error) {
	return fetch[api.Token](ctx, c, "/whoami", nil)
}

// AuditFilter narrows the audit log; empty fields narrow nothing.
type AuditFilter struct {
	Node, Actor, Action string
	Source, Site        string // of the request: its sender's address, and the site of what it was about
	From, To            time.Time
	Limit               int // newest first; 0: all
}

// Audit lists rows of the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (*api.AuditList, error) {
	q := query("node", f.Node, "actor", f.Actor, "action", f.Action, "source", f.Source, "site", f.Site, "from", timestamp(f.From), "to", timestamp(f.To))
	all := &api.AuditList{Items: []api.AuditEntry{}}
	for {
		q.Set("limit", strconv.Itoa(nextPage(f.Limit, len(all.Items))))
		page, err := fetch[api.AuditList](ctx, c, "/audit", q)
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

// VerifyAudit walks all seals. The time needed grows with the log; the limit is an hour.
func (c *Client) VerifyAudit(ctx context.Context) (*api.AuditVerification, error) {
	out := new(api.AuditVerification)
	err := c.do(ctx, call{method: http.MethodGet, path: "/audit/verify", limit: time.Hour}, out)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ExportAudit copies rows to w, one JSON object a line, oldest first. A broken stream is an error;
// rows already written stay.
func (c *Client) ExportAudit(ctx context.Context, f AuditFilter, w io.Writer) error {
	q := query("node", f.Node, "source", f.Source, "site", f.Site, "from", timestamp(f.From), "to", timestamp(f.To))
	res, err := c.send(ctx, call{method: http.MethodGet, path: "/audit/export", query: q}, http.NoBody)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	written := &countedErr{w: w}
	if _, err := io.Copy(written, res.Body); err != nil {
		if written.err != nil {
			return written.err
		}
		return broker.Errorf(broker.Unavailable, "export_incomplete",
			"cannot finish the export: the connection to %s broke (the file is incomplete; run the export again)", c.opts.Broker)
	}
	return nil
}

// countedErr records that the writer failed, not the reader.
type countedErr struct {
	w   io.Writer
	err error
}

func (c *countedErr) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.err = err
	return n, err
}

// Expiry lists everything with an end that the broker depends on.
func (c *Client) Expiry(ctx context.Context) (*api.Expiry, error) {
	return fetch[api.Expiry](ctx, c, "/expiry", nil)
}

// Roots lists the root certificates in force. Tokens of every role may read them.
func (c *Client) Roots(ctx context.Context) (*api.RootList, error) {
	return fetch[api.RootList](ctx, c, "/roots", nil)
}

// Trust returns the trust bundle in force.
func (c *Client) Trust(ctx context.Context) (*api.Trust, error) {
	return fetch[api.Trust](ctx, c, "/trust", nil)
}

// RotateTrust begins a rotation.
func (c *Client) RotateTrust(ctx context.Context, r api.TrustRotate) (*api.Trust, error) {
	return submit[api.Trust](ctx, c, http.MethodPost, "/trust/rotate", r)
}

// FinishTrust ends the rotation.
func (c *Client) FinishTrust(ctx context.Context, f api.TrustFinish) (*api.Trust, error) {
	return submit[api.Trust](ctx, c, http.MethodPost, "/trust/finish", f)
}

// AddReleaseKey makes nodes trust releases that a key signed.
func (c *Client) AddReleaseKey(ctx context.Context, p api.ReleaseKeyPut) (*api.Trust, error) {
	return submit[api.Trust](ctx, c, http.MethodPost, "/trust/release-keys", p)
}

// RetireReleaseKey makes nodes trust a release key no longer.
func (c *Client) RetireReleaseKey(ctx context.Context, id, reason string) (*api.Trust, error) {
	return submit[api.Trust](ctx, c, http.MethodPost, at("trust", "release-keys", id, "retire"), api.ReasonBody{Reason: reason})
}
