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

// Status is the system at a glance.
func (c *Client) Status(ctx context.Context, site string) (*api.Status, error) {
	return fetch[api.Status](ctx, c, "/status", query("site", site))
}

// Whoami is the token that this client carries.
func (c *Client) Whoami(ctx context.Context) (*api.Token, error) {
	return fetch[api.Token](ctx, c, "/whoami", nil)
}

// AuditFilter narrows the audit log; empty fields narrow nothing.
type AuditFilter struct {
	Node, Actor, Action string
	From, To            time.Time
	Limit               int // newest first; 0: all
}

// Audit lists rows of the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) ([]api.AuditEntry, error) {
	q := query("node", f.Node, "actor", f.Actor, "action", f.Action, "from", timestamp(f.From), "to", timestamp(f.To))
	rows := []api.AuditEntry{}
	for {
		q.Set("limit", strconv.Itoa(nextPage(f.Limit, len(rows))))
		page, err := fetch[api.AuditList](ctx, c, "/audit", q)
		if err != nil {
			return nil, err
		}
		rows = append(rows, page.Items...)
		if page.NextCursor == "" || f.Limit > 0 && len(rows) >= f.Limit {
			return rows, nil
		}
		q.Set("cursor", page.NextCursor)
	}
}

// VerifyAudit walks all seals. It takes as long as the log is.
func (c *Client) VerifyAudit(ctx context.Context) (*api.AuditVerification, error) {
	out := new(api.AuditVerification)
	err := c.do(ctx, call{method: http.MethodGet, path: "/audit/verify", limit: time.Hour}, out)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ExportAudit copies rows, one JSON object a line, oldest first. A stream
// that breaks off is an error: what was written before stands.
func (c *Client) ExportAudit(ctx context.Context, f AuditFilter, w io.Writer) error {
	q := query("node", f.Node, "from", timestamp(f.From), "to", timestamp(f.To))
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
		return broker.Errorf(broker.Unavailable, "export_incomplete", "cannot finish the export: the connection to %s broke (the file is incomplete; run it again)", c.opts.Broker)
	}
	return nil
}

// countedErr remembers that it was the writer that failed, not the reader.
type countedErr struct {
	w   io.Writer
	err error
}

func (c *countedErr) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.err = err
	return n, err
}

// Expiry is all that the broker runs on and that ends.
func (c *Client) Expiry(ctx context.Context) (*api.Expiry, error) {
	return fetch[api.Expiry](ctx, c, "/expiry", nil)
}

// Trust is the trust bundle in force.
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

// AddReleaseKey has nodes believe releases that a key signed.
func (c *Client) AddReleaseKey(ctx context.Context, p api.ReleaseKeyPut) (*api.Trust, error) {
	return submit[api.Trust](ctx, c, http.MethodPost, "/trust/release-keys", p)
}

// RetireReleaseKey has nodes believe a release key no more.
func (c *Client) RetireReleaseKey(ctx context.Context, id, reason string) (*api.Trust, error) {
	return submit[api.Trust](ctx, c, http.MethodPost, at("trust", "release-keys", id, "retire"), api.ReasonBody{Reason: reason})
}
