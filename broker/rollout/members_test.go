package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/rollout"
)

// former is the engine of a broker whose rollouts have their members in their state.
func (w *world) former() *chain.Engine {
	w.t.Helper()
	c := (&rollout.Chains{Nodes: w}).Rollout()
	c.Form = 1
	e, err := chain.New(w.store, nil, chain.Options{Owner: "former"}, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// A rollout begun by the previous broker continues with this broker, whose next step moves its
// members; all progress stays.
func TestAStateOfTheBrokerBefore(t *testing.T) {
	w := newWorld(t, 6)
	w.start(request())
	w.settle(50 * time.Second) // the canary soaks
	r, had := w.rollout()
	var state map[string]any
	if err := json.Unmarshal(r.State, &state); err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []string{"looked_at", "hears_from", "inspected_at"} {
		delete(state, unknown)
	}
	had.Members[0].Soak = rollout.Unsoaked // also unknown there
	state["members"] = had.Members
	if state["unsoaked"] != true || state["soak_from"] == nil {
		t.Fatalf("it does not soak: %s", r.State)
	}
	raw, err := json.Marshal(state)
	if err != nil || strings.Contains(string(raw), `"k"`) {
		t.Fatalf("%s, %v", raw, err)
	}
	if _, err := w.memory.Act(ctx, chain.Order{ID: "r"}, func(time.Time, chain.Record) (chain.Change, error) {
		r.State = raw
		return chain.Change{Record: r}, nil
	}); err != nil {
		t.Fatal(err)
	}
	w.members = nil
	if _, s := w.rollout(); len(s.Members) != 6 || s.Members[0].Result != rollout.Done {
		t.Fatalf("before it is moved, its members are %+v", s.Members)
	}
	w.settle(15 * time.Second)
	r, _ = w.rollout()
	if w.is(chain.Running, "", "waiting 5, done 1"); len(w.members) != 6 || strings.Contains(string(r.State), `"members"`) {
		t.Fatalf("%d members have rows, with state %s", len(w.members), r.State)
	}
	w.settle(time.Hour)
	w.is(chain.Completed, "", "done 6")
	w.once()
}

// Brokers are replaced one by one: a leader of the previous release neither steps a rollout that
// a newer leader has stepped nor acts on it, because it would find no members in the state.
func TestABrokerBeforeLeavesAMovedRolloutAlone(t *testing.T) {
	w := newWorld(t, 6)
	older, newer := w.former(), w.engine
	w.engine = older
	w.start(request())
	was, _ := w.rollout()
	w.engine = newer
	if worked, err := newer.Step(ctx); err != nil || !worked {
		t.Fatal(worked, err)
	}
	r, _ := w.rollout()
	if r.List == was.List || len(w.members) != 6 {
		t.Fatalf("moved, it is of list %s, with %d members", r.List, len(w.members))
	}
	w.clock.Advance(time.Minute)
	if worked, err := older.Step(ctx); err != nil || worked {
		t.Errorf("the older one steps it: %v, %v", worked, err)
	}
	_, err := older.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.Cancel, Reason: "no"})
	if no, refused := errors.AsType[*chain.Refused](err); !refused || no.Code != "list_unknown" {
		t.Errorf("the older one acts on it: %v", err)
	}
	w.settle(time.Hour)
	w.is(chain.Completed, "", "done 6")
}

// A step with progress of a single node writes only that node, however many members there are.
func TestAStepWritesTheMembersThatMovedOn(t *testing.T) {
	w := newWorld(t, 500)
	w.start(request())
	w.settle(time.Second) // moved, and the canary is begun
	most := 0
	w.store.Saved = func(c chain.Change, err error) {
		for _, e := range c.Effects {
			most = max(most, len(e.(broker.SaveMembers)))
		}
		if len(c.Record.State) > 2000 {
			t.Fatalf("a state of %d bytes is saved: %s", len(c.Record.State), c.Record.State)
		}
	}
	w.settle(45 * time.Second)
	if n := w.counts(); n != "waiting 499, done 1" || most != 1 {
		t.Errorf("%s, %d members in one save", n, most)
	}
}

// Missing rows, or rows of a newer broker, are left to a person: a rollout continues with all its
// members, or not at all.
func TestMembersThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct {
		code string
		harm func(*world)
	}{
		"all are gone": {"members_missing", func(w *world) { w.members = nil }},
		"one is gone":  {"members_missing", func(w *world) { w.members = slices.Delete(w.members, 2, 3) }},
		"one is newer": {"state_unreadable", func(w *world) { w.members[3].Member = []byte(`{"id":"n-003","r":"waiting","mood":"new"}`) }},
	} {
		w := newWorld(t, 6)
		w.start(request())
		w.settle(10 * time.Second)
		given := len(w.given)
		tt.harm(w)
		w.settle(time.Hour)
		r, err := w.memory.Run(ctx, "r")
		if err != nil || r.Status != chain.FailedManual || r.Failure.Code != tt.code || len(w.given) != given {
			t.Errorf("%s: %s %+v, given %v, %v", name, r.Status, r.Failure, w.given, err)
		}
	}
}

// After a panic of a stage, the state and the members are saved as after a failure.
func TestMembersOfAStepThatPanics(t *testing.T) {
	w := newWorld(t, 6)
	w.start(request())
	panics := true
	var err error
	c := &rollout.Chains{Nodes: panicky{w, &panics}}
	w.engine, err = chain.New(w.store, chain.Classes{chain.UpstreamTransient: {Retry: true, Ends: chain.FailedRetryable}}, chain.Options{}, c.Rollout())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.Step(ctx); err != nil {
		t.Fatal(err)
	}
	r, s := w.rollout()
	if r.Failure == nil || r.Failure.Code != "stage_panicked" || strings.Contains(string(r.State), `"members"`) || len(s.Members) != 6 {
		t.Fatalf("%+v, %d members, state %s", r.Failure, len(s.Members), r.State)
	}
	panics = false
	w.settle(time.Hour)
	w.is(chain.Completed, "", "done 6")
}

// panicky is a world whose releases cannot be read.
type panicky struct {
	*world
	panics *bool
}

func (p panicky) Release(ctx context.Context, version string, rollback bool) (rollout.Release, error) {
	if *p.panics {
		panic("no")
	}
	return p.world.Release(ctx, version, rollback)
}
