package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// Save implements chain.Store.
func (db *DB) Save(ctx context.Context, c chain.Change) error {
	return db.verdict(ctx, func(ctx context.Context, t *tx) error { return t.save(ctx, db, c) })
}

func (t *tx) save(ctx context.Context, db *DB, c chain.Change) error {
	was := c.Record
	c.Record.Version++
	c.Record.Owner, c.Record.LeaseTill = "", time.Time{}
	asked, err := t.writeRun(ctx, c.Record, was, c.Honoured)
	if err != nil {
		return err
	}
	// The row is ours from here: whatever this waited for is behind it.
	t.now = db.Now()
	switch {
	case asked == chain.AskNothing:
	case c.Record.Status.Ended():
		var by string
		if err := t.QueryRowContext(ctx, `UPDATE chain_runs SET asked = '' WHERE id = $1 RETURNING asked_by`, was.ID).Scan(&by); err != nil {
			return err
		}
		if e, late := c.Record.TooLate(asked, by); late {
			c.Events = append(slices.Clip(c.Events), e)
		}
	default:
		urged := c.Record.Urged(t.now)
		t.hint(HintRun, "")
		if _, err := t.ExecContext(ctx, `UPDATE chain_runs SET status = $1, due_at = $2, attempt = $3, progress = $4 WHERE id = $5`,
			string(urged.Status), micros(urged.DueAt), urged.Attempt, text(urged.Progress), was.ID); err != nil {
			return err
		}
	}
	taken, err := t.takeLocks(ctx, was.ID, c.Locks)
	if err != nil {
		return err
	}
	if taken != nil {
		return &chain.Locked{Taken: taken}
	}
	for _, e := range c.Effects {
		if err := t.applyToRun(ctx, was, e); err != nil {
			return err
		}
	}
	if err := t.tellOf(ctx, c); err != nil {
		return err
	}
	system := chain.Actor{Name: "system"}
	if c.Unreachable != "" {
		if err := t.placeHold(ctx, system, chain.SiteHold{Site: was.Site, Kind: chain.Unreachable, Reason: c.Unreachable}); err != nil {
			return err
		}
	}
	if c.Reached {
		if err := t.liftHold(ctx, system, was.Site, chain.Unreachable, anybody, "a stage got through"); err != nil {
			return err
		}
	}
	if c.Result != nil {
		return t.countResult(ctx, was, *c.Result)
	}
	return nil
}

// writeRun writes all of a row but what was asked beside the fence, if it is
// still as it was read. It returns what is asked that has not been honoured.
func (t *tx) writeRun(ctx context.Context, r, was chain.Record, honoured chain.Ask) (asked chain.Ask, err error) {
	f := chain.Failure{}
	if r.Failure != nil {
		f = *r.Failure
	}
	err = t.QueryRowContext(ctx, `UPDATE chain_runs SET status = $1, stage = $2, direction = $3, attempt = $4, progress = $5, state = $6, entered_at = $7, due_at = $8,
			version = $9, lease_owner = $10, lease_until = $11, held = $12, waiting = $13, asked = CASE WHEN asked = $14 THEN '' ELSE asked END,
			failure_class = $15, error_code = $16, error_message = $17, error_details = $18, next_action = $19, started_at = $20, completed_at = $21, updated_at = $22
		WHERE id = $23 AND version = $24 AND lease_owner = $25 RETURNING asked`,
		string(r.Status), r.Stage, string(r.Direction), r.Attempt, text(r.Progress), string(r.State), micros(r.EnteredAt), micros(r.DueAt),
		r.Version, r.Owner, micros(r.LeaseTill), r.Held, r.Waiting, string(honoured),
		string(f.Class), f.Code, f.Message, string(f.Details), r.NextAction, micros(r.StartedAt), micros(r.CompletedAt), micros(r.UpdatedAt),
		was.ID, was.Version, was.Owner).Scan(&asked)
	if errors.Is(err, sql.ErrNoRows) {
		return "", chain.ErrLost
	}
	return asked, err
}

// tellOf writes the events and messages of a change, and lets go of the locks of
// a run that has ended.
func (t *tx) tellOf(ctx context.Context, c chain.Change) error {
	r := c.Record
	for _, e := range c.Events {
		if _, err := t.ExecContext(ctx, `INSERT INTO chain_events (run_id, at, stage, direction, attempt, status, message, details) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			r.ID, micros(t.now), e.Stage, string(e.Direction), e.Attempt, string(e.Status), e.Message, string(e.Details)); err != nil {
			return err
		}
	}
	for _, m := range c.Messages {
		if err := t.send(ctx, told{Message: m, Source: "hostler/runs/" + r.ID, Site: r.Site, CorrelationID: r.CorrelationID}); err != nil {
			return err
		}
	}
	if r.Status.Ended() {
		if _, err := t.ExecContext(ctx, `DELETE FROM chain_locks WHERE run_id = $1`, r.ID); err != nil {
			return err
		}
	}
	if r.Owner == "" && (!r.DueAt.After(t.now) || !r.Status.Moving()) {
		t.hint(HintRun, "") // it is due, or its place in a batch is free
	}
	return nil
}

// applyToRun applies an effect of a step, in the transaction of its save. What
// the tables refuse fails the step; adding a kind of effect is adding a case.
func (t *tx) applyToRun(ctx context.Context, r chain.Record, effect any) error {
	var err error
	switch e := effect.(type) {
	case broker.AuditEntry:
		e.CorrelationID = r.CorrelationID
		err = t.audit(ctx, e)
	default:
		err = broker.Errorf(broker.Invalid, "effect_unknown", "cannot save run %s: nothing applies a %T", r.ID, effect)
	}
	if isA[*broker.Error](err) || isA[*refusal](err) {
		return &chain.EffectRefused{Err: err}
	}
	return err
}
