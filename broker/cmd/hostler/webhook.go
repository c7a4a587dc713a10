package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func webhookCommand(a *app) *cobra.Command {
	return noun("webhook", "endpoints that get a project's events", "  hostler webhook list acme/lab",
		webhookCreateCommand(a), webhookListCommand(a), webhookShowCommand(a), webhookTestCommand(a), webhookEnableCommand(a),
		webhookRotateCommand(a), webhookDeleteCommand(a))
}

func webhookCreateCommand(a *app) *cobra.Command {
	var w api.WebhookCreate
	c := &cobra.Command{
		Use: "create PROJECT URL", Short: "register an endpoint for a project's events, and print its signing secret once",
		Args: exactly("PROJECT", "URL"),
		Long: `Register an HTTPS endpoint that gets the events of a project, from now on: the same as
hostler events of the project. The only line on stdout is the signing secret, which is
shown once. Redirect it to a file that its owner alone can read (umask 077).

An event is a signed POST as Standard Webhooks has it. The endpoint checks that
webhook-signature has "v1," and the base64 of the HMAC-SHA256 of
  WEBHOOK-ID.WEBHOOK-TIMESTAMP.BODY
with the key that follows whsec_ in base64, that the timestamp is not older than five
minutes, and that it has not seen this webhook-id. It answers 200 to 299 within ten
seconds. docs/how-to/webhooks.md has the code.

The URL must be https://, without user, password and query, and its host must have
public addresses alone, or addresses that the broker's config allows.`,
		Example: "  hostler webhook create acme/lab https://ci.acme.example/hostler > webhook.secret",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			w.URL = args[1]
			made, err := remote.CreateWebhook(c.Context(), args[0], w)
			if err != nil {
				return err
			}
			a.note("webhook %s is registered; its signing secret is shown only once (try it: hostler webhook test %s %s)", made.Webhook.ID, args[0],
				made.Webhook.ID)
			return a.showWebhookSecret(made)
		},
	}
	reasonFlag(c, &w.Reason)
	return c
}

func (a *app) showWebhookSecret(made *api.WebhookSecret) error {
	if a.output == "json" || a.output == "yaml" {
		return a.show(made, nil, nil)
	}
	return a.print(strings.NewReader(made.Secret + "\n"))
}

func webhookListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list PROJECT", Short: "list a project's webhooks, with those that fail", Args: exactly("PROJECT"),
		Example: "  hostler webhook list acme/lab",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			all, err := remote.Webhooks(c.Context(), args[0])
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, w := range all {
				delivered := "never"
				if w.DeliveredAt != nil {
					delivered = render.Ago(*w.DeliveredAt, a.now())
				}
				names = append(names, w.ID)
				rows = append(rows, []string{w.ID, w.URL, w.State, delivered, w.Message})
			}
			return a.show(api.WebhookList{Items: all}, names, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("ID"), render.Main("URL"), render.Keep("STATE"), render.Aside("DELIVERED"), render.Keep("PROBLEM"),
				}, rows)
				if len(rows) == 0 {
					a.note("no webhooks (register one: hostler webhook create)")
				}
			})
		},
	}
}

func webhookShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show PROJECT WEBHOOK", Short: "show a webhook, and why it fails", Args: exactly("PROJECT", "WEBHOOK"),
		Example: "  hostler webhook show acme/lab whk-019c4e6b3a2n5p7r9t1v3x",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			w, err := remote.Webhook(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return a.showWebhook(w)
		},
	}
}

func (a *app) showWebhook(w *api.Webhook) error {
	return a.show(w, []string{w.ID}, func(p *render.Page) {
		p.Fields("id", w.ID, "project", w.ProjectID, "url", w.URL, "state", w.State, "code", w.Code, "problem", w.Message,
			"delivered", ifReached(a, w.DeliveredAt), "failed tries", count(int64(w.Attempts)), "failing since", ifReached(a, w.FailingSince),
			"next try", ifReached(a, w.NextTryAt), "disabled", ifReached(a, w.DisabledAt), "events missed", ifReached(a, w.MissedAt),
			"created", moment(a, w.CreatedAt), "created by", w.CreatedBy, "secret made", moment(a, w.SecretCreatedAt))
		if w.State == string(broker.WebhookDisabled) {
			a.note("nothing is sent until the webhook is enabled (hostler webhook enable %s %s --reason R)", w.ProjectID, w.ID)
		}
	})
}

func webhookTestCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "test PROJECT WEBHOOK", Short: "send a test to a webhook's endpoint", Args: exactly("PROJECT", "WEBHOOK"),
		Long: `Send an event of type webhook.test to the endpoint at once, signed like any other, and
say whether the endpoint took it. The test changes nothing in the webhook.`,
		Example: "  hostler webhook test acme/lab whk-019c4e6b3a2n5p7r9t1v3x",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			tried, err := remote.TestWebhook(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if !tried.Delivered {
				return broker.Errorf(broker.Unavailable, tried.Code, "%s", tried.Message)
			}
			a.note("the endpoint took the test %s", tried.EventID)
			return a.show(tried, []string{tried.WebhookID}, func(*render.Page) {})
		},
	}
}

func webhookEnableCommand(a *app) *cobra.Command {
	return webhookReasonCommand(webhookAction{
		use: "enable", short: "let a disabled webhook go on",
		long: `Let a webhook go on at once with the first event that its endpoint lacks. A webhook is
disabled when its endpoint did not take an event for a day, or answered 410.`,
		reason: "endpoint repaired",
	}, func(c *cobra.Command, args []string, reason string) error {
		remote, err := a.connect()
		if err != nil {
			return err
		}
		w, err := remote.EnableWebhook(c.Context(), args[0], args[1], reason)
		if err != nil {
			return err
		}
		return a.showWebhook(w)
	})
}

func webhookRotateCommand(a *app) *cobra.Command {
	return webhookReasonCommand(webhookAction{
		use: "rotate-secret", short: "make a new signing secret of a webhook, and print it once",
		long: `Make a new signing secret, and print it: the only line on stdout, shown once. For a day
each request has two signatures, one of the new secret and one of the secret before, so
that the endpoint can change over. After a second rotation within the day the first
secret is not valid any more.`,
		reason: "yearly",
	}, func(c *cobra.Command, args []string, reason string) error {
		remote, err := a.connect()
		if err != nil {
			return err
		}
		made, err := remote.RotateWebhookSecret(c.Context(), args[0], args[1], reason)
		if err != nil {
			return err
		}
		a.note("webhook %s has a new signing secret, which is shown only once; the secret before is valid for 24 hours", made.Webhook.ID)
		return a.showWebhookSecret(made)
	})
}

func webhookDeleteCommand(a *app) *cobra.Command {
	c := webhookReasonCommand(webhookAction{
		use: "delete", short: "delete a webhook and its secret", long: `Delete a webhook and its secret. Nothing more is sent to its endpoint.`,
		reason: "endpoint gone", flags: " --yes",
	}, func(c *cobra.Command, args []string, reason string) error {
		if err := a.confirm(c, "delete webhook %s of project %s?", args[1], args[0]); err != nil {
			return err
		}
		remote, err := a.connect()
		if err != nil {
			return err
		}
		w, err := remote.DeleteWebhook(c.Context(), args[0], args[1], reason)
		if err != nil {
			return err
		}
		return a.showWebhook(w)
	})
	yesFlag(c)
	return c
}

// webhookAction describes a command that changes a webhook, with a reason.
type webhookAction struct{ use, short, long, reason, flags string }

func webhookReasonCommand(d webhookAction, run func(c *cobra.Command, args []string, reason string) error) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: d.use + " PROJECT WEBHOOK --reason R", Short: d.short, Long: d.long, Args: exactly("PROJECT", "WEBHOOK"),
		Example: "  hostler webhook " + d.use + " acme/lab whk-019c4e6b3a2n5p7r9t1v3x --reason '" + d.reason + "'" + d.flags,
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			return run(c, args, reason)
		},
	}
	reasonFlag(c, &reason)
	return c
}
