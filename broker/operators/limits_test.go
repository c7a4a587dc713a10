package operators

import (
	"context"
	"fmt"
	"net/netip"
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
		d := &Directory{now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, live: map[string]map[*running]struct{}{}}
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

func TestOneNetworkOfIPv6IsOneGuesser(t *testing.T) {
	d := &Directory{guess: newLimits(guessRate, guessBurst)}
	now := time.Unix(1000, 0)
	guess := func(from string) string { return broker.AsError(d.unknown(netip.MustParseAddr(from), now)).Code }
	for i := range guessBurst {
		if code := guess(fmt.Sprintf("2001:db8::%x", i)); code != "token_unknown" {
			t.Fatalf("guess %d is refused with %s", i, code)
		}
	}
	if code := guess("2001:db8::ffff:1"); code != "rate_limited" {
		t.Errorf("one more of the same network: %s", code)
	}
	if code := guess("2001:db8:0:1::1"); code != "token_unknown" {
		t.Errorf("another network pays for it: %s", code)
	}
}

// Many tokens of one organisation have one limit, and the platform's have none.
func TestATenantsChangesAreLimitedByOrganisation(t *testing.T) {
	at := time.Now()
	d := &Directory{now: func() time.Time { return at }, writes: newLimits(tenantRate, tenantBurst)}
	token := func(i int, organisation, project string) broker.OperatorToken {
		return broker.OperatorToken{Name: fmt.Sprint(i), Place: broker.Place{OrganisationID: organisation, ProjectID: project}}
	}
	for i := range tenantBurst {
		if err := d.AllowWrite(token(i, "org-1", fmt.Sprint(i%7))); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	if e := broker.AsError(d.AllowWrite(token(0, "org-1", "1"))); e.Code != "tenant_rate_limited" || e.Kind != broker.TooMany {
		t.Errorf("one more: %v", e)
	}
	if err := d.AllowWrite(token(0, "org-2", "1")); err != nil {
		t.Errorf("another organisation pays for it: %v", err)
	}
	if err := d.AllowWrite(broker.OperatorToken{Name: "admin"}); err != nil {
		t.Errorf("the platform pays for it: %v", err)
	}
	at = at.Add(time.Second)
	if err := d.AllowWrite(token(0, "org-1", "1")); err != nil {
		t.Errorf("a second later: %v", err)
	}
}
