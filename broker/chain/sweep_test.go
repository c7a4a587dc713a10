package chain_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// outside is the world that stages change: things that exist or not, and requests under
// idempotency keys. It counts the changes.
type outside struct {
	there    map[string]bool
	requests map[string]bool
	done     map[string]int
}

// thing is a stage that makes a missing thing, and whose undo takes the thing away.
func (o *outside) thing(name string) chain.Stage[chaintest.ScriptState] {
	type run = *chain.Run[chaintest.ScriptState]
	return chain.Stage[chaintest.ScriptState]{
		Name: name,
		Done: func(context.Context, run) (bool, error) { return o.there[name], nil },
		Do: func(_ context.Context, r run) error {
			o.there[name] = true
			o.done["make "+name]++
			r.Apply("made " + name)
			r.Publish(chain.Message{Type: "made." + name})
			return nil
		},
		Undo: func(context.Context, run) error {
			if o.there[name] {
				o.there[name] = false
				o.done["remove "+name]++
			}
			return nil
		},
	}
}

// request is a stage that makes a request under its key, and waits for the result.
func (o *outside) request(name string) chain.Stage[chaintest.ScriptState] {
	return chain.Stage[chaintest.ScriptState]{
		Name: name,
		Do: func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
			if o.requests[r.Key()] {
				return nil
			}
			o.requests[r.Key()] = true
			o.done["request "+name]++
			return chain.Again(time.Second, "asked for")
		},
	}
}

func newOutside() (*outside, chain.Chain[chaintest.ScriptState]) {
	o := &outside{map[string]bool{}, map[string]bool{}, map[string]int{}}
	return o, chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{o.thing("a"), o.request("b"), o.thing("c")}}
}

// Every call of the store is lost in turn, on the way there and on the way back, together with
// the broker. Each time the run comes to its end, with each effect once.
func TestEachSaveMayBeLost(t *testing.T) {
	for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
		for n := 0; ; n++ {
			calls := sweep(t, fmt.Sprintf("fate %v at call %d", fate, n), func(call int) chaintest.Fate {
				if call == n {
					return fate
				}
				return chaintest.Done
			})
			if calls <= n {
				break
			}
		}
	}
}

// The same with two losses, at every pair of calls.
func TestAnyTwoSavesMayBeLost(t *testing.T) {
	for n := range 24 {
		for m := range n {
			for fates := range 4 {
				sweep(t, fmt.Sprintf("fates %d at calls %d and %d", fates, m, n), func(call int) chaintest.Fate {
					switch call {
					case m:
						return chaintest.Lost + chaintest.Fate(fates%2)
					case n:
						return chaintest.Lost + chaintest.Fate(fates/2)
					}
					return chaintest.Done
				})
			}
		}
	}
}

// sweep runs a chain forward, and then back on the operator's order.
func sweep(t *testing.T, when string, fate func(int) chaintest.Fate) (calls int) {
	t.Helper()
	clock := chaintest.NewClock()
	memory := chaintest.NewMemory(clock.Now)
	store := &chaintest.Lossy{Store: memory, Fate: fate}
	o, c := newOutside()
	c.Stages = append(c.Stages, chain.Stage[chaintest.ScriptState]{
		Name: "d", Do: func(context.Context, *chain.Run[chaintest.ScriptState]) error { return chain.Fail("mismatch", "no") },
	})
	brokers := 0
	engine := func() *chain.Engine {
		brokers++
		return newEngine(t, store, fmt.Sprint("broker ", brokers), c)
	}
	e := engine()
	_, err := e.Start(ctx, chain.Start{ID: "r", Kind: c.Kind, Site: "dc1", State: chaintest.ScriptState{}, Locks: []string{"node/n"}})
	if err != nil {
		t.Fatal(err)
	}
	settle := func() {
		for range 200 {
			worked, err := e.Step(ctx)
			if errors.Is(err, chaintest.ErrKilled) {
				e = engine()
			} else if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if worked {
				continue
			}
			next, err := store.NextDue(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if next.IsZero() {
				if r, _ := store.Run(ctx, "r"); !r.Status.Moving() {
					return
				}
			}
			clock.AdvanceTo(next)
		}
		t.Fatalf("%s: it does not come to an end", when)
	}
	settle()
	if _, err := e.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.Cancel}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	settle()
	r, err := store.Run(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"make a": 1, "request b": 1, "make c": 1, "remove a": 1, "remove c": 1}
	if r.Status != chain.Cancelled || !maps.Equal(o.done, want) {
		t.Errorf("%s: ends %s with %v", when, r.Status, o.done)
	}
	// A thing made just before a lost save is found, and its stage skipped; the effects were lost
	// with the save. A saved effect is saved once.
	seen := map[string]int{}
	for _, e := range memory.Effects() {
		seen[e.(string)]++
	}
	for _, m := range memory.Outbox() {
		seen[m.Type]++
	}
	for what, n := range seen {
		if n != 1 {
			t.Errorf("%s: %s came %d times", when, what, n)
		}
	}
	for _, word := range []string{"started", "manual_intervention_required", "compensating", "cancelled"} {
		if seen[chaintest.ScriptKind+"."+word] != 1 {
			t.Errorf("%s: the outbox has %v", when, slices.Collect(maps.Keys(seen)))
		}
	}
	return store.Calls()
}
