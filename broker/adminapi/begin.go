package adminapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/google/uuid"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// RequestKey makes a repeated request harmless.
type RequestKey struct {
	IdempotencyKey string `header:"Idempotency-Key" minLength:"1" maxLength:"128" doc:"a repeated request with the same key, path, body and token returns what the first request began; kept for 24 hours"`
}

// order is a request to begin something.
type order struct {
	body      any
	key, path string
	// refused records a refusal and returns the error for the caller.
	refused func(context.Context, error) error
}

// once returns the idempotency key of an order; the store keeps the key with the run that the order
// begins. The same key of another token is a different key. Without a key the result is empty.
func (o order) once(who caller) (store.RequestKey, error) {
	if o.key == "" {
		return store.RequestKey{}, nil
	}
	body, err := taskcatalog.Encode(o.body)
	if err != nil {
		return store.RequestKey{}, err
	}
	digest := sha256.Sum256(append([]byte(o.path+"\n"), body...))
	return store.RequestKey{Actor: who.Name, Key: o.key, Digest: hex.EncodeToString(digest[:])}, nil
}

// beginOne starts the run of an order, or returns the run that an earlier request with the same key
// began. Codes: those of check, onboarding_running, node_in_run, idempotency_conflict.
func (a *API) beginOne(ctx context.Context, o order, of kinds, check func() (chain.Start, error)) (r chain.Record, err error) {
	before, err := a.begin(ctx, o, func(ctx context.Context) error {
		s, err := check()
		if err != nil {
			return err
		}
		r, err = a.c.Runs.Start(ctx, s)
		return err
	})
	if err == nil && before != "" {
		return a.run(ctx, of, before)
	}
	return r, err
}

// beginBatch starts all runs of an order or none, or returns the runs that an earlier request with
// the same key began. check returns the batch without its ID. Codes: as of beginOne.
func (a *API) beginBatch(
	ctx context.Context, o order, of kinds, check func() (chain.Batch, []chain.Start, error),
) (id string, runs []chain.Record, err error) {
	id = uuid.NewString()
	before, err := a.begin(ctx, o, func(ctx context.Context) error {
		b, starts, err := check()
		if err != nil {
			return err
		}
		b.ID, b.RequestedBy = id, callerOf(ctx).Name
		runs, err = a.c.Runs.StartBatch(ctx, b, starts)
		return err
	})
	if err != nil || before == "" {
		return id, runs, err
	}
	if _, err = a.batch(ctx, of, before); err == nil {
		runs, _, err = a.runsOf(ctx, of, chain.Filter{Batch: before}, nil, 0)
	}
	return before, runs, err
}

// begin calls start, unless the order's key has begun something before: then begin returns the id
// of the earlier run, batch or allocation.
func (a *API) begin(ctx context.Context, o order, start func(context.Context) error) (before string, err error) {
	key, err := o.once(callerOf(ctx))
	if err != nil {
		return "", err
	}
	if before, err := a.c.DB.Begun(ctx, key); err != nil || before != "" {
		return before, err
	}
	err = start(store.WithRequestKey(ctx, key))
	if b, ok := errors.AsType[*store.BegunBefore](err); ok { // the same request arrived at the same moment
		return b.ID, nil
	}
	if err == nil {
		return "", nil
	}
	if before, _ := a.c.DB.Begun(ctx, key); before != "" { // the same request may have taken its hostname already
		return before, nil
	}
	return "", o.refused(ctx, err)
}
