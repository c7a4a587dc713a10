package chain_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// engineRoom is a state that other chains include as a part.
type engineRoom struct {
	Steam int `json:"steam"`
	Limit int `json:"limit"`
}

// ship has an engine room.
type ship struct {
	Name string     `json:"name"`
	Room engineRoom `json:"room"`
}

func roomOf(s *ship) *engineRoom { return &s.Room }

// A stage within another chain keeps all its behaviour: it looks, works, notes, locks, fails, is
// rescued and is taken back.
func TestAStageWithinAnotherChainIsTheSameStage(t *testing.T) {
	heat := chain.Stage[engineRoom]{
		Name:  "heat",
		Retry: func(s engineRoom) chain.Retry { return chain.Retry{Attempts: s.Limit} },
		Limit: func(s engineRoom) chain.Limit { return chain.Limit{After: time.Duration(s.Limit) * time.Hour} },
		About: func(s engineRoom) chain.About { return chain.About{Expected: time.Duration(s.Limit) * time.Minute} },
		Do: func(_ context.Context, r *chain.Run[engineRoom]) error {
			r.State.Steam++
			if !r.Clock().Equal(r.Now) {
				t.Errorf("its clock says %v at %v", r.Clock(), r.Now)
			}
			r.Lock("room/" + r.ID)
			r.Note(nil, "steam %d of %s", r.State.Steam, r.Key())
			if r.Clock().IsZero() {
				t.Error("there is no clock")
			}
			if r.State.Steam == 1 {
				return chain.Again(time.Second, "cold")
			}
			if r.State.Steam == 2 {
				return chain.Fail("valve", "stuck")
			}
			return nil
		},
		Undo: func(_ context.Context, r *chain.Run[engineRoom]) error {
			r.State.Steam = 0
			return nil
		},
		Rescue: []chain.Stage[engineRoom]{{
			Name: "oil", Then: "heat",
			Do: func(_ context.Context, r *chain.Run[engineRoom]) error {
				r.State.Steam = 40
				return nil
			},
		}},
	}
	sailed := false
	voyage := chain.Chain[ship]{Kind: "voyage", Stages: []chain.Stage[ship]{
		chain.Within(heat, roomOf),
		{
			Name: "sail",
			Done: func(_ context.Context, r *chain.Run[ship]) (bool, error) { return sailed, nil },
			Do: func(_ context.Context, r *chain.Run[ship]) error {
				if r.State.Room.Steam != 41 || r.State.Name != "Ada" {
					t.Errorf("it sails with %+v", r.State)
				}
				sailed = true
				return chain.Fail("storm", "back")
			},
		},
	}}
	plan, err := chain.Plan(voyage, ship{Room: engineRoom{Limit: 1}})
	if err != nil || len(plan) != 3 || plan[0].Expected != time.Minute || plan[1].Rescues != "heat" {
		t.Fatalf("plan %+v, %v", plan, err)
	}

	clock := chaintest.NewClock()
	store := chaintest.NewMemory(clock.Now)
	e, err := chain.New(store, chain.Classes{"valve": {Rescue: true, Ends: chain.FailedManual}, "storm": {Ends: chain.FailedManual}}, chain.Options{}, voyage)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, chain.Start{ID: "v1", Kind: "voyage", Site: "sea", State: ship{Name: "Ada", Room: engineRoom{Limit: 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := chaintest.Settle(ctx, e, store, clock); err != nil {
		t.Fatal(err)
	}
	r, err := store.Run(ctx, "v1")
	if err != nil || !sailed || r.Stage != "sail" || r.Status != chain.FailedManual {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := e.Act(ctx, chain.Order{ID: "v1", Actor: ada, Action: chain.Cancel}); err != nil {
		t.Fatal(err)
	}
	if err := chaintest.Settle(ctx, e, store, clock); err != nil {
		t.Fatal(err)
	}
	r, err = store.Run(ctx, "v1")
	var s ship
	if err != nil || r.Status != chain.Cancelled || json.Unmarshal(r.State, &s) != nil || s.Room.Steam != 0 || s.Name != "Ada" {
		t.Fatalf("%+v, %s, %v", r, r.State, err)
	}
}

// A stage's changes to its part are kept when it panics.
func TestAStageWithinAnotherChainKeepsItsStateInAPanic(t *testing.T) {
	s := chain.Within(chain.Stage[engineRoom]{Name: "burst", Do: func(_ context.Context, r *chain.Run[engineRoom]) error {
		r.State.Steam = 99
		panic("too much")
	}}, roomOf)
	r := &chain.Run[ship]{}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nobody heard of it")
			}
		}()
		_ = s.Do(ctx, r)
	}()
	if r.State.Room.Steam != 99 {
		t.Errorf("%+v", r.State)
	}
}

// An inner run has every field of the outer run: without LostAt, for example, the inner stage would
// believe that no step was lost.
func TestAStageWithinAnotherChainKnowsAllOfItsRun(t *testing.T) {
	outer := &chain.Run[ship]{State: ship{Room: engineRoom{Steam: 1}}}
	v := reflect.ValueOf(outer).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Name == "State" {
			break // the fields behind State are the engine's
		}
		switch f := v.Field(i); f.Interface().(type) {
		case string:
			f.SetString(v.Type().Field(i).Name)
		case int:
			f.SetInt(int64(i))
		case bool:
			f.SetBool(true)
		case time.Time:
			f.Set(reflect.ValueOf(time.Unix(int64(i), 0)))
		case *chain.Failure:
			f.Set(reflect.ValueOf(&chain.Failure{Code: "storm"}))
		case []chain.Waiver:
			f.Set(reflect.ValueOf([]chain.Waiver{{Stage: "drain"}}))
		}
	}
	s := chain.Within(chain.Stage[engineRoom]{Name: "look", Do: func(_ context.Context, r *chain.Run[engineRoom]) error {
		inner := reflect.ValueOf(r).Elem()
		for i := range inner.NumField() {
			name := inner.Type().Field(i).Name
			if name == "State" {
				break
			}
			if !reflect.DeepEqual(inner.Field(i).Interface(), v.Field(i).Interface()) || inner.Field(i).IsZero() {
				t.Errorf("%s is %v, and of its run %v", name, inner.Field(i), v.Field(i))
			}
		}
		return nil
	}}, roomOf)
	if err := s.Do(ctx, outer); err != nil {
		t.Fatal(err)
	}
}
