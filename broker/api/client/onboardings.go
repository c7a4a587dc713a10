package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/hostler/hostler/broker/api"
)

// OnboardingFilter narrows a list of onboardings.
type OnboardingFilter struct {
	RunFilter
	Hostname string
}

// Onboardings lists all onboardings that match a filter, in the order of their start, and the batch
// if the filter names a batch.
func (c *Client) Onboardings(ctx context.Context, f OnboardingFilter) (*api.OnboardingList, error) {
	q := query("site", f.Site, "status", f.Status, "stage", f.Stage, "class", f.Class, "batch_id", f.Batch, "hostname", f.Hostname,
		"limit", strconv.Itoa(pageSize))
	all := &api.OnboardingList{Items: []api.Onboarding{}}
	for {
		page := new(api.OnboardingList)
		if err := c.do(ctx, call{method: http.MethodGet, path: "/onboardings", query: q, patience: waitPatience}, page); err != nil {
			return nil, err
		}
		all.Items, all.Batch, all.Frozen = append(all.Items, page.Items...), page.Batch, page.Frozen
		if page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Onboarding returns one run in its present state. The call outlives a restart of the broker.
func (c *Client) Onboarding(ctx context.Context, id string) (*api.OnboardingDetail, error) {
	out := new(api.OnboardingDetail)
	err := c.do(ctx, call{method: http.MethodGet, path: at("onboardings", id), patience: waitPatience}, out)
	return out, err
}

// StartOnboarding begins one run.
func (c *Client) StartOnboarding(ctx context.Context, s api.OnboardingStart) (*api.Onboarding, error) {
	return begin[api.Onboarding](ctx, c, "/onboardings", s)
}

// StartOnboardingBatch begins all runs of a list, or none.
func (c *Client) StartOnboardingBatch(ctx context.Context, b api.OnboardingBatch) (*api.OnboardingBatchStarted, error) {
	return begin[api.OnboardingBatchStarted](ctx, c, "/onboardings/batch", b)
}

// PlanOnboarding says what runs would do.
func (c *Client) PlanOnboarding(ctx context.Context, b api.OnboardingBatch) (*api.OnboardingPlan, error) {
	out := new(api.OnboardingPlan)
	return out, c.do(ctx, call{method: http.MethodPost, path: "/onboardings/plan", body: b, repeat: true}, out)
}

// StartAdoption begins one run for a machine that is deployed already.
func (c *Client) StartAdoption(ctx context.Context, s api.AdoptionStart) (*api.Onboarding, error) {
	return begin[api.Onboarding](ctx, c, "/adoptions", s)
}

// StartAdoptionBatch begins all runs of a list, or none.
func (c *Client) StartAdoptionBatch(ctx context.Context, b api.AdoptionBatch) (*api.OnboardingBatchStarted, error) {
	return begin[api.OnboardingBatchStarted](ctx, c, "/adoptions/batch", b)
}

// PlanAdoption says what adoptions would do.
func (c *Client) PlanAdoption(ctx context.Context, b api.AdoptionBatch) (*api.OnboardingPlan, error) {
	out := new(api.OnboardingPlan)
	return out, c.do(ctx, call{method: http.MethodPost, path: "/adoptions/plan", body: b, repeat: true}, out)
}

// ActOnOnboarding performs an operator's action on a run. Every action is idempotent, so the client
// repeats the request after a lost answer.
func (c *Client) ActOnOnboarding(ctx context.Context, id, action string, order api.RunOrder) (*api.Onboarding, error) {
	out := new(api.Onboarding)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("onboardings", id, action), body: order, repeat: true}, out)
}

// RetryOnboardingBatch retries the failed runs of a batch.
func (c *Client) RetryOnboardingBatch(ctx context.Context, batch, reason string) (*api.OnboardingBatchRetried, error) {
	return submit[api.OnboardingBatchRetried](ctx, c, http.MethodPost, at("onboardings", "batch", batch, "retry"),
		api.ReasonBody{Reason: reason})
}
