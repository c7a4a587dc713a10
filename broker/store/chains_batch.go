package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const batchColumns = `id, kind, site, parallel, stop_after, last_stage, last_class, in_a_row, stopped_at, stop_reason, requested_by, requested_at`

func batch(ctx context.Context, r sqlkit.Runner, id, lock string) (b chain.Batch, err error) {
	err = r.QueryRowContext(ctx, `SELECT `+batchColumns+` FROM chain_batches WHERE id = $1`+lock, id).Scan(&b.ID, &b.Kind, &b.Site,
		&b.Parallel, &b.StopAfter,
		&b.LastStage, &b.LastClass, &b.InARow, sqlkit.ScanMicros(&b.StoppedAt), &b.StopReason, &b.RequestedBy,
		sqlkit.ScanMicros(&b.RequestedAt))
	if errors.Is(err, sql.ErrNoRows) {
		return b, chain.NotFound("batch", id)
	}
	return b, err
}

func (t *tx) insertBatch(ctx context.Context, b chain.Batch) error {
	n, err := sqlkit.Changed(t.ExecContext(ctx,
		`INSERT INTO chain_batches (id, kind, site, parallel, stop_after, requested_by, requested_at) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING`,
		b.ID, b.Kind, b.Site, b.Parallel, b.StopAfter, b.RequestedBy, sqlkit.Micros(b.RequestedAt)))
	if err == nil && n == 0 {
		return chain.Exists("batch", b.ID)
	}
	return err
}

func (t *tx) writeBatch(ctx context.Context, b chain.Batch) error {
	_, err := t.ExecContext(ctx,
		`UPDATE chain_batches SET last_stage = $1, last_class = $2, in_a_row = $3, stopped_at = $4, stop_reason = $5 WHERE id = $6`,
		b.LastStage, string(b.LastClass), b.InARow, sqlkit.Micros(b.StoppedAt), b.StopReason, b.ID)
	return err
}

// Batch implements chain.Store.
func (db *DB) Batch(ctx context.Context, id string) (chain.Batch, error) {
	return batch(ctx, db.reader(), id, "")
}

// BatchCounts counts the runs of a batch by status. It reads an index and no run, because clients
// that watch a batch ask once a second.
func (db *DB) BatchCounts(ctx context.Context, id string) (map[string]int64, error) {
	counts := map[string]int64{}
	_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (status string, err error) {
		var n int64
		err = row.Scan(&status, &n)
		counts[status] = n
		return status, err
	}, `SELECT status, COUNT(*) FROM chain_runs WHERE batch = $1 AND batch <> '' GROUP BY status`, id)
	return counts, err
}

// ContinueBatch implements chain.Store.
func (db *DB) ContinueBatch(ctx context.Context, o chain.Order) error {
	return db.verdict(ctx, func(ctx context.Context, t *tx) error {
		b, err := batch(ctx, t, o.ID, t.ForUpdate())
		if err != nil {
			return err
		}
		if err := t.writeBatch(ctx, b.Continued()); err != nil {
			return err
		}
		t.hint(HintRun, "")
		return t.audit(ctx, broker.AuditEntry{
			Actor: o.Actor.Name, Action: "batch.continue", Subject: "batch/" + b.ID, Reason: o.Reason,
			Before: small("stop_reason", b.StopReason), After: small("role", o.Actor.Role),
		})
	})
}

// countResult counts the result of a run in its batch.
func (t *tx) countResult(ctx context.Context, r chain.Record, result chain.Result) error {
	b, err := batch(ctx, t, r.Batch, "")
	if err != nil {
		return err
	}
	if !result.Failed && b.InARow == 0 {
		return nil // nothing to write, so no need to wait for the batch's row
	}
	if b, err = batch(ctx, t, r.Batch, t.ForUpdate()); err != nil {
		return err
	}
	after, stopped := b.After(result, t.now)
	if stopped {
		if err := t.send(ctx, told{Message: after.Stopped(), Site: r.Site, CorrelationID: r.CorrelationID}); err != nil {
			return err
		}
	}
	return t.writeBatch(ctx, after)
}
