package adminapi

import (
	"context"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/rollout"
)

// A failed abort is continued by either action, and the next action says so.
func TestAnAbortThatHasFailedIsGoneOnWith(t *testing.T) {
	failed := chain.Record{ID: "r", Status: chain.FailedRetryable, Direction: chain.Undo, State: []byte(`{}`), Failure: &chain.Failure{Code: chain.CodeMarked}, NextAction: "x"}
	moving, forward := failed, failed
	moving.Status, forward.Direction = chain.Compensating, chain.Forward
	for _, c := range []struct {
		word string
		r    chain.Record
		want chain.Action
	}{
		{"resume", failed, chain.RetryStage},
		{"abort", failed, chain.RetryStage},
		{"pause", failed, chain.MarkManual}, // which the engine refuses
		{"resume", moving, chain.Resume},    // so is this
		{"abort", moving, chain.Cancel},
		{"resume", forward, chain.Resume},
		{"abort", forward, chain.Cancel},
	} {
		if got := rolloutAction(c.word, c.r); got != c.want {
			t.Errorf("%s of one that is %s, %s: %s, want %s", c.word, c.r.Status, c.r.Direction, got, c.want)
		}
	}
	ctx := context.WithValue(t.Context(), callerKey{}, caller{})
	for want, r := range map[string]chain.Record{"hostler rollout abort r --reason R, which continues": failed, "hostler rollout resume r": forward, "x": moving} {
		if next := rolloutResource(ctx, r, rollout.Parse(r.State)).RecommendedNextAction; !strings.Contains(next, want) {
			t.Errorf("one that is %s, %s: next %q", r.Status, r.Direction, next)
		}
	}
}
