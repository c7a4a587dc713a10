package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// latecomer is a store on PostgreSQL whose transactions must wait for another transaction.
type latecomer struct {
	*testing.T
	db    *store.DB
	clock *storetest.Clock
	raw   *sql.DB
}

func late(t *testing.T) *latecomer {
	url, clock := storetest.URL(t, "postgres"), storetest.NewClock()
	l := &latecomer{T: t, db: storetest.Reopen(t, url, clock.Now), clock: clock, raw: must(sql.Open("pgx", url))(t)}
	t.Cleanup(func() { _ = l.raw.Close() })
	return l
}

// run returns a new run that is due.
func (l *latecomer) run(id string, locks ...string) []chain.NewRun {
	l.Helper()
	return []chain.NewRun{{Locks: locks, Record: chain.Record{
		ID: id, Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, Stage: "s", Attempt: 1, State: []byte(`{}`), DueAt: l.db.Now(),
	}}}
}

func (l *latecomer) claim() *chain.Record {
	l.Helper()
	r := must(l.db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Hour, Kinds: []string{"k"}}))(l.T)
	if r == nil {
		l.Fatal("nothing was claimed")
	}
	return r
}

// behind runs statement in a blocking transaction, lets f wait behind the blocker for a minute, and
// rolls the blocker back.
func (l *latecomer) behind(statement string, f func() error) {
	l.Helper()
	blocker := must(l.raw.BeginTx(ctx, nil))(l.T)
	must(blocker.Exec(statement))(l.T)
	done := make(chan error, 1)
	go func() { done <- f() }()
	waitFor(l.T, l.raw, "it to wait", `SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database())`)
	l.clock.Advance(time.Minute)
	ok(l.T, blocker.Rollback())
	ok(l.T, <-done)
}

// same checks that a run, its last event and its last message have the same time.
func (l *latecomer) same(id string, of func(chain.Record) time.Time) {
	l.Helper()
	now := l.db.Now()
	r := must(l.db.Run(ctx, id))(l.T)
	events := must(l.db.Events(ctx, id))(l.T)
	if !r.UpdatedAt.Equal(now) || !of(r).Equal(now) || !events[len(events)-1].At.Equal(now) {
		l.Errorf("at %v the run was written with %v and %v, and its event with %v", now, r.UpdatedAt, of(r), events[len(events)-1].At)
	}
	var told int64
	ok(l.T, l.raw.QueryRow(`SELECT at FROM outbox ORDER BY id DESC LIMIT 1`).Scan(&told))
	if told != now.UnixMicro() {
		l.Errorf("at %v its message was written with %v", now, time.UnixMicro(told).UTC())
	}
}

func (l *latecomer) completed(r *chain.Record, locks ...string) func() error {
	c := chain.Change{
		Record: *r, Locks: locks, Messages: []chain.Message{{Type: "k.completed", Subject: "run/" + r.ID}},
		Events: []chain.Event{{Stage: "s", Direction: chain.Forward, Attempt: 1, Status: chain.Succeeded}},
	}
	c.Record.Status, c.Record.CompletedAt = chain.Completed, l.db.Now()
	return func() error { return l.db.Save(ctx, c) }
}

func completedAt(r chain.Record) time.Time { return r.CompletedAt }

func TestARunThatWaitedForItsRowCarriesTheTimeOfItsEvent(t *testing.T) {
	l := late(t)
	ok(t, l.db.Insert(ctx, l.run("r-1"), nil))
	l.behind(`SELECT id FROM chain_runs WHERE id = 'r-1' FOR UPDATE`, l.completed(l.claim()))
	l.same("r-1", completedAt)
}

func TestARunThatWaitedForALockCarriesTheTimeOfItsEvent(t *testing.T) {
	l := late(t)
	ok(t, l.db.Insert(ctx, l.run("r-1"), nil))
	r := l.claim()
	ok(t, l.db.Insert(ctx, l.run("r-2"), nil))
	l.behind(`INSERT INTO chain_locks (name, run_id, taken_at) VALUES ('node/n', 'r-2', 0)`, l.completed(r, "node/n"))
	l.same("r-1", completedAt)
}

func TestAClaimThatWaitedForAFreezeCarriesTheTimeOfItsEvent(t *testing.T) {
	l := late(t)
	ok(t, l.db.Insert(ctx, l.run("r-1"), nil))
	var r *chain.Record
	l.behind(fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, store.FreezeGate), func() (err error) {
		r, err = l.db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Hour, Kinds: []string{"k"}})
		return err
	})
	l.same("r-1", func(r chain.Record) time.Time { return r.StartedAt })
	if now := l.db.Now(); r == nil || !r.EnteredAt.Equal(now) || !r.LeaseTill.Equal(now.Add(time.Hour)) {
		t.Errorf("at %v it claimed %+v", now, r)
	}
}

func TestARunIsRequestedWhenItIsWrittenAndNotWhenThatBegan(t *testing.T) {
	l := late(t)
	ok(t, l.db.Insert(ctx, l.run("r-1"), nil))
	e, err := chain.New(l.db, nil, chain.Options{}, chain.Chain[struct{}]{Kind: "k", Stages: []chain.Stage[struct{}]{{
		Name: "s", Do: func(context.Context, *chain.Run[struct{}]) error { return nil },
	}}})
	ok(t, err)
	var begun []chain.Record
	l.behind(`INSERT INTO chain_locks (name, run_id, taken_at) VALUES ('node/n', 'r-1', 0)`, func() (err error) {
		begun, err = e.StartBatch(ctx, chain.Batch{ID: "b", Kind: "k", Site: "dc1"}, []chain.Start{
			{Kind: "k", Site: "dc1", State: struct{}{}}, {Kind: "k", Site: "dc1", State: struct{}{}, Locks: []string{"node/n"}},
		})
		return err
	})
	now := l.db.Now()
	for _, r := range begun {
		if had := must(l.db.Run(ctx, r.ID))(t); !had.RequestedAt.Equal(now) || !had.UpdatedAt.Equal(now) || !r.RequestedAt.Equal(now) || !r.UpdatedAt.Equal(now) {
			t.Errorf("at %v it is requested at %v, and answered is %v", now, had.RequestedAt, r.RequestedAt)
		}
		for _, e := range must(l.db.ListAudit(ctx, store.AuditFilter{Subject: "run/" + r.ID}))(t) {
			if !e.At.Equal(now) {
				t.Errorf("at %v it is audited with %v", now, e.At)
			}
		}
	}
	if b := must(l.db.Batch(ctx, "b"))(t); !b.RequestedAt.Equal(now) {
		t.Errorf("at %v the batch is requested at %v", now, b.RequestedAt)
	}
}
