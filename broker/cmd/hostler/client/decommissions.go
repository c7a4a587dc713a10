package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker/adminapi/resource"
)

// DecommissionFilter narrows a list of turnovers; empty fields narrow nothing.
type DecommissionFilter struct {
	RunFilter
	Node, Mode string
}

// Decommissions lists all turnovers that a filter means, in the order of their start,
// and the batch if one is asked for.
func (c *Client) Decommissions(ctx context.Context, f DecommissionFilter) (*resource.DecommissionList, error) {
	q := query("node_id", f.Node, "site", f.Site, "mode", f.Mode, "status", f.Status, "stage", f.Stage, "class", f.Class, "batch_id", f.Batch, "limit", strconv.Itoa(pageSize))
	all := &resource.DecommissionList{Items: []resource.Decommission{}}
	for {
		page := new(resource.DecommissionList)
		if err := c.do(ctx, call{method: http.MethodGet, path: at("decommissions"), query: q, patience: waitPatience}, page); err != nil {
			return nil, err
		}
		all.Frozen, all.Batch = page.Frozen, page.Batch
		if all.Items = append(all.Items, page.Items...); page.NextCursor == "" {
			return all, nil
		}
		q.Set("cursor", page.NextCursor)
	}
}

// Decommission is one run as it stands.
func (c *Client) Decommission(ctx context.Context, id string) (*resource.DecommissionDetail, error) {
	out := new(resource.DecommissionDetail)
	return out, c.do(ctx, call{method: http.MethodGet, path: at("decommissions", id), patience: waitPatience}, out)
}

// StartDecommission begins a turnover.
func (c *Client) StartDecommission(ctx context.Context, node string, s resource.DecommissionStart) (*resource.Decommission, error) {
	return begin[resource.Decommission](ctx, c, at("nodes", node, "decommission"), s)
}

// PlanDecommission says what a turnover would do, and to whom.
func (c *Client) PlanDecommission(ctx context.Context, node string, s resource.DecommissionStart) (*resource.DecommissionPlan, error) {
	out := new(resource.DecommissionPlan)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("nodes", node, "decommission", "plan"), body: s, repeat: true}, out)
}

// StartDecommissionBatch begins all turnovers of a list, or none.
func (c *Client) StartDecommissionBatch(ctx context.Context, b resource.DecommissionBatch) (*resource.DecommissionBatchStarted, error) {
	return begin[resource.DecommissionBatchStarted](ctx, c, at("decommissions", "batch"), b)
}

// PlanDecommissionBatch says what a batch would do, and to whom.
func (c *Client) PlanDecommissionBatch(ctx context.Context, b resource.DecommissionBatch) (*resource.DecommissionBatchPlan, error) {
	out := new(resource.DecommissionBatchPlan)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("decommissions", "plan"), body: b, repeat: true}, out)
}

// RetryDecommissionBatch tries again what failed of a batch.
func (c *Client) RetryDecommissionBatch(ctx context.Context, batch, reason string) (*resource.DecommissionBatchRetried, error) {
	return submit[resource.DecommissionBatchRetried](ctx, c, http.MethodPost, at("decommissions", "batch", batch, "retry"), resource.ReasonBody{Reason: reason})
}

// StartStorageCleanup begins a cleanup of a node's storage.
func (c *Client) StartStorageCleanup(ctx context.Context, node string, s resource.StorageCleanupStart) (*resource.Decommission, error) {
	return begin[resource.Decommission](ctx, c, at("nodes", node, "storage-cleanup"), s)
}

// PlanStorageCleanup says what a cleanup would do, and to whom.
func (c *Client) PlanStorageCleanup(ctx context.Context, node string, s resource.StorageCleanupStart) (*resource.DecommissionPlan, error) {
	out := new(resource.DecommissionPlan)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("nodes", node, "storage-cleanup", "plan"), body: s, repeat: true}, out)
}

// ActOnDecommission does an operator's action. Each is idempotent, so it is asked
// again where an answer was lost.
func (c *Client) ActOnDecommission(ctx context.Context, id, action string, order resource.RunOrder) (*resource.Decommission, error) {
	out := new(resource.Decommission)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("decommissions", id, action), body: order, repeat: true}, out)
}

// AcceptDowngrade accepts what was done to a disk of a turnover. Asked again, it is
// answered with the word that stands.
func (c *Client) AcceptDowngrade(ctx context.Context, id string, d resource.DowngradeAccept) (*resource.DowngradeAccepted, error) {
	out := new(resource.DowngradeAccepted)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("decommissions", id, "accept-downgrade"), body: d, repeat: true}, out)
}

// CleanCertificates lists clean certificates, newest first; of all nodes where none
// is named.
func (c *Client) CleanCertificates(ctx context.Context, node string) (*resource.CleanCertificateList, error) {
	q := query("node_id", node)
	all := &resource.CleanCertificateList{Items: []resource.CleanCertificate{}}
	for {
		page := new(resource.CleanCertificateList)
		if err := c.do(ctx, call{method: http.MethodGet, path: at("certificates"), query: q}, page); err != nil {
			return nil, err
		}
		if all.Items = append(all.Items, page.Items...); page.NextCursor == "" {
			return all, nil
		}
		q.Set("cursor", page.NextCursor)
	}
}

// CleanCertificate is one with its file.
func (c *Client) CleanCertificate(ctx context.Context, id string) (*resource.CleanCertificate, error) {
	out := new(resource.CleanCertificate)
	return out, c.do(ctx, call{method: http.MethodGet, path: at("certificates", id)}, out)
}

// Receipt has the tenant's version of a certificate signed.
func (c *Client) Receipt(ctx context.Context, id string) (*resource.CleanCertificate, error) {
	out := new(resource.CleanCertificate)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("certificates", id, "receipt"), repeat: true}, out)
}

// TurnoverFigures are what turnovers cost.
func (c *Client) TurnoverFigures(ctx context.Context, site string, since time.Time) (*resource.TurnoverFigures, error) {
	return fetch[resource.TurnoverFigures](ctx, c, at("decommissions", "figures"), query("site", site, "since", timestamp(since)))
}

// Attest records a person's word for a part that no longer runs.
func (c *Client) Attest(ctx context.Context, ref string, a resource.AttestationPut) (*resource.Attestation, error) {
	return submit[resource.Attestation](ctx, c, http.MethodPost, at("nodes", ref, "attestations"), a)
}

// Attestation is a person's word, with its file.
func (c *Client) Attestation(ctx context.Context, id string) (*resource.Attestation, error) {
	return fetch[resource.Attestation](ctx, c, at("attestations", id), nil)
}
