package store_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestRunsAreKeptAsChainsNeedThem(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			chaintest.Suite(t, func(t *testing.T) *chaintest.Backend {
				clock := storetest.NewClock()
				db := storetest.Open(t, engine, clock.Now)
				return &chaintest.Backend{
					Store: db, Advance: clock.Advance,
					Effect: func(name string) any {
						return broker.AuditEntry{Actor: "system", Action: "test.effect", Subject: "effect/" + name}
					},
					Applied: func() (names []string) {
						for _, e := range must(db.ListAudit(ctx, store.AuditFilter{Action: "test.effect"}))(t) {
							names = append(names, e.Subject[len("effect/"):])
						}
						return names
					},
					Outbox: func() []string { return must(store.OutboxTypes(ctx, db))(t) },
					Audits: func() (actions []string) {
						for _, e := range must(db.ListAudit(ctx, store.AuditFilter{}))(t) {
							if e.Action == "test.effect" {
								continue
							}
							if e.Code != "" {
								e.Action += "!" + e.Code
							}
							actions = append(actions, e.Action)
						}
						return actions
					},
				}
			})
		})
	}
}

func TestRunsOfABatchAreCountedByStatus(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for _, id := range []string{"b1", "b2"} {
			var runs []chain.NewRun
			for i := range 5 {
				runs = append(runs, chain.NewRun{Record: chain.Record{
					ID: fmt.Sprint(id, "-", i), Batch: id, Kind: "k", Site: "dc1", Status: chain.Pending, Stage: "s", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`), DueAt: db.Now(),
				}})
			}
			ok(t, db.Insert(ctx, runs, &chain.Batch{ID: id, Kind: "k", Site: "dc1", Parallel: 3}))
		}
		claim := func() chain.Record {
			return *must(db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Hour, Kinds: []string{"k"}}))(t)
		}
		failed, done := claim(), claim()
		failed.Status, done.Status = chain.FailedManual, chain.Completed
		ok(t, db.Save(ctx, chain.Change{Record: failed}))
		ok(t, db.Save(ctx, chain.Change{Record: done}))
		claim()
		want := map[string]int64{"pending": 2, "running": 1, "failed_manual_intervention": 1, "completed": 1}
		if got := must(db.BatchCounts(ctx, "b1"))(t); !maps.Equal(got, want) {
			t.Errorf("b1 has %v, want %v", got, want)
		}
		if got := must(db.BatchCounts(ctx, "b2"))(t); !maps.Equal(got, map[string]int64{"pending": 5}) {
			t.Errorf("b2 has %v", got)
		}
		if got := must(db.BatchCounts(ctx, ""))(t); got == nil || len(got) > 0 {
			t.Errorf("no batch has %v", got)
		}
	})
}

// The runs of a node are the runs that took its lock, including ended runs, in pages as usual.
func TestTheRunsOfANodeAreThoseThatHaveHadIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n, other := member(t, db, "gpu-1"), member(t, db, "gpu-2")
		hasRun(t, db, n, "r-1", "k")
		step(t, db, "k", chain.Completed, ended)
		hasRun(t, db, other, "r-2", "else")
		hasRun(t, db, n, "r-3", "k")
		step(t, db, "k", chain.Cancelled, ended)
		hasRun(t, db, n, "r-4", "more")
		for _, test := range []struct {
			of   broker.Node
			f    chain.Filter
			want []string
		}{
			{n, chain.Filter{}, []string{"r-1", "r-3", "r-4"}},
			{n, chain.Filter{Limit: 2}, []string{"r-1", "r-3"}},
			{n, chain.Filter{After: "r-3", Limit: 2}, []string{"r-4"}},
			{n, chain.Filter{Kind: "k", Statuses: []chain.Status{chain.Cancelled}}, []string{"r-3"}},
			{other, chain.Filter{}, []string{"r-2"}},
			{other, chain.Filter{Site: "dc2"}, nil},
			{broker.Node{ID: "n-none"}, chain.Filter{}, nil},
		} {
			var got []string
			for _, r := range must(db.RunsOfNode(ctx, test.of.ID, test.f))(t) {
				got = append(got, r.ID)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%s, %+v: %v, want %v", test.of.Hostname, test.f, got, test.want)
			}
		}
	})
}

// Of a run that was retried for long, little history is read, and each stage still has its start
// and its end.
func TestALongHistoryIsReadFromItsEnd(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{
			ID: "r", Kind: "k", Site: "dc1", Status: chain.Pending, Stage: "a", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`), DueAt: db.Now(),
		}}}, nil))
		for attempt, stage := range []string{"a", "a", "b", "b", "b", "b", "b", "c"} {
			r := must(db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Hour, Kinds: []string{"k"}}))(t)
			c := chain.Change{Record: *r}
			c.Events = []chain.Event{
				{Stage: stage, Direction: chain.Forward, Attempt: 10 + attempt, Status: chain.Started},
				{Stage: stage, Direction: chain.Forward, Attempt: 10 + attempt, Status: chain.Failed, Message: "no"},
			}
			if stage == "c" {
				c.Events = c.Events[:1] // in flight
			}
			ok(t, db.Save(ctx, c))
			clock.Advance(time.Minute)
		}
		told := func(events []chain.Event) (out []string) {
			for _, e := range events {
				out = append(out, fmt.Sprint(e.Stage, " ", e.Attempt, " ", e.Status))
			}
			return out
		}
		all := must(db.Events(ctx, "r"))(t)
		got := told(must(db.RecentEvents(ctx, "r", 3))(t))
		want := []string{"a 11 started", "a 11 failed", "b 16 started", "b 16 failed", "c 17 started"}
		if !slices.Equal(got, want) {
			t.Errorf("the last 3 and each stage's: %v, want %v", got, want)
		}
		if got := must(db.RecentEvents(ctx, "r", 100))(t); !slices.Equal(told(got), told(all)) || got[0].ID != all[0].ID || !got[0].At.Equal(all[0].At) {
			t.Errorf("all: %v, want %v", told(got), told(all))
		}
	})
}

// Of a history of thousands of events, only the returned events are read.
func TestAWatcherReadsNoWholeHistory(t *testing.T) {
	l := late(t)
	for _, id := range []string{"q", "r", "s", "t", "u", "v", "w", "x"} {
		ok(t, l.db.Insert(ctx, l.run(id), nil))
	}
	must(l.raw.Exec(`INSERT INTO chain_events (run_id, at, stage, direction, attempt, status, message, details)
		SELECT id, n, 'stage ' || n / 1000, 'forward', n, s, '', '' FROM generate_series(0, 4999) n, chain_runs, unnest(ARRAY['started', 'failed']) s ORDER BY n`))(t)
	must(l.raw.Exec(`ANALYZE chain_events`))(t)
	rows := must(l.raw.Query("EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) "+store.RecentEventsQuery, "r", 20))(t)
	defer func() { _ = rows.Close() }()
	read, plan := 0, ""
	scan := regexp.MustCompile(`Scan.* on chain_events.*\(actual rows=([0-9]+)[0-9.]* loops=([0-9]+)\)`)
	for rows.Next() {
		var line string
		ok(t, rows.Scan(&line))
		plan += line + "\n"
		if m := scan.FindStringSubmatch(line); m != nil {
			read += must(strconv.Atoi(m[1]))(t) * must(strconv.Atoi(m[2]))(t)
		}
	}
	if ok(t, rows.Err()); read == 0 || read > 200 {
		t.Errorf("%d rows are read of 80000:\n%s", read, plan)
	}
	if got := must(l.db.RecentEvents(ctx, "r", 20))(t); len(got) != 20+2*4 {
		t.Errorf("%d events are told", len(got))
	}
}

func TestSeveralEnginesOnOneStore(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url := storetest.URL(t, engine)
			stores := []chain.Store{storetest.Reopen(t, url, nil)}
			for engine == "postgres" && len(stores) < 3 {
				stores = append(stores, storetest.Reopen(t, url, nil))
			}
			chaintest.Several(t, 30, stores...)
		})
	}
}
