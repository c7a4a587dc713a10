package chain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// An operator lets a run continue past a waivable stage, and past no other stage; later stages
// see the waiver.
func TestAnOperatorHasARunGoOnWithoutAStage(t *testing.T) {
	clock := chaintest.NewClock()
	store := chaintest.NewMemory(clock.Now)
	failing := func(context.Context, *chain.Run[ship]) error { return chain.Fail("storm", "it fails") }
	mended := false
	var waived []chain.Waiver
	e, err := chain.New(store, chain.Classes{"storm": {Ends: chain.FailedManual}}, chain.Options{}, chain.Chain[ship]{Kind: "voyage", Stages: []chain.Stage[ship]{
		{Name: "sweep", Waivable: true, Do: func(ctx context.Context, r *chain.Run[ship]) error {
			if mended {
				r.AlreadyDone(nil, "somebody swept")
				return nil
			}
			return failing(ctx, r)
		}},
		{Name: "look", Do: func(_ context.Context, r *chain.Run[ship]) error {
			waived = r.Waived
			return chain.Fail("storm", "it fails")
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, chain.Start{ID: "v1", Kind: "voyage", Site: "sea", State: ship{}}); err != nil {
		t.Fatal(err)
	}
	act := func(a chain.Action, without string) error {
		_, err := e.Act(ctx, chain.Order{ID: "v1", Actor: ada, Action: a, Reason: "it is gone", Without: without})
		if err == nil {
			err = chaintest.Settle(ctx, e, store, clock)
		}
		return err
	}
	if err := chaintest.Settle(ctx, e, store, clock); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		action  chain.Action
		without string
		says    string
	}{
		{chain.Resume, "look", "the run is at sweep"},
		{chain.Adopt, "sweep", "the run is at sweep"},
		{chain.Resume, "", ""},
		{chain.Resume, "sweep", ""},
		{chain.Resume, "look", "depend on this stage"},
	} {
		if err := act(c.action, c.without); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s without %q: %v, want %q", c.action, c.without, err, c.says)
		}
	}
	if len(waived) != 1 || waived[0].Stage != "sweep" || waived[0].By != ada.Name || waived[0].Reason != "it is gone" || waived[0].At.IsZero() {
		t.Errorf("the stage behind knows of %+v", waived)
	}
	mended = true
	if err := act(chain.Rerun, ""); err != nil || len(waived) != 0 {
		t.Errorf("gone through, it is still waived: %+v, %v", waived, err)
	}
	events, err := store.Events(ctx, "v1")
	if err != nil {
		t.Fatal(err)
	}
	var skipped []string
	for _, ev := range events {
		if ev.Status == chain.Skipped {
			skipped = append(skipped, ev.Stage+": "+ev.Message)
		}
	}
	if strings.Join(skipped, "; ") != "sweep: not made, by order of ada: it is gone; sweep: somebody swept" {
		t.Errorf("skipped: %q", skipped)
	}
}
