package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// WebhookDisabledEvent says that the broker sends nothing more to an endpoint.
const WebhookDisabledEvent = "project.webhook.disabled"

// DueWebhook is a webhook whose endpoint lacks an event, and whose time has come.
type DueWebhook struct {
	broker.Webhook
	OrganisationID string
}

const (
	dueEach = 16  // of one organisation
	dueAll  = 512 // of all
)

// DueWebhooks lists webhooks that are due: of each organisation those that have waited longest, and
// all organisations in turn.
func (db *DB) DueWebhooks(ctx context.Context) ([]DueWebhook, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (d DueWebhook, err error) {
		return d, row.Scan(append(webhookFields(&d.Webhook), &d.OrganisationID)...)
	}, `SELECT `+webhookColumns+`, organisation_id FROM
		(SELECT w.*, p.organisation_id, ROW_NUMBER() OVER (PARTITION BY p.organisation_id ORDER BY w.next_try_at, w.id) AS nth
			FROM webhooks w JOIN projects p ON p.id = w.project_id
			WHERE w.disabled_at = 0 AND w.next_try_at <= $1 AND p.ended_at = 0 AND EXISTS (SELECT 1 FROM outbox o
				WHERE o.project_id <> '' AND o.project_id = w.project_id AND o.position > 0 AND o.position > w.position)) AS due
		WHERE nth <= $2 ORDER BY nth, next_try_at, id LIMIT $3`, sqlkit.Micros(db.Now()), dueEach, dueAll)
}

// WebhookDelivered records that an endpoint has the events up to a position. Nothing changes if the
// webhook is at another position than from by now: another broker has led meanwhile.
func (db *DB) WebhookDelivered(ctx context.Context, id string, from, to int64) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE webhooks SET position = $1, delivered_at = $2, next_try_at = $2, attempts = 0, failing_since = 0,
			code = '', trouble = '', disabled_at = 0 WHERE id = $3 AND position = $4`, to, sqlkit.Micros(t.clock()), id, from)
		return err
	})
}

// WebhookFailure is a try that failed.
type WebhookFailure struct {
	ID       string
	Position int64 // after which the event is
	Attempts int   // failed tries before this one
	Code     string
	Trouble  string
	Next     time.Time // of the next try
	Disable  bool      // there is no next try
	Waits    bool      // it was no try: the broker itself could not send
}

// WebhookFailed records a failure. Nothing changes if the webhook has moved on meanwhile, or if a person
// has enabled it since the try began.
func (db *DB) WebhookFailed(ctx context.Context, f WebhookFailure) error {
	tries := 1
	if f.Waits {
		tries = 0
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		now := sqlkit.Micros(t.clock())
		var disabled int64
		if f.Disable {
			disabled = now
		}
		n, err := sqlkit.Changed(t.ExecContext(ctx, `UPDATE webhooks SET attempts = attempts + $1, next_try_at = $2, code = $3, trouble = $4,
			failing_since = CASE WHEN failing_since = 0 AND $1 > 0 THEN $5 ELSE failing_since END, disabled_at = $6
			WHERE id = $7 AND position = $8 AND disabled_at = 0 AND attempts = $9`, tries, sqlkit.Micros(f.Next), f.Code, f.Trouble, now, disabled, f.ID, f.Position, f.Attempts))
		if err != nil || n == 0 || !f.Disable {
			return err
		}
		w, err := scanWebhook(t.QueryRowContext(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE id = $1`, f.ID))
		if err != nil {
			return err
		}
		if err := t.audit(ctx, broker.AuditEntry{
			Actor: "system", Action: "webhook.disable", Subject: "project/" + w.ProjectID, Reason: w.Trouble,
			After: small("id", w.ID, "code", w.Code, "attempts", w.Attempts),
		}); err != nil {
			return err
		}
		return t.send(ctx, told{Message: chain.Message{Type: WebhookDisabledEvent, Subject: "webhook/" + w.ID, Data: map[string]any{
			"webhook_id": w.ID, "project_id": w.ProjectID, "code": w.Code, "attempts": w.Attempts, "since": w.FailingSince.UTC(),
		}}})
	})
}

// SkipWebhook records that events up to a position were deleted before they were sent.
func (db *DB) SkipWebhook(ctx context.Context, id string, from, to int64) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE webhooks SET position = $1, missed_at = $2 WHERE id = $3 AND position = $4`, to,
			sqlkit.Micros(t.clock()), id, from)
		return err
	})
}

// CatchUpWebhooks moves the webhooks that lack no event to the newest position, so that what
// is deleted later is not taken for something that they lack.
func (db *DB) CatchUpWebhooks(ctx context.Context) error {
	newest, _, err := db.OutboxEnds(ctx)
	if err != nil {
		return err
	}
	const behind = ` FROM webhooks WHERE position < $1 AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.project_id <> ''
		AND o.project_id = webhooks.project_id AND o.position > 0 AND o.position > webhooks.position AND o.position <= $1)`
	var any bool
	if err := db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1`+behind+`)`, newest).Scan(&any); err != nil || !any {
		return err
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, forgotten, err := outboxEnds(ctx, t)
		if err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `UPDATE webhooks SET position = $1 WHERE position >= $2 AND id IN (SELECT id`+behind+`)`, newest, forgotten)
		return err
	})
}

// WebhookCounts are the webhooks of live projects by state.
type WebhookCounts struct {
	By       map[broker.WebhookState]int
	Disabled time.Time // since when the first of the disabled ones is
}

// CountWebhooks counts the webhooks of live projects.
func (db *DB) CountWebhooks(ctx context.Context) (c WebhookCounts, err error) {
	var active, failing, disabled int
	err = db.reader().QueryRowContext(ctx, `SELECT
		COALESCE(SUM(CASE WHEN w.disabled_at = 0 AND w.code = '' THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN w.disabled_at = 0 AND w.code <> '' THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN w.disabled_at > 0 THEN 1 ELSE 0 END), 0), COALESCE(MIN(NULLIF(w.disabled_at, 0)), 0)
		FROM webhooks w JOIN projects p ON p.id = w.project_id WHERE p.ended_at = 0`).Scan(&active, &failing, &disabled,
		sqlkit.ScanMicros(&c.Disabled))
	c.By = map[broker.WebhookState]int{broker.WebhookActive: active, broker.WebhookFailing: failing, broker.WebhookDisabled: disabled}
	return c, err
}
