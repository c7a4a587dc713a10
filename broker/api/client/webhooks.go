package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hostler/hostler/broker/api"
)

// Webhooks lists a project's webhooks.
func (c *Client) Webhooks(ctx context.Context, project string) (all []api.Webhook, err error) {
	all = []api.Webhook{}
	err = eachPage(ctx, c, at("projects", project, "webhooks"), url.Values{}, func(l *api.WebhookList) string {
		all = append(all, l.Items...)
		return l.Next
	})
	return all, err
}

// Webhook returns a webhook of a project.
func (c *Client) Webhook(ctx context.Context, project, id string) (*api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, at("projects", project, "webhooks", id), nil)
}

// CreateWebhook registers an endpoint of a project. The answer has the signing secret, which is
// shown once.
func (c *Client) CreateWebhook(ctx context.Context, project string, w api.WebhookCreate) (*api.WebhookSecret, error) {
	return submit[api.WebhookSecret](ctx, c, http.MethodPost, at("projects", project, "webhooks"), w)
}

// DeleteWebhook deletes a webhook and its secret.
func (c *Client) DeleteWebhook(ctx context.Context, project, id, reason string) (*api.Webhook, error) {
	return remove[api.Webhook](ctx, c, at("projects", project, "webhooks", id), reason)
}

// TestWebhook sends a test to a webhook's endpoint and waits for the outcome.
func (c *Client) TestWebhook(ctx context.Context, project, id string) (*api.WebhookTried, error) {
	return submit[api.WebhookTried](ctx, c, http.MethodPost, at("projects", project, "webhooks", id, "test"), nil)
}

// EnableWebhook lets a webhook go on at once with the first event that its endpoint lacks.
func (c *Client) EnableWebhook(ctx context.Context, project, id, reason string) (*api.Webhook, error) {
	return submit[api.Webhook](ctx, c, http.MethodPost, at("projects", project, "webhooks", id, "enable"), api.ReasonBody{Reason: reason})
}

// RotateWebhookSecret makes a new signing secret. The one before stays valid for a day.
func (c *Client) RotateWebhookSecret(ctx context.Context, project, id, reason string) (*api.WebhookSecret, error) {
	return submit[api.WebhookSecret](ctx, c, http.MethodPost, at("projects", project, "webhooks", id, "rotate-secret"), api.ReasonBody{Reason: reason})
}
