package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Save implements chain.Store.
func (db *DB) Save(ctx context.Context, c chain.Change) error {
	return db.verdict(ctx, func(ctx context.Context, t *tx) error { return t.save(ctx, c) })
}

func (t *tx) save(ctx context.Context, c chain.Change) error {
	was := c.Record
	asked, by, err := t.fence(ctx, was)
	if err != nil {
		return err
	}
	taken, err := t.takeLocks(ctx, was.ID, c.Locks)
	if err != nil {
		return err
	}
	if taken != nil {
		return &chain.Locked{Taken: taken}
	}
	t.now = t.clock() // taking the row and the locks may have taken time
	c.Record.Version++
	c.Record.Owner, c.Record.LeaseTill = "", time.Time{}
	if c.Record = c.Record.Stamped(t.now); asked == c.Honoured {
		asked = chain.AskNothing
	}
	switch c.Record.Asked = asked; {
	case asked == chain.AskNothing:
	case c.Record.Status.Ended():
		c.Record.Asked = chain.AskNothing
		if e, late := c.Record.TooLate(asked, by); late {
			c.Events = append(slices.Clip(c.Events), e)
		}
	default:
		c.Record = c.Record.Urged(t.now)
	}
	for _, e := range c.Effects {
		if err := t.applyToRun(ctx, was, e); err != nil {
			return err
		}
	}
	if err := t.writeRun(ctx, c.Record); err != nil {
		return err
	}
	if !c.SameState {
		if err := t.writeState(ctx, c.Record); err != nil {
			return err
		}
	}
	if was.Status.Moving() != c.Record.Status.Moving() {
		if err := t.hintNodesOf(ctx, was.ID); err != nil {
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

// fence locks the row of a run that is unchanged since its claim, and returns the request made by
// an operator meanwhile.
func (t *tx) fence(ctx context.Context, was chain.Record) (asked chain.Ask, by string, err error) {
	err = t.QueryRowContext(ctx, `SELECT asked, asked_by FROM chain_runs WHERE id = $1 AND version = $2 AND lease_owner = $3`+t.ForUpdate(),
		was.ID, was.Version, was.Owner).Scan(&asked, &by)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", chain.ErrLost
	}
	return asked, by, err
}

// writeRun writes all columns of a row locked by the transaction, except the state, which may be
// long, and the author of a request.
func (t *tx) writeRun(ctx context.Context, r chain.Record) error {
	f := chain.Failure{}
	if r.Failure != nil {
		f = *r.Failure
	}
	_, err := t.ExecContext(ctx,
		`UPDATE chain_runs SET status = $1, stage = $2, direction = $3, attempt = $4, progress = $5, entered_at = $6, due_at = $7,
			version = $8, lease_owner = $9, lease_until = $10, held = $11, waiting = $12, asked = $13,
			failure_class = $14, error_code = $15, error_message = $16, error_details = $17, next_action = $18, started_at = $19, completed_at = $20, updated_at = $21, list = $22
		WHERE id = $23`,
		string(r.Status), r.Stage, string(r.Direction), r.Attempt, sqlkit.JSON(r.Progress), sqlkit.Micros(r.EnteredAt),
		sqlkit.Micros(r.DueAt),
		r.Version, r.Owner, sqlkit.Micros(r.LeaseTill), r.Held, r.Waiting, string(r.Asked),
		string(f.Class), f.Code, f.Message, string(f.Details), r.NextAction, sqlkit.Micros(r.StartedAt), sqlkit.Micros(r.CompletedAt),
		sqlkit.Micros(r.UpdatedAt), r.List, r.ID)
	return err
}

func (t *tx) writeState(ctx context.Context, r chain.Record) error {
	_, err := t.ExecContext(ctx, `UPDATE chain_runs SET state = $1 WHERE id = $2`, string(r.State), r.ID)
	return err
}

// tellOf writes the events and messages of a change, and releases the locks of an ended run.
func (t *tx) tellOf(ctx context.Context, c chain.Change) error {
	r := c.Record
	for _, e := range c.Events {
		if _, err := t.ExecContext(ctx,
			`INSERT INTO chain_events (run_id, at, stage, direction, attempt, status, message, details) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			r.ID, sqlkit.Micros(t.now), e.Stage, string(e.Direction), e.Attempt, string(e.Status), e.Message,
			string(e.Details)); err != nil {
			return err
		}
	}
	for _, m := range c.Messages {
		if err := t.send(ctx, told{Message: m, Source: "hostler/runs/" + r.ID, Site: r.Site, CorrelationID: r.CorrelationID}); err != nil {
			return err
		}
	}
	if r.Status.Ended() {
		if err := t.hintNodesOf(ctx, r.ID); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM chain_locks WHERE run_id = $1`, r.ID); err != nil {
			return err
		}
	}
	if r.Owner == "" && (!r.DueAt.After(t.now) || !r.Status.Moving()) {
		t.hint(HintRun, "") // the run is due, or its place in a batch is free
	}
	return nil
}

// hintNodesOf announces that another status of a run concerns the nodes that the run holds.
func (t *tx) hintNodesOf(ctx context.Context, runID string) error {
	names, err := sqlkit.Collect(ctx, t, func(row sqlkit.Row) (name string, err error) { return name, row.Scan(&name) },
		`SELECT name FROM chain_locks WHERE run_id = $1`, runID)
	for _, name := range names {
		if id, is := strings.CutPrefix(name, "node/"); is {
			t.hint(HintNode, id)
		}
	}
	return err
}

// applyToRun applies an effect of a stage, in the transaction of the save, or of a start. An effect that
// the tables refuse fails the stage or the start. A new kind of effect needs a new case.
func (t *tx) applyToRun(ctx context.Context, r chain.Record, effect any) error {
	var err error
	switch e := effect.(type) {
	case broker.AuditEntry:
		e.CorrelationID = r.CorrelationID
		err = t.audit(ctx, e)
	case broker.SaveMembers:
		err = t.saveMembers(ctx, r.ID, e)
	case broker.TakeFree:
		err = t.takeFree(ctx, e.NodeID)
	case broker.RequestOperation:
		err = t.requestOperation(ctx, r, e.Operation)
	case broker.RetryOperation:
		err = t.retryOperation(ctx, e)
	case broker.StartOperation:
		err = t.startOperation(ctx, r, e.ID)
	case broker.BatchOperation:
		err = t.batchOperation(ctx, r, e)
	case broker.EndOperation:
		err = t.endOperation(ctx, r, e)
	default:
		err = broker.Errorf(broker.Invalid, "effect_unknown", "cannot save run %s: nothing applies a %T", r.ID, effect)
	}
	if isA[*broker.Error](err) || isA[*refusal](err) {
		return &chain.EffectRefused{Err: err}
	}
	return err
}
