package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// MaxWebhooks is how many webhooks a project may have.
const MaxWebhooks = 5

const webhookColumns = `id, project_id, url, created_by, created_at, secret_at, position, delivered_at, attempts, failing_since, next_try_at,
	code, trouble, disabled_at, missed_at`

func scanWebhook(row sqlkit.Row) (w broker.Webhook, err error) {
	err = row.Scan(webhookFields(&w)...)
	return w, err
}

func webhookFields(w *broker.Webhook) []any {
	return []any{
		&w.ID, &w.ProjectID, &w.URL, &w.CreatedBy, sqlkit.ScanMicros(&w.CreatedAt), sqlkit.ScanMicros(&w.SecretAt), &w.Position,
		sqlkit.ScanMicros(&w.DeliveredAt), &w.Attempts, sqlkit.ScanMicros(&w.FailingSince), sqlkit.ScanMicros(&w.NextTryAt), &w.Code,
		&w.Trouble, sqlkit.ScanMicros(&w.DisabledAt), sqlkit.ScanMicros(&w.MissedAt),
	}
}

// Webhooks returns a page of a project's webhooks, and the cursor of the next page.
func (db *DB) Webhooks(ctx context.Context, projectID, after string, limit int) ([]broker.Webhook, string, error) {
	var w sqlkit.Where
	w.Add("project_id = ?", projectID)
	if after != "" {
		w.Add("id > ?", after)
	}
	return pageOf(ctx, db, scanWebhook, func(w broker.Webhook) string { return w.ID }, `SELECT `+webhookColumns+` FROM webhooks`, w, limit)
}

// Webhook finds a webhook of a project. One of another project is answered like one that never was.
// Code: webhook_not_found.
func (db *DB) Webhook(ctx context.Context, projectID, id string) (broker.Webhook, error) {
	return webhook(ctx, db.reader(), projectID, id, "")
}

func webhook(ctx context.Context, r sqlkit.Runner, projectID, id, lock string) (broker.Webhook, error) {
	w, err := scanWebhook(r.QueryRowContext(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE project_id = $1 AND id = $2`+lock,
		projectID, id))
	if errors.Is(err, sql.ErrNoRows) {
		return w, broker.Errorf(broker.NotFound, "webhook_not_found", "the project has no webhook %q (see hostler webhook list)",
			taskcatalog.Clean(id, 64))
	}
	return w, err
}

// CreateWebhook stores a webhook of a live project. It gets the events from now on. Codes:
// project_not_found, project_ended, webhook_limit.
func (db *DB) CreateWebhook(ctx context.Context, actor broker.Actor, w broker.Webhook) (made broker.Webhook, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		p, err := t.liveProject(ctx, w.ProjectID, t.ForUpdate()) // one after another, so that the count holds
		if err != nil {
			return err
		}
		var there int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM webhooks WHERE project_id = $1`, p.ID).Scan(&there); err != nil {
			return err
		}
		if there >= MaxWebhooks {
			return broker.Errorf(broker.Refused, "webhook_limit", "cannot create a webhook of project %s: the project has %d (delete one first)",
				p.Name, there)
		}
		newest, _, err := outboxEnds(ctx, t)
		if err != nil {
			return err
		}
		now := sqlkit.Micros(t.now)
		made, err = scanWebhook(t.QueryRowContext(ctx, `INSERT INTO webhooks (id, project_id, url, created_by, created_at, secret_at, position)
			VALUES ($1, $2, $3, $4, $5, $5, $6) RETURNING `+webhookColumns, w.ID, p.ID, w.URL, actor.Name, now, newest))
		if err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "webhook.create", Subject: "project/" + p.ID, After: small("id", w.ID, "url", w.URL),
		})
	})
	return made, err
}

// changeWebhook changes a webhook of a project, audited.
func (db *DB) changeWebhook(
	ctx context.Context, actor broker.Actor, action, projectID, id, reason string, change func(context.Context, *tx, broker.Webhook) error,
) (w broker.Webhook, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := webhook(ctx, t, projectID, id, t.ForUpdate())
		if err != nil {
			return err
		}
		if err := change(ctx, t, before); err != nil {
			return err
		}
		switch w, err = webhook(ctx, t, projectID, id, ""); {
		case broker.AsError(err).Code == "webhook_not_found":
			w = before
		case err != nil:
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: action, Subject: "project/" + projectID, Reason: reason,
			Before: small("id", before.ID, "url", before.URL, "state", before.State()),
		})
	})
	return w, err
}

// DeleteWebhook deletes a webhook; the caller deletes its secret. Code: webhook_not_found.
func (db *DB) DeleteWebhook(ctx context.Context, actor broker.Actor, projectID, id, reason string) (broker.Webhook, error) {
	return db.changeWebhook(ctx, actor, "webhook.delete", projectID, id, reason, func(ctx context.Context, t *tx, w broker.Webhook) error {
		_, err := t.ExecContext(ctx, `DELETE FROM webhooks WHERE id = $1`, w.ID)
		return err
	})
}

// EnableWebhook lets a webhook that is disabled, or waits for its next try, go on at once with the
// first event that the endpoint lacks. Code: webhook_not_found.
func (db *DB) EnableWebhook(ctx context.Context, actor broker.Actor, projectID, id, reason string) (broker.Webhook, error) {
	return db.changeWebhook(ctx, actor, "webhook.enable", projectID, id, reason, func(ctx context.Context, t *tx, w broker.Webhook) error {
		t.hint(HintProjectEvents, "")
		_, err := t.ExecContext(ctx, `UPDATE webhooks SET attempts = 0, failing_since = 0, next_try_at = 0, code = '', trouble = '',
			disabled_at = 0 WHERE id = $1`, w.ID)
		return err
	})
}

// RenewWebhookSecret records that a webhook gets a new signing secret, which the caller then stores.
// Code: webhook_not_found.
func (db *DB) RenewWebhookSecret(ctx context.Context, actor broker.Actor, projectID, id, reason string) (broker.Webhook, error) {
	return db.changeWebhook(ctx, actor, "webhook.rotate_secret", projectID, id, reason, func(ctx context.Context, t *tx, w broker.Webhook) error {
		_, err := t.ExecContext(ctx, `UPDATE webhooks SET secret_at = $1 WHERE id = $2`, sqlkit.Micros(t.now), w.ID)
		return err
	})
}
