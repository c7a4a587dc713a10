package outbox

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Policy says which events are kept.
type Policy struct {
	For  time.Duration `yaml:"keep_for"`  // zero: DefaultPolicy's
	Most int64         `yaml:"keep_most"` // zero: DefaultPolicy's
}

// Check refuses a policy by which a reader that is away for a moment would lose events. Code:
// config_invalid.
func (p Policy) Check() error {
	if p = p.filled(); p.For < leastFor || p.Most < leastMost {
		return broker.Errorf(broker.Invalid, "config_invalid",
			"cannot keep events for %s and at most %d of them: the minimum is %s and %d (see events: in the config)", p.For, p.Most,
			leastFor, leastMost)
	}
	return nil
}

// DefaultPolicy keeps events for a month, and no more than fit on a small disk.
var DefaultPolicy = Policy{For: 30 * 24 * time.Hour, Most: 1_000_000}

// RelayGrace is how many times as long and as much events are kept that a relay has not passed on.
const RelayGrace = 2

const (
	leastFor  = time.Hour
	leastMost = 1000

	placeBatch  = 500 // events in one transaction
	placeEvery  = time.Second
	forgetBatch = 1000
	forgetEvery = time.Minute
)

// Keeper gives events their positions and deletes the oldest. The leader runs it.
type Keeper struct {
	DB     *store.DB
	Policy Policy
	Relay  string // the relay for which events are kept longer; empty: none
	Log    *zap.Logger
}

// Run places events as they come, until ctx ends. A hint announces new events; a lost hint costs a
// second. Failures are retried.
func (k *Keeper) Run(ctx context.Context) {
	hints := k.DB.Hints(ctx)
	place, forget := time.NewTicker(placeEvery), time.NewTicker(forgetEvery)
	defer place.Stop()
	defer forget.Stop()
	for {
		if err := k.Place(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("cannot publish events", zap.Error(err))
		}
		if !k.pause(ctx, hints, place.C, forget.C) {
			return
		}
	}
}

// pause returns when there may be events to place; false: ctx has ended.
func (k *Keeper) pause(ctx context.Context, hints <-chan store.Hint, place, forget <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case h, open := <-hints:
			if !open {
				hints = nil // the store is closing
			}
			if h.Is(store.HintOutbox) {
				for len(hints) > 0 { // further hints say the same
					<-hints
				}
				return true
			}
		case <-place:
			return true
		case <-forget:
			if err := k.Forget(ctx); err != nil && ctx.Err() == nil {
				k.Log.Warn("cannot delete old events", zap.Error(err))
			}
		}
	}
}

// Place gives every committed event its position.
func (k *Keeper) Place(ctx context.Context) error {
	for {
		placed, err := k.DB.PlaceEvents(ctx, placeBatch)
		if err != nil || placed < placeBatch {
			return err
		}
	}
}

// Forget deletes the events beyond the policy. What the relay has not passed on is kept up to
// RelayGrace times as long and as much.
func (k *Keeper) Forget(ctx context.Context) error {
	p := k.Policy.filled()
	if err := k.forget(ctx, p, k.Relay); err != nil || k.Relay == "" {
		return err
	}
	return k.forget(ctx, Policy{For: RelayGrace * p.For, Most: RelayGrace * p.Most}, "")
}

// forget deletes in small batches, because other writers wait for each batch.
func (k *Keeper) forget(ctx context.Context, p Policy, relay string) error {
	for {
		gone, err := k.DB.ForgetEvents(ctx, k.DB.Now().Add(-p.For), p.Most, forgetBatch, relay)
		if err != nil || gone < forgetBatch {
			return err
		}
	}
}

func (p Policy) filled() Policy {
	if p.For == 0 {
		p.For = DefaultPolicy.For
	}
	if p.Most == 0 {
		p.Most = DefaultPolicy.Most
	}
	return p
}
