package chain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// failed runs a chain with the single stage do, and with Failing.
func failed(t *testing.T, do func(context.Context, *chain.Run[int]) error, failing func(context.Context, *chain.Run[int], chain.Failure) map[string]any) chain.Record {
	t.Helper()
	clock := chaintest.NewClock()
	store := chaintest.NewMemory(clock.Now)
	stage := chain.Stage[int]{Name: "only", Do: do, Retry: func(int) chain.Retry { return chain.Retry{Attempts: 2, First: time.Second} }, Limit: func(int) chain.Limit {
		return chain.Limit{After: time.Minute, Class: "late"}
	}}
	classes := chain.Classes{"lost": {Ends: chain.FailedManual}, "late": {Ends: chain.FailedManual}, "often": {Retry: true, Ends: chain.FailedManual}}
	e, err := chain.New(store, classes, chain.Options{}, chain.Chain[int]{Kind: "node.trip", Stages: []chain.Stage[int]{stage}, Failing: failing})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, chain.Start{ID: "r", Kind: "node.trip", Site: "dc1", State: 0}); err != nil {
		t.Fatal(err)
	}
	if err := chaintest.Settle(ctx, e, store, clock); err != nil {
		t.Fatal(err)
	}
	r, err := store.Run(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func loses(context.Context, *chain.Run[int]) error {
	return chain.Fail("lost", "gone").With("gone_away", map[string]any{"since": 1})
}

func TestWhoeverIsToldOfAFailureMayAddToIt(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(context.Context, *chain.Run[int]) error
		told   []string
		detail string
	}{
		"that a stage tells":         {loses, []string{"lost r/only/1"}, `{"key":"r/only/1","since":1}`},
		"of each attempt":            {func(context.Context, *chain.Run[int]) error { return chain.Fail("often", "again") }, []string{"often r/only/1", "often r/only/2"}, `{"key":"r/only/2"}`},
		"that a limit brings":        {func(context.Context, *chain.Run[int]) error { return chain.Again(time.Second, "not yet") }, []string{"late r/only/1"}, `{"key":"r/only/1"}`},
		"whose details are a list":   {func(context.Context, *chain.Run[int]) error { return chain.Fail("lost", "x").With("x", []int{1}) }, []string{"lost r/only/1"}, `[1]`},
		"but not that it is waiting": {func(context.Context, *chain.Run[int]) error { return nil }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			r := failed(t, c.do, func(_ context.Context, r *chain.Run[int], f chain.Failure) map[string]any {
				told = append(told, string(f.Class)+" "+r.Key())
				return map[string]any{"key": r.Key()}
			})
			if !slices.Equal(told, c.told) {
				t.Errorf("told of %q", told)
			}
			if c.told != nil && (r.Failure == nil || string(r.Failure.Details) != c.detail) {
				t.Errorf("failed with %+v", r.Failure)
			}
		})
	}
}

func TestAFailureIsRecordedWhateverBecomesOfWhoIsToldOfIt(t *testing.T) {
	for name, failing := range map[string]func(context.Context, *chain.Run[int], chain.Failure) map[string]any{
		"it panics":       func(context.Context, *chain.Run[int], chain.Failure) map[string]any { panic("no") },
		"it says nothing": func(context.Context, *chain.Run[int], chain.Failure) map[string]any { return nil },
		"it says too much": func(context.Context, *chain.Run[int], chain.Failure) map[string]any {
			return map[string]any{"x": strings.Repeat("y", 1<<20)}
		},
		"it has no form": func(context.Context, *chain.Run[int], chain.Failure) map[string]any {
			return map[string]any{"x": errors.New}
		},
		"it does not end": func(ctx context.Context, _ *chain.Run[int], _ chain.Failure) map[string]any {
			<-ctx.Done()
			return nil
		},
		"it does not heed its time": func(context.Context, *chain.Run[int], chain.Failure) map[string]any {
			time.Sleep(time.Hour) // in fake time
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				r := failed(t, loses, failing)
				if r.Status != chain.FailedManual || r.Failure.Code != "gone_away" || r.Failure.Message != "gone" || !strings.Contains(string(r.Failure.Details), `"since":1`) {
					t.Errorf("%s: %+v", r.Status, r.Failure)
				}
				if took := time.Since(begin); took > chain.FailingTime+time.Second {
					t.Errorf("recorded after %s", took)
				}
				time.Sleep(2 * time.Hour) // in fake time, until every call of Failing has ended
			})
		})
	}
}
