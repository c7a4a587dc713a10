package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/hostler/hostler/broker/api"
)

// AgentLifecycle returns the desired and the reported state of a node's agent.
func (c *Client) AgentLifecycle(ctx context.Context, ref string) (*api.AgentLifecycle, error) {
	return fetch[api.AgentLifecycle](ctx, c, at("nodes", ref, "agent-lifecycle"), nil)
}

// AgentLifecycles lists all nodes that have enrolled, or with drift only the nodes that are not in
// sync.
func (c *Client) AgentLifecycles(ctx context.Context, site string, drift bool) (*api.AgentLifecycleList, error) {
	q := query("site", site, "limit", strconv.Itoa(pageSize))
	if drift {
		q.Set("drift", "true")
	}
	all := &api.AgentLifecycleList{Items: []api.AgentLifecycle{}}
	for {
		page := new(api.AgentLifecycleList)
		if err := c.do(ctx, call{method: http.MethodGet, path: at("agent-lifecycle"), query: q}, page); err != nil {
			return nil, err
		}
		all.Standing, all.Counts = page.Standing, page.Counts
		if all.Items = append(all.Items, page.Items...); page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// WantAgent changes the desired state of a node's agent.
func (c *Client) WantAgent(ctx context.Context, ref string, w api.AgentWant) (*api.AgentLifecycle, error) {
	return submit[api.AgentLifecycle](ctx, c, http.MethodPut, at("nodes", ref, "agent-lifecycle"), w)
}

// StartAgentRun begins a run on a node's agent.
func (c *Client) StartAgentRun(ctx context.Context, ref string, s api.AgentLifecycleStart) (*api.AgentLifecycleRun, error) {
	return begin[api.AgentLifecycleRun](ctx, c, at("nodes", ref, "agent-lifecycle"), s)
}

// AgentRuns lists runs on agents, in the order of their start. An empty node means all nodes.
func (c *Client) AgentRuns(ctx context.Context, node string, f RunFilter) (*api.AgentLifecycleRuns, error) {
	q := query("node_id", node, "site", f.Site, "status", f.Status, "stage", f.Stage, "class", f.Class, "limit", strconv.Itoa(pageSize))
	all := &api.AgentLifecycleRuns{Items: []api.AgentLifecycleRun{}}
	for {
		page := new(api.AgentLifecycleRuns)
		if err := c.do(ctx, call{method: http.MethodGet, path: at("agent-lifecycle", "runs"), query: q, patience: waitPatience},
			page); err != nil {
			return nil, err
		}
		all.Standing = page.Standing
		if all.Items = append(all.Items, page.Items...); page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// AgentRun returns one run in its present state.
func (c *Client) AgentRun(ctx context.Context, id string) (*api.AgentLifecycleDetail, error) {
	out := new(api.AgentLifecycleDetail)
	return out, c.do(ctx, call{method: http.MethodGet, path: at("agent-lifecycle", "runs", id), patience: waitPatience}, out)
}

// ActOnAgentRun performs an operator's action on a run. Every action is idempotent, so the client
// repeats the request after a lost answer.
func (c *Client) ActOnAgentRun(ctx context.Context, id, action string, order api.RunOrder) (*api.AgentLifecycleRun, error) {
	out := new(api.AgentLifecycleRun)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("agent-lifecycle", "runs", id, action), body: order, repeat: true}, out)
}
