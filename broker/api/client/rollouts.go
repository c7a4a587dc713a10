package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/hostler/hostler/broker/api"
)

// StartRollout begins a rollout.
func (c *Client) StartRollout(ctx context.Context, s api.RolloutStart) (*api.Rollout, error) {
	return begin[api.Rollout](ctx, c, at("rollouts"), s)
}

// Rollouts lists rollouts, in the order of their start.
func (c *Client) Rollouts(ctx context.Context, f RunFilter) (*api.RolloutList, error) {
	q := query("site", f.Site, "status", f.Status, "limit", strconv.Itoa(pageSize))
	all := &api.RolloutList{Items: []api.Rollout{}}
	for {
		page := new(api.RolloutList)
		if err := c.do(ctx, call{method: http.MethodGet, path: at("rollouts"), query: q, patience: waitPatience}, page); err != nil {
			return nil, err
		}
		all.Standing = page.Standing
		if all.Items = append(all.Items, page.Items...); page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Rollout returns a rollout in its present state; with brief, without its nodes.
func (c *Client) Rollout(ctx context.Context, id string, brief bool) (*api.RolloutDetail, error) {
	q := query()
	if brief {
		q.Set("brief", "true")
	}
	out := new(api.RolloutDetail)
	return out, c.do(ctx, call{method: http.MethodGet, path: at("rollouts", id), query: q, patience: waitPatience}, out)
}

// ActOnRollout pauses, resumes or aborts a rollout. Every action is idempotent, so the client
// repeats the request after a lost answer.
func (c *Client) ActOnRollout(ctx context.Context, id, action string, o api.RolloutOrder) (*api.Rollout, error) {
	out := new(api.Rollout)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("rollouts", id, action), body: o, repeat: true}, out)
}
