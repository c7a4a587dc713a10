package chain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// A stage or its limit may replace the class's advice; kinds with a common prefix share their
// message prefix.
func TestAStageMayKnowBetterWhatToDoNext(t *testing.T) {
	for name, test := range map[string]struct {
		stage chain.Stage[int]
		want  string
	}{
		"the class says it":   {chain.Stage[int]{Do: func(context.Context, *chain.Run[int]) error { return chain.Fail("lost", "gone") }}, "look"},
		"the failure says it": {chain.Stage[int]{Do: func(context.Context, *chain.Run[int]) error { return chain.Fail("lost", "gone").Next("ask %s", "Ada") }}, "ask Ada"},
		"the limit says it": {chain.Stage[int]{
			Do:    func(context.Context, *chain.Run[int]) error { return chain.Again(time.Second, "not yet") },
			Limit: func(int) chain.Limit { return chain.Limit{After: time.Minute, Class: "lost", Next: "start anew"} },
		}, "start anew"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := chaintest.NewClock()
			store := chaintest.NewMemory(clock.Now)
			test.stage.Name = "only"
			e, err := chain.New(store, chain.Classes{"lost": {Ends: chain.FailedManual, NextAction: "look"}}, chain.Options{}, chain.Chain[int]{Kind: "node.trip/short", Stages: []chain.Stage[int]{test.stage}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Start(ctx, chain.Start{ID: "r", Kind: "node.trip/short", Site: "dc1", State: 0}); err != nil {
				t.Fatal(err)
			}
			if err := chaintest.Settle(ctx, e, store, clock); err != nil {
				t.Fatal(err)
			}
			if r, err := store.Run(ctx, "r"); err != nil || r.NextAction != test.want {
				t.Errorf("%q, %v", r.NextAction, err)
			}
			if _, err := e.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.MarkManual, Reason: "stop"}); err != nil {
				t.Fatal(err)
			}
			var types []string
			for _, m := range store.Outbox() {
				types = append(types, m.Type)
			}
			if len(types) != 2 || types[0] != "node.trip.started" || types[1] != "node.trip.manual_intervention_required" {
				t.Errorf("messages %v", types)
			}
		})
	}
}

// A mark may replace the code and the advice of a stopped run, once; a new message announces the
// change. A moving run stays unchanged.
func TestAMarkMayHaveAStoppedRunSaySomethingElse(t *testing.T) {
	for ends, said := range map[chain.Status]int{chain.FailedManual: 2, chain.FailedRetryable: 1} {
		clock := chaintest.NewClock()
		store := chaintest.NewMemory(clock.Now)
		fails := chain.Stage[int]{Name: "only", Do: func(context.Context, *chain.Run[int]) error {
			return chain.Fail("lost", "gone").With("gone_away", map[string]any{"since": 1})
		}}
		e, err := chain.New(store, chain.Classes{"lost": {Ends: ends, NextAction: "look"}}, chain.Options{}, chain.Chain[int]{Kind: "node.trip", Stages: []chain.Stage[int]{fails}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Start(ctx, chain.Start{ID: "r", Kind: "node.trip", Site: "dc1", State: 0}); err != nil {
			t.Fatal(err)
		}
		mark := func() error {
			_, err := e.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.MarkManual, Reason: "so are all", OnlyStopped: true, Says: &chain.Says{Code: "all_gone", Next: "find them"}})
			return err
		}
		if no, is := errors.AsType[*chain.Refused](mark()); !is || no.Code != "run_moving" {
			t.Errorf("%s: of one that goes on: %v", ends, no)
		}
		if err := chaintest.Settle(ctx, e, store, clock); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := mark(); err != nil {
				t.Fatal(err)
			}
		}
		r, err := store.Run(ctx, "r")
		if err != nil || r.Status != chain.FailedManual || r.Failure.Class != "lost" || r.Failure.Code != "all_gone" || r.Failure.Message != "so are all" || r.NextAction != "find them" {
			t.Errorf("%s: %+v, %+v, %v", ends, r, r.Failure, err)
		}
		var told int
		for _, m := range store.Outbox() {
			if m.Type == "node.trip.manual_intervention_required" {
				told++
			}
		}
		if told != said {
			t.Errorf("%s: told %d times", ends, told)
		}
	}
}
