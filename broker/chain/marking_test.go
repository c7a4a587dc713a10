package chain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// fishing is the state of a run that must take its nets in before it stops.
type fishing struct {
	Nets int    `json:"nets"`
	Home string `json:"home,omitempty"` // why the run is called home
}

// fisher runs a chain with Marking.
func fisher(t *testing.T, during func()) (*chain.Engine, *chaintest.Memory, *chaintest.Clock) {
	t.Helper()
	clock := chaintest.NewClock()
	store := chaintest.NewMemory(clock.Now)
	e, err := chain.New(store, chain.Classes{"called_home": {Ends: chain.FailedManual}, "storm": {Ends: chain.FailedRetryable}}, chain.Options{}, chain.Chain[fishing]{
		Kind: "fishing", Marking: func(s *fishing, why string) { s.Home = why },
		Stages: []chain.Stage[fishing]{{
			Name: "fish",
			Do: func(_ context.Context, r *chain.Run[fishing]) error {
				s := &r.State
				switch {
				case s.Home != "" && s.Nets > 0:
					s.Nets--
					return chain.Again(time.Second, "a net is taken in")
				case s.Home != "":
					why := s.Home
					s.Home = ""
					return chain.Fail("called_home", "it is home: %s", why)
				}
				during()
				return chain.Again(time.Minute, "it fishes")
			},
			Undo: func(context.Context, *chain.Run[fishing]) error { return chain.Fail("storm", "it cannot") },
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, chain.Start{ID: "f", Kind: "fishing", Site: "sea", State: fishing{Nets: 3}}); err != nil {
		t.Fatal(err)
	}
	return e, store, clock
}

func marked(t *testing.T, e *chain.Engine) error {
	t.Helper()
	_, err := e.Act(ctx, chain.Order{ID: "f", Actor: ada, Action: chain.MarkManual, Reason: "a storm comes"})
	return err
}

// A mark is stored in the run's state. The stages stop the run after putting everything away,
// also if the mark came during a step.
func TestAMarkThatTheStagesCarryOut(t *testing.T) {
	for name, inFlight := range map[string]bool{"between two steps": false, "in a step": true} {
		t.Run(name, func(t *testing.T) {
			var e *chain.Engine
			e, store, clock := fisher(t, func() {
				if inFlight {
					if err := marked(t, e); err != nil {
						t.Error(err)
					}
				}
			})
			if _, err := e.Step(ctx); err != nil {
				t.Fatal(err)
			}
			if !inFlight {
				if err := marked(t, e); err != nil {
					t.Fatal(err)
				}
			}
			if r, _ := store.Run(ctx, "f"); r.Status != chain.Running {
				t.Errorf("it is %s, with its nets out", r.Status)
			}
			if err := chaintest.Settle(ctx, e, store, clock); err != nil {
				t.Fatal(err)
			}
			r, _ := store.Run(ctx, "f")
			if r.Status != chain.FailedManual || r.Failure.Message != "it is home: a storm comes" || string(r.State) != `{"nets":0}` || r.Asked != chain.AskNothing {
				t.Errorf("it is %s: %+v, %s", r.Status, r.Failure, r.State)
			}
			if err := marked(t, e); err != nil {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// A run in undo has no stage that could stop it: the mark is refused, and the earlier request
// stays.
func TestARunThatTakesBackIsNotMarked(t *testing.T) {
	var e *chain.Engine
	e, store, clock := fisher(t, func() {
		if _, err := e.Act(ctx, chain.Order{ID: "f", Actor: ada, Action: chain.Cancel, Reason: "enough"}); err != nil {
			t.Error(err)
		}
		refused(t, marked(t, e))
	})
	if _, err := e.Step(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(ctx); err != nil {
		t.Fatal(err)
	}
	refused(t, marked(t, e))
	if err := chaintest.Settle(ctx, e, store, clock); err != nil {
		t.Fatal(err)
	}
	refused(t, marked(t, e))
	if r, _ := store.Run(ctx, "f"); r.Status != chain.FailedRetryable || r.Direction != chain.Undo || r.Failure.Code != "storm" {
		t.Errorf("it is %s: %+v", r.Status, r.Failure)
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	if no, ok := errors.AsType[*chain.Refused](err); !ok || no.Code != "run_compensating" {
		t.Errorf("a mark: %v", err)
	}
}

// While a cancel waits for the step in flight to end, a run neither continues nor starts again.
func TestAResumeDoesNotPassACancelThatWaits(t *testing.T) {
	var e *chain.Engine
	order := func(a chain.Action) error {
		_, err := e.Act(ctx, chain.Order{ID: "f", Actor: ada, Action: a, Reason: "a storm comes"})
		return err
	}
	asked := 0
	e, _, _ = fisher(t, func() {
		if err := order(chain.Cancel); err != nil {
			t.Error(err)
		}
		for _, a := range []chain.Action{chain.Resume, chain.Rerun, chain.Adopt, chain.MarkManual} {
			asked++
			if no, refused := errors.AsType[*chain.Refused](order(a)); !refused || no.Code != "run_compensating" {
				t.Errorf("%s: %v", a, no)
			}
		}
	})
	if _, err := e.Step(ctx); err != nil || asked != 4 {
		t.Fatalf("%d orders, %v", asked, err)
	}
}
