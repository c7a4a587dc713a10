package store

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// Act implements chain.Store.
func (db *DB) Act(
	ctx context.Context, o chain.Order, decide func(time.Time, chain.Record) (chain.Change, error),
) (out chain.Record, err error) {
	err = db.verdict(ctx, func(ctx context.Context, t *tx) error {
		was, err := run(ctx, t, o.ID, t.ForUpdate())
		if err != nil {
			return err
		}
		t.now = t.clock() // after the wait for the row
		e := broker.AuditEntry{
			Actor: o.Actor.Name, Action: "run." + string(o.Action), Subject: "run/" + o.ID, Reason: o.Reason,
			Before: runPlace(was),
		}
		c, err := decide(t.now, was)
		if no, ok := errors.AsType[*chain.Refused](err); ok {
			e.Code, e.Reason, e.After = no.Code, no.Message, small("role", o.Actor.Role, "reason", o.Reason)
			return &refusal{err: err, entry: e}
		}
		if err != nil {
			return err
		}
		if out, err = t.act(ctx, was, c); err != nil {
			return err
		}
		e.After = small("role", o.Actor.Role, "status", out.Status, "stage", out.Stage, "direction", out.Direction, "asked", out.Asked)
		return t.audit(ctx, e)
	})
	return out, err
}

// runPlace describes the position of a run, for the audit log.
func runPlace(r chain.Record) []byte {
	class := chain.Class("")
	if r.Failure != nil {
		class = r.Failure.Class
	}
	return small("status", r.Status, "stage", r.Stage, "direction", r.Direction, "attempt", r.Attempt, "failure_class", class)
}

func (t *tx) act(ctx context.Context, was chain.Record, c chain.Change) (chain.Record, error) {
	if c.Nothing {
		return was, nil
	}
	r := c.Record
	if !c.Beside {
		r.Version++
		r.Owner, r.LeaseTill = "", time.Time{}
		r = r.Stamped(t.now)
		c.Record = r
		if err := errors.Join(t.writeRun(ctx, r), t.writeState(ctx, r)); err != nil {
			return r, err
		}
		if err := t.hintNodesOf(ctx, r.ID); err != nil {
			return r, err
		}
		if err := t.tellOf(ctx, c); err != nil {
			return r, err
		}
		if err := t.cancelOperationOf(ctx, r); err != nil {
			return r, err
		}
	}
	_, err := t.ExecContext(ctx, `UPDATE chain_runs SET asked = $1, asked_by = $2, asked_reason = $3 WHERE id = $4`, string(r.Asked),
		r.AskedBy, r.AskedCause, r.ID)
	return r, err
}
