package chain

import (
	"context"
	"errors"
	"sync"
	"time"
)

// leaseGuard is the time in which a step may rely on its lease. The context ends margin before the
// lease, counted from before the claim was sent, by this machine's clock. A broker that was
// paused, or cannot reach the store, therefore stops before another broker may begin.
type leaseGuard struct {
	context.Context
	cut   context.CancelCauseFunc
	lasts time.Duration

	mu    sync.Mutex
	timer *time.Timer
}

func newTrust(ctx context.Context, lease time.Duration) *leaseGuard {
	t := &leaseGuard{lasts: lease - margin}
	t.Context, t.cut = context.WithCancelCause(ctx)
	t.timer = t.start()
	return t
}

func (t *leaseGuard) start() *time.Timer {
	return time.AfterFunc(t.lasts, func() { t.cut(ErrLost) })
}

// lost reports whether the lease can no longer be relied on.
func (t *leaseGuard) lost() bool { return errors.Is(context.Cause(t), ErrLost) }

// keep renews the lease until ctx, the context of the call, ends.
func (t *leaseGuard) keep(ctx context.Context, renew func(context.Context) error, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		fresh := t.start() // counted from before the renewal is sent
		switch err := renew(ctx); {
		case err == nil:
			t.mu.Lock()
			t.timer.Stop()
			t.timer = fresh
			t.mu.Unlock()
		case errors.Is(err, ErrLost):
			t.cut(ErrLost)
			fresh.Stop()
		default:
			fresh.Stop() // the store is away: the rest of the lease counts
		}
	}
}

// end stops the clock.
func (t *leaseGuard) end() {
	t.mu.Lock()
	t.timer.Stop()
	t.mu.Unlock()
	t.cut(context.Canceled)
}
