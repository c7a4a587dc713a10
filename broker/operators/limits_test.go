package operators

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
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
