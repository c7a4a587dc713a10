package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A stage's changes of members are stored with the stage's save, or not at all: not if another
// broker has claimed the run, and not if another effect of the stage is refused.
func TestMembersOfARolloutAreSavedWithTheirStep(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		for _, id := range []string{"r-1", "r-2"} {
			ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{
				ID: id, Kind: "k", Site: "-", Status: chain.Pending, Stage: "s", Direction: chain.Forward, Attempt: 1, DueAt: db.Now(), RequestedBy: "ada",
			}}}, nil))
		}
		claim := func() chain.Record {
			return *must(db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"k"}}))(t)
		}
		is := func(run string, n int, at9 string) {
			t.Helper()
			all := must(db.RolloutMembers(ctx, run))(t)
			if len(all) != n || n > 0 && string(all[9].Member) != at9 {
				t.Fatalf("%s has %d members, want %d with %s", run, len(all), n, at9)
			}
			for i, m := range all {
				if m.Place != i {
					t.Fatalf("%s: %d is at place %d", run, i, m.Place)
				}
			}
		}
		var all broker.SaveMembers
		for i := range 1203 { // more than a single statement writes
			all = append(all, broker.RolloutMember{Place: i, Member: fmt.Appendf(nil, `{"id":"n-%d"}`, i)})
		}
		first, second := claim(), claim()
		is(first.ID, 0, "")
		next := first
		next.DueAt = db.Now().Add(time.Hour)
		ok(t, db.Save(ctx, chain.Change{Record: next, Effects: []any{all}}))
		is(first.ID, 1203, `{"id":"n-9"}`)
		is(second.ID, 0, "")
		moved := broker.SaveMembers{{Place: 9, Member: []byte(`{"id":"n-9","r":"done"}`)}}
		if err := db.Save(ctx, chain.Change{Record: next, Effects: []any{moved}}); !errors.Is(err, chain.ErrLost) {
			t.Fatalf("a save of a claim that is over: %v", err)
		}
		is(first.ID, 1203, `{"id":"n-9"}`)
		clock.Advance(time.Hour)
		again := claim()
		for again.ID != first.ID {
			again = claim()
		}
		if err := db.Save(ctx, chain.Change{Record: again, Effects: []any{moved, struct{ unknown int }{}}}); !isEffectRefused(err) {
			t.Fatalf("with an effect that nothing applies: %v", err)
		}
		is(first.ID, 1203, `{"id":"n-9"}`)
		ok(t, db.Save(ctx, chain.Change{Record: again, Effects: []any{moved}}))
		is(first.ID, 1203, `{"id":"n-9","r":"done"}`)
	})
}

func isEffectRefused(err error) bool {
	_, refused := errors.AsType[*chain.EffectRefused](err)
	return refused
}
