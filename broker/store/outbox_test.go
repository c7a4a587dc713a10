package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// placed returns all events, with their places.
func placed(t testing.TB, db *store.DB, f store.OutboxFilter) []store.OutboxEvent {
	t.Helper()
	for must(db.PlaceEvents(ctx, 2))(t) > 0 { //nolint:revive // until there is nothing left to place
	}
	f.Limit = 1000
	page, _, err := db.Outbox(ctx, f)
	ok(t, err)
	return page
}

func moved(t testing.TB, e store.OutboxEvent) string {
	t.Helper()
	var data struct{ From, To, Site, By string }
	ok(t, json.Unmarshal(e.Data, &data))
	return fmt.Sprintf("%d %s %s %s→%s at %s by %s", e.Position, e.Type, e.Subject, data.From, data.To, data.Site, data.By)
}

func TestEachChangeOfANodesStatusIsAnEvent(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		to := func(s broker.NodeStatus, by broker.Owner) error {
			_, err := db.Transition(ctx, olga, n.ID, store.Change{To: s, By: by, Reason: "r"})
			return err
		}
		ok(t, to(broker.Quarantined, broker.OwnerOperator))
		ok(t, to(broker.Quarantined, broker.OwnerOperator)) // no change
		if to(broker.BootstrapIssued, broker.OwnerOperator) == nil {
			t.Fatal("a node went back to its beginning")
		}
		storetest.OweTurnover(t, db, n.ID, true) // no change of status either
		want := []string{
			"1 node.status.changed node/n-one →bootstrap_issued at dc1 by ada",
			"2 node.status.changed node/n-one bootstrap_issued→enrolling at dc1 by node:n-one",
			"3 node.status.changed node/n-one enrolling→quarantined at dc1 by olga",
		}
		var got []string
		for _, e := range placed(t, db, store.OutboxFilter{}) {
			got = append(got, moved(t, e))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the events are %q", got)
		}
	})
}

// TestALateCommitComesAtTheEnd lets two transactions take ids in one order and commit in the other
// order. A reader that followed ids would miss the first event.
func TestALateCommitComesAtTheEnd(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, nil)
	raw := storetest.Raw(t, url)
	slow := must(raw.BeginTx(ctx, nil))(t)
	must(slow.Exec(`INSERT INTO outbox (at, type, source, subject, data, correlation_id) VALUES (1, 'slow', 's', 'x/1', '{}', '')`))(t)
	newNode(t, db, "one")

	first := placed(t, db, store.OutboxFilter{})
	if len(first) != 1 || first[0].Position != 1 || first[0].Type != "node.status.changed" {
		t.Fatalf("before the commit there is %+v", first)
	}
	ok(t, slow.Commit())
	after := placed(t, db, store.OutboxFilter{After: 1})
	if len(after) != 1 || after[0].Position != 2 || after[0].Type != "slow" {
		t.Errorf("whoever has seen 1 gets %+v", after)
	}
}

// TestAReaderMissesNothing lets two brokers write and place events concurrently, while a client
// reads.
func TestAReaderMissesNothing(t *testing.T) {
	a, b, _ := replicas(t)
	const each = 40
	done := make(chan error, 4)
	for i, db := range []*store.DB{a, b, a} {
		go func() {
			for k := range each {
				if _, err := db.CreateNode(ctx, admin, store.NewNode{ID: fmt.Sprintf("n-%d-%d", i, k), Hostname: fmt.Sprintf("h-%d-%d", i, k)}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
				if _, err := a.PlaceEvents(ctx, 7); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	seen, after := map[string]int{}, int64(0)
	deadline := time.Now().Add(30 * time.Second)
	for len(seen) < 3*each && time.Now().Before(deadline) {
		must(b.PlaceEvents(ctx, 5))(t)
		page, upTo, err := b.Outbox(ctx, store.OutboxFilter{After: after, Limit: 9})
		ok(t, err)
		for _, e := range page {
			if e.Position != after+1 {
				t.Fatalf("after %d comes %d", after, e.Position)
			}
			seen[e.Subject]++
			after = e.Position
		}
		if upTo != after {
			t.Fatalf("looked up to %d, and the last is %d", upTo, after)
		}
	}
	close(stop)
	for range 4 {
		ok(t, <-done)
	}
	if len(seen) != 3*each {
		t.Errorf("%d of %d events were read", len(seen), 3*each)
	}
}

func TestEventsAreFilteredAndNeverOfAnotherSite(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		one := memberAt(t, db, "one", "dc1")
		memberAt(t, db, "two", "dc2")
		newNode(t, db, "none")
		freezeBoth(t, db)
		for name, row := range map[string]struct {
			f    store.OutboxFilter
			want int
		}{
			"all":               {store.OutboxFilter{}, 7},
			"of a node":         {store.OutboxFilter{Subject: "node/" + one.ID}, 2},
			"of a type":         {store.OutboxFilter{Types: []string{"site.freeze"}}, 2},
			"of two types":      {store.OutboxFilter{Types: []string{"site.freeze", "node.status.changed"}}, 7},
			"of dc1":            {store.OutboxFilter{Sites: []string{"dc1"}}, 4}, // two of its node, and two freezes
			"of dc2":            {store.OutboxFilter{Sites: []string{"dc2"}}, 3}, // and the freeze of all
			"of a third":        {store.OutboxFilter{Sites: []string{"dc3"}}, 1},
			"of dc1 in dc2":     {store.OutboxFilter{Sites: []string{"dc2"}, Subject: "node/" + one.ID}, 0},
			"after the fifth":   {store.OutboxFilter{After: 5}, 2},
			"after the newest":  {store.OutboxFilter{After: 7}, 0},
			"of a type in none": {store.OutboxFilter{Sites: []string{}, Types: []string{"node.status.changed"}}, 0},
		} {
			if got := placed(t, db, row.f); len(got) != row.want {
				t.Errorf("%s: %+v, want %d", name, got, row.want)
			}
		}
		_, _, err := db.Outbox(ctx, store.OutboxFilter{After: 8})
		refused(t, err, "event_unknown")
	})
}

// A project has the statuses of its own allocations, also those that a broker of an earlier release
// wrote, and a hint when there are new ones. What is billed, and all else, it does not have.
func TestAProjectHasTheEventsOfItsAllocations(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 1)
		walk(t, db, must(asks(db, "a-1", "h100", 1))(t), toProvisioning, toActive)
		hints := db.Hints(t.Context())
		var types []string
		for _, e := range placed(t, db, store.OutboxFilter{ProjectID: "p-1"}) {
			if e.Subject != "allocation/a-1" {
				t.Errorf("it has %+v", e)
			}
			types = append(types, e.Type)
		}
		if fmt.Sprint(types) != "[provisioning.requested provisioning.active]" {
			t.Errorf("it has %q", types)
		}
		if got := placed(t, db, store.OutboxFilter{ProjectID: "p-2"}); len(got) != 0 {
			t.Errorf("another has %+v", got)
		}
		heard := map[store.HintKind]bool{}
		for len(hints) > 0 {
			heard[(<-hints).Kind] = true
		}
		if !heard[store.HintProjectEvents] {
			t.Errorf("the hints are %v", heard)
		}
		memberAt(t, db, "other", "dc1")
		placed(t, db, store.OutboxFilter{})
		for len(hints) > 0 {
			if h := <-hints; h.Kind == store.HintProjectEvents {
				t.Error("a node's status wakes the readers of projects")
			}
		}
	})
}

func TestEventsAreForgottenOldestFirst(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		for i := range 10 {
			newNode(t, db, fmt.Sprintf("h%d", i))
			clock.Advance(time.Hour)
		}
		placed(t, db, store.OutboxFilter{})
		forget := func(age time.Duration, most, limit, want int64, left int) {
			t.Helper()
			if gone := must(db.ForgetEvents(ctx, db.Now().Add(-age), most, limit, ""))(t); gone != want {
				t.Errorf("%d were forgotten, want %d", gone, want)
			}
			_, forgotten, err := db.OutboxEnds(ctx)
			ok(t, err)
			if got := placed(t, db, store.OutboxFilter{After: forgotten}); len(got) != left {
				t.Errorf("%d are left, want %d", len(got), left)
			}
		}
		forget(100*time.Hour, 100, 100, 0, 10)
		forget(8*time.Hour+time.Minute, 100, 100, 2, 8)
		forget(time.Hour, 100, 3, 3, 5)
		forget(100*time.Hour, 2, 100, 3, 2)
		_, _, err := db.Outbox(ctx, store.OutboxFilter{After: 7})
		refused(t, err, "events_forgotten")
		forget(0, 0, 100, 2, 0)
		newNode(t, db, "more")
		if got := placed(t, db, store.OutboxFilter{After: 10}); len(got) != 1 || got[0].Position != 11 {
			t.Errorf("the next one is %+v", got)
		}
	})
}

// An event without a place is not deleted, whatever its age.
func TestWhatNobodyCouldReadIsNotForgotten(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		newNode(t, db, "one")
		clock.Advance(1000 * time.Hour)
		must(db.ForgetEvents(ctx, db.Now(), 0, 100, ""))(t)
		if got := placed(t, db, store.OutboxFilter{}); len(got) != 1 {
			t.Errorf("there is %+v", got)
		}
	})
}

// TestAnEventSaysWhenItsTransactionWroteIt makes a transition wait for a row lock: the time of its
// event is after the wait, not before.
func TestAnEventSaysWhenItsTransactionWroteIt(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, nil)
	n := newMember(t, db, "one")
	raw := storetest.Raw(t, url)
	blocker := must(raw.BeginTx(ctx, nil))(t)
	must(blocker.Exec(`SELECT 1 FROM nodes WHERE id = $1 FOR UPDATE`, n.ID))(t)
	done := make(chan error, 1)
	go func() {
		_, err := db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator})
		done <- err
	}()
	waitFor(t, raw, "the transition to wait", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND NOT granted)`)
	released := db.Now()
	ok(t, blocker.Rollback())
	ok(t, <-done)
	events := placed(t, db, store.OutboxFilter{})
	if last := events[len(events)-1]; last.At.Before(released) {
		t.Errorf("%s says %s, and its transaction could not go on before %s", last.Type, last.At, released)
	}
}

// Every statement that makes a node or changes a node's status has a call beside it that announces
// the change.
func TestEveryStatementThatChangesAStatusTells(t *testing.T) {
	statement := regexp.MustCompile("(?s)`UPDATE nodes SET[^`]*?\\bstatus = [^`]*?WHERE|`INSERT INTO nodes \\(")
	found := 0
	for _, path := range must(filepath.Glob("*.go"))(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		raw := string(must(os.ReadFile(path))(t))
		changes, tells := 0, strings.Count(raw, "t.tellStatus(")
		for _, s := range statement.FindAllString(raw, -1) {
			if head, _, _ := strings.Cut(s, "WHERE"); strings.HasPrefix(s, "`INSERT") || strings.Contains(head, " status = ") {
				changes++
			}
		}
		if changes != tells {
			t.Errorf("%s changes a node's status %d times, and tells of it %d times", path, changes, tells)
		}
		found += changes
	}
	if found < 3 {
		t.Errorf("only %d statements were found", found)
	}
}

func TestARunsEventsAreOfItsSite(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{
			ID: "r-1", Kind: "node.onboarding", Site: "dc1", CorrelationID: "c-1", Status: chain.Pending, Direction: chain.Forward, Stage: "s", Attempt: 1, State: []byte(`{}`), DueAt: db.Now(),
		}}}, nil))
		if must(db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"node.onboarding"}}))(t) == nil {
			t.Fatal("the run is not claimed")
		}
		got := placed(t, db, store.OutboxFilter{Sites: []string{"dc1"}})
		if len(got) != 1 || got[0].Type != "node.onboarding.started" || got[0].Subject != "run/r-1" || got[0].Source != "hostler/runs/r-1" || got[0].Site != "dc1" || got[0].CorrelationID != "c-1" {
			t.Errorf("its events are %+v", got)
		}
		if other := placed(t, db, store.OutboxFilter{Sites: []string{"dc2"}}); len(other) != 0 {
			t.Errorf("another site reads %+v", other)
		}
	})
}

// Positions skipped by a restore do not count as kept events.
func TestWhatARestoreLeavesOutCountsForNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		for i := range 4 {
			newNode(t, db, fmt.Sprintf("before%d", i))
		}
		placed(t, db, store.OutboxFilter{})
		must(db.MarkRestored(ctx, admin, clock.Now(), "a backup"))(t)
		newNode(t, db, "after")
		must(db.PlaceEvents(ctx, 100))(t)
		left := func(most, want int64) {
			t.Helper()
			for must(db.ForgetEvents(ctx, db.Now().Add(-time.Hour), most, 100, ""))(t) > 0 {
			}
			_, forgotten, err := db.OutboxEnds(ctx)
			ok(t, err)
			if got := placed(t, db, store.OutboxFilter{After: forgotten}); int64(len(got)) != want {
				t.Errorf("of at most %d there are %d", most, len(got))
			}
		}
		left(100, 6) // including the event of the restore
		left(3, 3)
		left(1, 1)
		left(0, 0)
	})
}
