package adminapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/google/uuid"

	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// RequestKey makes a repeat of a request harmless.
type RequestKey struct {
	IdempotencyKey string `header:"Idempotency-Key" minLength:"1" maxLength:"128" doc:"the same key with the same body, of the same token, answers what was begun under it; kept for 24 hours"`
}

// order is a request to begin something.
type order struct {
	body         any
	key, path    string
	site, reason string
}

// once is the key of an order, for the store to keep with what is begun. Another
// token's key of the same name is another key. Without one there is nothing to keep.
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

// beginOne starts the run of an order, or answers the one that the order's key
// began before. Codes: those of check, onboarding_running, idempotency_conflict.
func (a *API) beginOne(ctx context.Context, o order, check func() (orders, error)) (*resource.Onboarding, error) {
	var r chain.Record
	before, err := a.begin(ctx, o, func(ctx context.Context) error {
		all, err := check()
		if err != nil {
			return err
		}
		r, err = a.c.Runs.Start(ctx, all.starts[0])
		return err
	})
	if err == nil && before != "" {
		r, err = a.onboarding(ctx, before)
	}
	if err != nil {
		return nil, err
	}
	out := onboardingResource(r)
	return &out, nil
}

// beginBatch starts all runs of an order, or answers as beginOne does.
func (a *API) beginBatch(ctx context.Context, o order, kind string, check func() (orders, error)) (*resource.OnboardingBatchStarted, error) {
	var runs []chain.Record
	id := uuid.NewString()
	before, err := a.begin(ctx, o, func(ctx context.Context) error {
		all, err := check()
		if err != nil {
			return err
		}
		runs, err = a.c.Runs.StartBatch(ctx, chain.Batch{
			ID: id, Kind: kind, Site: all.site.Name, RequestedBy: callerOf(ctx).Name,
			Parallel: all.profile.Policy.BatchMaxParallel, StopAfter: all.profile.Policy.BatchStopAfterFailures,
		}, all.starts)
		return err
	})
	if err == nil && before != "" {
		id = before
		if _, err = a.batch(ctx, id); err == nil {
			runs, _, err = a.runsOf(ctx, chain.Filter{Batch: id}, "", 0)
		}
	}
	if err != nil {
		return nil, err
	}
	out := &resource.OnboardingBatchStarted{BatchID: id, Onboardings: make([]resource.OnboardingBatchRun, len(runs))}
	for i, r := range runs {
		out.Onboardings[i] = resource.OnboardingBatchRun{Hostname: r.Subject, OnboardingID: r.ID}
	}
	return out, nil
}

// begin calls start, unless the order's key has begun something before: then it
// gives the id of that.
func (a *API) begin(ctx context.Context, o order, start func(context.Context) error) (before string, err error) {
	key, err := o.once(callerOf(ctx))
	if err != nil {
		return "", err
	}
	if before, err := a.c.DB.Begun(ctx, key); err != nil || before != "" {
		return before, err
	}
	err = start(store.WithRequestKey(ctx, key))
	if b, ok := errors.AsType[*store.BegunBefore](err); ok { // the same request, at the same moment
		return b.ID, nil
	}
	if err == nil {
		return "", nil
	}
	if before, _ := a.c.DB.Begun(ctx, key); before != "" { // it may have taken its hostname already
		return before, nil
	}
	return "", a.refusedStart(ctx, o.site, o.reason, err)
}
