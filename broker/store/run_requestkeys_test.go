package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A key and the run that it began are stored together, or neither is.
func TestARequestKeyIsKeptWithWhatItBegan(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		key := store.RequestKey{Actor: "olga", Key: "k", Digest: "d"}
		keyed := store.WithRequestKey(ctx, key)
		fresh := func(id string) chain.NewRun {
			return chain.NewRun{Locks: []string{"lock"}, Record: chain.Record{ID: id, Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, Stage: "s", Attempt: 1, State: []byte(`{}`), DueAt: db.Now()}}
		}
		ok(t, db.Insert(ctx, []chain.NewRun{fresh("r-0")}, nil))
		if _, refused := errors.AsType[*chain.Locked](db.Insert(keyed, []chain.NewRun{fresh("r-1")}, nil)); !refused {
			t.Error("the lock was given twice")
		}
		if id := must(db.Begun(ctx, key))(t); id != "" {
			t.Errorf("the refused run left its key, for %s", id)
		}
		free := fresh("r-2")
		free.Locks = nil
		ok(t, db.Insert(keyed, []chain.NewRun{free}, nil))
		free.ID = "r-3"
		before, was := errors.AsType[*store.BegunBefore](db.Insert(keyed, []chain.NewRun{free}, nil))
		if !was || before.ID != "r-2" {
			t.Errorf("inserted again: %v", before)
		}
		if _, err := db.Run(ctx, "r-3"); err == nil {
			t.Error("the second run is there")
		}
		key.Digest = "other"
		refused(t, db.Insert(store.WithRequestKey(ctx, key), []chain.NewRun{free}, nil), "idempotency_conflict")
		clock.Advance(24 * time.Hour)
		ok(t, db.Insert(store.WithRequestKey(ctx, key), []chain.NewRun{free}, nil))
		if id := must(db.Begun(ctx, key))(t); id != "r-3" {
			t.Errorf("a day later the key is of %q", id)
		}
	})
}
