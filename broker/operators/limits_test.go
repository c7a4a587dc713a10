package operators

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
)

func TestABucketRefillsWithTime(t *testing.T) {
	l := newLimits(2, 3)
	now := time.Unix(1000, 0)
	for range 3 {
		if wait := l.take("a", now); wait != 0 {
			t.Fatalf("refused within the burst, for %v", wait)
		}
	}
	if wait := l.take("a", now); wait != 500*time.Millisecond {
		t.Fatalf("wait is %v, want 500ms", wait)
	}
	if wait := l.take("b", now); wait != 0 {
		t.Fatalf("b pays for a: %v", wait)
	}
	if wait := l.take("a", now.Add(500*time.Millisecond)); wait != 0 {
		t.Fatalf("refused after the wait it was told, for %v more", wait)
	}
}

func TestAFloodOfNamesIsForgotten(t *testing.T) {
	l := newLimits(rate.Limit(1), 2)
	now := time.Unix(1000, 0)
	for i := range 3 * maxLimited {
		l.take(fmt.Sprint(i), now)
	}
	if len(l.by) > maxLimited {
		t.Errorf("%d names are remembered, at most %d", len(l.by), maxLimited)
	}
}

// The date counts: a timer stands still while the machine is suspended.
func TestARequestEndsWithItsTokenThoughTheMachineWasSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		d := &Directory{now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, live: map[string]map[*context.CancelCauseFunc]struct{}{}}
		ctx, done := d.Bind(t.Context(), broker.OperatorToken{Name: "ann", ExpiresAt: time.Now().Add(24 * time.Hour)})
		defer done()
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatalf("the request ended before its token: %v", context.Cause(ctx))
		}
		ahead.Store(int64(24 * time.Hour))
		time.Sleep(expiryLook)
		synctest.Wait()
		if broker.AsError(context.Cause(ctx)).Code != "token_expired" {
			t.Errorf("the request goes on with a token that expired: %v", context.Cause(ctx))
		}
	})
}
