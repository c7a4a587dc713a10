package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker/api"
)

// DecommissionFilter narrows a list of turnovers; empty fields narrow nothing.
type DecommissionFilter struct {
	RunFilter
	Node, Mode string
}

// Decommissions lists all turnovers that match a filter, in the order of their start, and the batch
// if the filter names a batch.
func (c *Client) Decommissions(ctx context.Context, f DecommissionFilter) (*api.DecommissionList, error) {
	q := query("node_id", f.Node, "site", f.Site, "mode", f.Mode, "status", f.Status, "stage", f.Stage, "class", f.Class,
		"batch_id", f.Batch, "limit", strconv.Itoa(pageSize))
	all := &api.DecommissionList{Items: []api.Decommission{}}
	for {
		page := new(api.DecommissionList)
		if err := c.do(ctx, call{method: http.MethodGet, path: at("decommissions"), query: q, patience: waitPatience}, page); err != nil {
			return nil, err
		}
		all.Frozen, all.Batch = page.Frozen, page.Batch
		if all.Items = append(all.Items, page.Items...); page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Decommission returns one run in its present state.
func (c *Client) Decommission(ctx context.Context, id string) (*api.DecommissionDetail, error) {
	out := new(api.DecommissionDetail)
	return out, c.do(ctx, call{method: http.MethodGet, path: at("decommissions", id), patience: waitPatience}, out)
}

// StartDecommission begins a turnover.
func (c *Client) StartDecommission(ctx context.Context, node string, s api.DecommissionStart) (*api.Decommission, error) {
	return begin[api.Decommission](ctx, c, at("nodes", node, "decommission"), s)
}

// PlanDecommission says what a turnover would do, and to which tenants.
func (c *Client) PlanDecommission(ctx context.Context, node string, s api.DecommissionStart) (*api.DecommissionPlan, error) {
	out := new(api.DecommissionPlan)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("nodes", node, "decommission", "plan"), body: s, repeat: true}, out)
}

// StartDecommissionBatch begins all turnovers of a list, or none.
func (c *Client) StartDecommissionBatch(ctx context.Context, b api.DecommissionBatch) (*api.DecommissionBatchStarted, error) {
	return begin[api.DecommissionBatchStarted](ctx, c, at("decommissions", "batch"), b)
}

// PlanDecommissionBatch says what a batch would do, and to which tenants.
func (c *Client) PlanDecommissionBatch(ctx context.Context, b api.DecommissionBatch) (*api.DecommissionBatchPlan, error) {
	out := new(api.DecommissionBatchPlan)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("decommissions", "plan"), body: b, repeat: true}, out)
}

// RetryDecommissionBatch retries the failed runs of a batch.
func (c *Client) RetryDecommissionBatch(ctx context.Context, batch, reason string) (*api.DecommissionBatchRetried, error) {
	return submit[api.DecommissionBatchRetried](ctx, c, http.MethodPost, at("decommissions", "batch", batch, "retry"),
		api.ReasonBody{Reason: reason})
}

// StartStorageCleanup begins a cleanup of a node's storage.
func (c *Client) StartStorageCleanup(ctx context.Context, node string, s api.StorageCleanupStart) (*api.Decommission, error) {
	return begin[api.Decommission](ctx, c, at("nodes", node, "storage-cleanup"), s)
}

// PlanStorageCleanup says what a cleanup would do, and to which tenants.
func (c *Client) PlanStorageCleanup(ctx context.Context, node string, s api.StorageCleanupStart) (*api.DecommissionPlan, error) {
	out := new(api.DecommissionPlan)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("nodes", node, "storage-cleanup", "plan"), body: s, repeat: true}, out)
}

// ActOnDecommission performs an operator's action on a run. Every action is idempotent, so the
// client repeats the request after a lost answer.
func (c *Client) ActOnDecommission(ctx context.Context, id, action string, order api.RunOrder) (*api.Decommission, error) {
	out := new(api.Decommission)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("decommissions", id, action), body: order, repeat: true}, out)
}

// AcceptDowngrade accepts a downgrade of a disk of a turnover. A repeated request is answered with
// the acceptance on record.
func (c *Client) AcceptDowngrade(ctx context.Context, id string, d api.DowngradeAccept) (*api.DowngradeAccepted, error) {
	out := new(api.DowngradeAccepted)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("decommissions", id, "accept-downgrade"), body: d, repeat: true}, out)
}

// CleanCertificates lists clean certificates, newest first. An empty node means all nodes.
func (c *Client) CleanCertificates(ctx context.Context, node string) (*api.CleanCertificateList, error) {
	q := query("node_id", node)
	all := &api.CleanCertificateList{Items: []api.CleanCertificate{}}
	for {
		page := new(api.CleanCertificateList)
		if err := c.do(ctx, call{method: http.MethodGet, path: at("certificates"), query: q}, page); err != nil {
			return nil, err
		}
		all.Standing = page.Standing
		if all.Items = append(all.Items, page.Items...); page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// CleanCertificate returns one certificate with its file.
func (c *Client) CleanCertificate(ctx context.Context, id string) (*api.CleanCertificate, error) {
	out := new(api.CleanCertificate)
	return out, c.do(ctx, call{method: http.MethodGet, path: at("certificates", id)}, out)
}

// Receipt makes the broker sign the tenant's version of a certificate.
func (c *Client) Receipt(ctx context.Context, id string) (*api.CleanCertificate, error) {
	out := new(api.CleanCertificate)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("certificates", id, "receipt"), repeat: true}, out)
}

// TurnoverFigures returns how much time turnovers cost.
func (c *Client) TurnoverFigures(ctx context.Context, site string, since time.Time) (*api.TurnoverFigures, error) {
	return fetch[api.TurnoverFigures](ctx, c, at("decommissions", "figures"), query("site", site, "since", timestamp(since)))
}

// Attest records a person's statement about a device that no longer runs.
func (c *Client) Attest(ctx context.Context, ref string, a api.AttestationPut) (*api.Attestation, error) {
	return submit[api.Attestation](ctx, c, http.MethodPost, at("nodes", ref, "attestations"), a)
}

// Attestation returns a person's statement, with its file.
func (c *Client) Attestation(ctx context.Context, id string) (*api.Attestation, error) {
	return fetch[api.Attestation](ctx, c, at("attestations", id), nil)
}
