package adminapi

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/secrets"
)

// WebhookInput names a webhook of a project.
type WebhookInput struct {
	ProjectInput
	Webhook string `path:"webhook" maxLength:"64"`
}

// webhook finds the named webhook in the named project. Codes: project_not_found, webhook_not_found.
func (a *API) webhook(ctx context.Context, in WebhookInput) (broker.Project, broker.Webhook, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return p, broker.Webhook{}, err
	}
	w, err := a.c.DB.Webhook(ctx, p.ID, in.Webhook)
	return p, w, err
}

type webhooksInput struct {
	ProjectInput
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listWebhooks(ctx context.Context, in *webhooksInput) (*api.WebhookList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	page, next, err := a.c.DB.Webhooks(ctx, p.ID, in.Cursor, pageLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	return &api.WebhookList{Items: resources(page, webhookResource), Next: next}, nil
}

func (a *API) showWebhook(ctx context.Context, in *WebhookInput) (*api.Webhook, error) {
	_, w, err := a.webhook(ctx, *in)
	return resource(webhookResource)(w, err)
}

type createWebhookInput struct {
	ProjectInput
	Body api.WebhookCreate
}

// createWebhook stores the secret before the record, so that no webhook lacks its secret. A crash
// between the two leaves a secret that nothing uses.
func (a *API) createWebhook(ctx context.Context, in *createWebhookInput) (*api.WebhookSecret, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	url, host, err := webhook.CheckURL(in.Body.URL)
	if err != nil {
		return nil, err
	}
	if err := a.c.Webhooks.CheckHost(ctx, host); err != nil {
		return nil, err
	}
	w := broker.Webhook{ID: broker.NewTenantID(broker.WebhookPrefix, a.c.Now()), ProjectID: p.ID, URL: url}
	secret, err := webhook.MakeSecret(ctx, a.c.Secrets, p.ID, w.ID)
	if err != nil {
		return nil, a.secretsAway(err, "create a webhook")
	}
	made, err := a.c.DB.CreateWebhook(withReason(ctx, in.Body.Reason), callerOf(ctx).actor(), w)
	if err != nil {
		a.dropWebhookSecret(ctx, w)
		return nil, err
	}
	return &api.WebhookSecret{Webhook: webhookResource(made), Secret: secret}, nil
}

type webhookReasonInput struct {
	WebhookInput
	Body api.ReasonBody
}

func (a *API) enableWebhook(ctx context.Context, in *webhookReasonInput) (*api.Webhook, error) {
	p, w, err := a.webhook(ctx, in.WebhookInput)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "webhook.enable", "project/"+p.ID, "enable webhook "+w.ID)
	if err != nil {
		return nil, err
	}
	return resource(webhookResource)(a.c.DB.EnableWebhook(ctx, callerOf(ctx).actor(), p.ID, w.ID, reason))
}

func (a *API) rotateWebhookSecret(ctx context.Context, in *webhookReasonInput) (*api.WebhookSecret, error) {
	p, w, err := a.webhook(ctx, in.WebhookInput)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "webhook.rotate_secret", "project/"+p.ID, "make a new secret of webhook "+w.ID)
	if err != nil {
		return nil, err
	}
	a.credentials.Lock()
	defer a.credentials.Unlock()
	// The record comes first: no secret is ever in force that the audit log does not know.
	if w, err = a.c.DB.RenewWebhookSecret(ctx, callerOf(ctx).actor(), p.ID, w.ID, reason); err != nil {
		return nil, err
	}
	secret, err := webhook.RotateSecret(ctx, a.c.Secrets, p.ID, w.ID, a.c.Now())
	if err != nil {
		return nil, a.secretsAway(err, "make a new secret")
	}
	return &api.WebhookSecret{Webhook: webhookResource(w), Secret: secret}, nil
}

type deleteWebhookInput struct {
	WebhookInput
	Reason
}

// deleteWebhook deletes the record first: without it nothing is sent, and nothing reads the secret.
func (a *API) deleteWebhook(ctx context.Context, in *deleteWebhookInput) (*api.Webhook, error) {
	p, w, err := a.webhook(ctx, in.WebhookInput)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "webhook.delete", "project/"+p.ID, "delete webhook "+w.ID)
	if err != nil {
		return nil, err
	}
	if w, err = a.c.DB.DeleteWebhook(ctx, callerOf(ctx).actor(), p.ID, w.ID, reason); err != nil {
		return nil, err
	}
	a.dropWebhookSecret(ctx, w)
	return resource(webhookResource)(w, nil)
}

func (a *API) dropWebhookSecret(ctx context.Context, w broker.Webhook) {
	if err := webhook.DropSecret(context.WithoutCancel(ctx), a.c.Secrets, w.ProjectID, w.ID); err != nil {
		a.c.Log.Warn("cannot delete the secret of a webhook that is gone", zap.String("webhook", w.ID), zap.Error(err))
	}
}

// secretsAway replaces an error of the keeper of secrets: its text has paths, and is the operator's.
func (a *API) secretsAway(err error, what string) error {
	a.c.Log.Error("cannot read or write the secret of a webhook", zap.Error(err))
	return broker.Errorf(broker.Unavailable, "webhook_secret_unavailable", "cannot %s: the broker cannot reach its secrets (try again later)", what)
}

// testWebhook sends an event of its own at once, beside the events of the project.
func (a *API) testWebhook(ctx context.Context, in *WebhookInput) (*api.WebhookTried, error) {
	p, w, err := a.webhook(ctx, *in)
	if err != nil {
		return nil, err
	}
	leave, err := a.webhookTests.join(p.OrganisationID)
	if err != nil {
		return nil, err
	}
	defer leave()
	begun := a.c.Now()
	test := api.WebhookTest{
		SpecVersion: "1.0", ID: "test-" + rand.Text(), Source: "hostler/webhooks", Type: "webhook.test", Subject: "webhook/" + w.ID,
		Time: begun.UTC(), DataContentType: "application/json", Data: api.WebhookTestData{WebhookID: w.ID, ProjectID: p.ID},
	}
	failed := a.c.Webhooks.Send(ctx, w, test.ID, test)
	out := &api.WebhookTried{WebhookID: w.ID, EventID: test.ID, Delivered: failed == nil, Seconds: a.c.Now().Sub(begun).Seconds()}
	if failed != nil {
		if secrets.Unreachable(failed) {
			failed = a.secretsAway(failed, "sign the event")
		}
		e := broker.AsError(failed)
		out.Code, out.Message = e.Code, e.Message
	}
	return out, nil
}

// webhookTests bounds the tests that are under way at this broker: one of an organisation.
type webhookTests struct {
	mu   sync.Mutex
	busy map[string]bool // organisations
}

const mostWebhookTests = 16

// join admits a test until leave is called. Code: webhook_test_busy.
func (t *webhookTests) join(organisationID string) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[organisationID] || len(t.busy) >= mostWebhookTests {
		return nil, broker.Errorf(broker.TooMany, "webhook_test_busy", "cannot test the webhook: another test is under way (try again in 10 seconds)")
	}
	if t.busy == nil {
		t.busy = map[string]bool{}
	}
	t.busy[organisationID] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.busy, organisationID)
	}, nil
}

// webhooksDisabled adds an alert if endpoints of projects get nothing any more.
func (a *API) webhooksDisabled(ctx context.Context, out *api.Status) error {
	c, err := a.c.DB.CountWebhooks(ctx)
	if err != nil || c.By[broker.WebhookDisabled] == 0 {
		return err
	}
	out.Alerts = append(out.Alerts, api.Alert{
		Code: "webhooks_disabled", Since: c.Disabled,
		Message: fmt.Sprintf("webhooks that are disabled, because their endpoints took no event for a day or want no more: %d (tell the projects of the events project.webhook.disabled: each repairs its endpoint, then runs hostler webhook enable)",
			c.By[broker.WebhookDisabled]),
	})
	return nil
}

func webhookResource(w broker.Webhook) api.Webhook {
	out := api.Webhook{
		ID: w.ID, ProjectID: w.ProjectID, URL: w.URL, State: string(w.State()), CreatedBy: w.CreatedBy, CreatedAt: w.CreatedAt,
		SecretCreatedAt: w.SecretAt, DeliveredAt: timeOrNull(w.DeliveredAt), Attempts: w.Attempts, FailingSince: timeOrNull(w.FailingSince),
		Code: w.Code, Message: w.Trouble, DisabledAt: timeOrNull(w.DisabledAt), MissedAt: timeOrNull(w.MissedAt),
	}
	if w.State() == broker.WebhookFailing {
		out.NextTryAt = timeOrNull(w.NextTryAt)
	}
	return out
}
