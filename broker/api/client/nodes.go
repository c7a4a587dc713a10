package client

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/api"
)

// pageSize is the number of rows per request.
const pageSize = 200

// NodeFilter narrows a list of nodes; empty fields narrow nothing.
type NodeFilter struct {
	Site, Status, Hostname, SKU, Serial, Tenant string
	UpdatedSince                                time.Time
	Availability                                string // one or more words, separated by commas
	Labels                                      map[string]string
	Limit                                       int // 0: all
}

// Nodes lists all nodes that match a filter.
func (c *Client) Nodes(ctx context.Context, f NodeFilter) (*api.NodeList, error) {
	q := query("site", f.Site, "status", f.Status, "availability", f.Availability, "hostname", f.Hostname, "sku", f.SKU, "serial", f.Serial, "tenant", f.Tenant,
		"updated_since", timestamp(f.UpdatedSince))
	for k, v := range f.Labels {
		q.Add("label", k+"="+v)
	}
	all := &api.NodeList{Items: []api.Node{}}
	for {
		q.Set("limit", strconv.Itoa(nextPage(f.Limit, len(all.Items))))
		page, err := fetch[api.NodeList](ctx, c, "/nodes", q)
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

// Find lists what a word names: a serial number, MAC, UUID, MAAS id, hostname, IP address or id.
func (c *Client) Find(ctx context.Context, word string) (*api.FoundList, error) {
	return fetch[api.FoundList](ctx, c, "/find", query("q", word))
}

// Node finds one node by a NODE reference, or by another word that names only this node.
func (c *Client) Node(ctx context.Context, ref string) (*api.Node, error) {
	return fetch[api.Node](ctx, c, at("nodes", ref), nil)
}

// CreateNode makes a node record and an enrolment token.
func (c *Client) CreateNode(ctx context.Context, n api.NodeCreate) (*api.NodeBootstrap, error) {
	return submit[api.NodeBootstrap](ctx, c, http.MethodPost, "/nodes", n)
}

// SetLabels replaces the named labels.
func (c *Client) SetLabels(ctx context.Context, ref string, l api.Labels) (*api.Node, error) {
	return submit[api.Node](ctx, c, http.MethodPut, at("nodes", ref, "labels"), l)
}

// PlaceNode changes where a node stands. Parts that are nil stay.
func (c *Client) PlaceNode(ctx context.Context, ref string, p api.NodePlaceChange) (*api.Node, error) {
	return submit[api.Node](ctx, c, http.MethodPatch, at("nodes", ref, "place"), p)
}

// PlaceNodes changes where many nodes stand: all, or none.
func (c *Client) PlaceNodes(ctx context.Context, p api.NodePlaces) (*api.NodePlacesResult, error) {
	return submit[api.NodePlacesResult](ctx, c, http.MethodPut, at("node-places"), p)
}

// Act asks for a change of status: drain, resume, quarantine, activate,
// retire or remove.
func (c *Client) Act(ctx context.Context, ref, action string, a api.NodeAction) (*api.NodeActionResult, error) {
	return submit[api.NodeActionResult](ctx, c, http.MethodPost, at("nodes", ref, "actions", action), a)
}

// Timeline returns the history of a node, oldest first: the newest limit events, or with since up
// to limit events from that time on, fetched in pages.
func (c *Client) Timeline(ctx context.Context, ref string, since time.Time, limit int) (*api.Timeline, error) {
	const page = 1000
	all, err := fetch[api.Timeline](ctx, c, at("nodes", ref, "timeline"),
		query("since", timestamp(since), "limit", strconv.Itoa(min(limit, page))))
	for err == nil && all.Next != "" && len(all.Items) < limit {
		var more *api.Timeline
		more, err = fetch[api.Timeline](ctx, c, at("nodes", ref, "timeline"),
			query("cursor", all.Next, "limit", strconv.Itoa(min(limit-len(all.Items), page))))
		if err == nil {
			all.Items, all.Next = append(all.Items, more.Items...), more.Next
		}
	}
	return all, err
}

// Facts returns the facts that a node reports about itself.
func (c *Client) Facts(ctx context.Context, ref string) (*api.NodeFacts, error) {
	return fetch[api.NodeFacts](ctx, c, at("nodes", ref, "facts"), nil)
}

// SetCredentials stores the secrets that tasks of a node may mint.
func (c *Client) SetCredentials(ctx context.Context, ref string, s api.NodeCredentials) (*api.NodeCredentialsSet, error) {
	return submit[api.NodeCredentialsSet](ctx, c, http.MethodPut, at("nodes", ref, "credentials"), s)
}

// IssueToken makes a new enrolment token for an existing node.
func (c *Client) IssueToken(ctx context.Context, ref string, r api.TokenRequest) (*api.NodeBootstrap, error) {
	return submit[api.NodeBootstrap](ctx, c, http.MethodPost, at("nodes", ref, "token"), r)
}

// ExtendToken gives the token in a node's user-data more time.
func (c *Client) ExtendToken(ctx context.Context, ref string, r api.TokenRequest) (*api.EnrollToken, error) {
	return submit[api.EnrollToken](ctx, c, http.MethodPost, at("nodes", ref, "token", "extend"), r)
}

// Baseline returns the baseline that a node is compared with.
func (c *Client) Baseline(ctx context.Context, ref string) (*api.Baseline, error) {
	return fetch[api.Baseline](ctx, c, at("nodes", ref, "baseline"), nil)
}

// Devices lists a node's expected and reported parts.
func (c *Client) Devices(ctx context.Context, ref string) (*api.NodeDeviceList, error) {
	return fetch[api.NodeDeviceList](ctx, c, at("nodes", ref, "devices"), nil)
}

// AcceptDevices accepts that parts were replaced.
func (c *Client) AcceptDevices(ctx context.Context, ref string, d api.DeviceAccept) (*api.NodeDeviceList, error) {
	return submit[api.NodeDeviceList](ctx, c, http.MethodPost, at("nodes", ref, "devices", "accept"), d)
}

// NodeCertificates lists the certificates that identify a node.
func (c *Client) NodeCertificates(ctx context.Context, ref string) (*api.NodeCertificateList, error) {
	return fetch[api.NodeCertificateList](ctx, c, at("nodes", ref, "certificates"), nil)
}

// DenyNodeCertificate makes the brokers refuse one certificate of a node from now on.
func (c *Client) DenyNodeCertificate(ctx context.Context, ref, serial, reason string) (*api.NodeCertificateList, error) {
	return submit[api.NodeCertificateList](ctx, c, http.MethodPost, at("nodes", ref, "certificates", serial, "deny"),
		api.ReasonBody{Reason: reason})
}

// BaselineDiff compares the baseline in force with the newest candidate.
func (c *Client) BaselineDiff(ctx context.Context, ref string) (*api.BaselineDiff, error) {
	return fetch[api.BaselineDiff](ctx, c, at("nodes", ref, "baseline", "diff"), nil)
}

// AcceptBaseline puts the named candidate in force.
func (c *Client) AcceptBaseline(ctx context.Context, ref string, a api.BaselineAccept) (*api.Baseline, error) {
	return submit[api.Baseline](ctx, c, http.MethodPost, at("nodes", ref, "baseline", "accept"), a)
}

// RetakeBaseline asks the node for a new candidate.
func (c *Client) RetakeBaseline(ctx context.Context, ref, reason string) (*api.Task, error) {
	return submit[api.Task](ctx, c, http.MethodPost, at("nodes", ref, "baseline", "retake"), api.ReasonBody{Reason: reason})
}

// CleanPolicy lists what a site accepts in addition to the baseline.
func (c *Client) CleanPolicy(ctx context.Context, site string) (*api.CleanPolicy, error) {
	return fetch[api.CleanPolicy](ctx, c, "/clean-policy", query("site", site))
}

// SetCleanPolicy replaces a site's policy.
func (c *Client) SetCleanPolicy(ctx context.Context, p api.CleanPolicyPut) (*api.CleanPolicy, error) {
	return submit[api.CleanPolicy](ctx, c, http.MethodPut, "/clean-policy", p)
}

// Labels reads key=value pairs; an empty value removes a label.
func Labels(pairs []string) (map[string]string, bool) {
	labels := map[string]string{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, false
		}
		labels[k] = v
	}
	return labels, true
}
