package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

var (
	ctx   = context.Background()
	admin = broker.Actor{Name: "ada", Role: broker.RolePlatformAdmin}
)

func newNode(t *testing.T, db *store.DB, hostname string) {
	t.Helper()
	if _, err := db.CreateNode(ctx, admin, store.NewNode{ID: "n-" + hostname, Hostname: hostname, Site: "dc1"}); err != nil {
		t.Fatal(err)
	}
}

// running has a keeper and a feed run beside the test.
func running(t *testing.T, db *store.DB) *outbox.Feed {
	t.Helper()
	f := outbox.NewFeed(db)
	work, stop := context.WithCancel(ctx)
	ended := make(chan struct{}, 2)
	keeper := &outbox.Keeper{DB: db, Log: zap.NewNop()}
	for _, run := range []func(context.Context){keeper.Run, func(ctx context.Context) { _ = f.Run(ctx) }} {
		go func() {
			run(work)
			ended <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		stop()
		<-ended
		<-ended
	})
	return f
}

func TestWhoWaitsHearsOfAnEvent(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := running(t, db)
		type answer struct {
			page  []store.OutboxEvent
			after int64
			err   error
		}
		got := make(chan answer, 1)
		go func() {
			page, after, err := f.Next(ctx, store.OutboxFilter{Types: []string{"node.status.changed"}}, time.Minute)
			got <- answer{page, after, err}
		}()
		newNode(t, db, "one")
		if a := <-got; a.err != nil || len(a.page) != 1 || a.after != 1 {
			t.Errorf("it heard %+v", a)
		}
		if page, after, err := f.Next(ctx, store.OutboxFilter{After: 1}, time.Millisecond); err != nil || len(page) != 0 || after != 1 {
			t.Errorf("without news it is given %+v, %d, %v", page, after, err)
		}
		gone, stop := context.WithCancel(ctx)
		stop()
		if _, _, err := f.Next(gone, store.OutboxFilter{After: 1}, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone gets %v", err)
		}
	})
}

func TestALongHistoryComesInPagesWithoutAGap(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		const many = 250
		for i := range many {
			newNode(t, db, fmt.Sprintf("h%d", i))
		}
		k := &outbox.Keeper{DB: db}
		if err := k.Place(ctx); err != nil {
			t.Fatal(err)
		}
		f, last, pages := outbox.NewFeed(db), int64(0), 0
		for {
			page, after, err := f.Next(ctx, store.OutboxFilter{After: last}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			pages++
			for _, e := range page {
				if e.Position != last+1 {
					t.Fatalf("after %d comes %d", last, e.Position)
				}
				last = e.Position
			}
			if after != last {
				t.Fatalf("it goes on after %d, and the last is %d", after, last)
			}
		}
		if last != many || pages < 3 {
			t.Errorf("%d events came in %d pages", last, pages)
		}
	})
}

func TestThePolicySaysWhatIsKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		left := func(p outbox.Policy, want int64) {
			t.Helper()
			k := &outbox.Keeper{DB: db, Policy: p}
			if err := errors.Join(k.Place(ctx), k.Forget(ctx)); err != nil {
				t.Fatal(err)
			}
			newest, forgotten, err := db.OutboxEnds(ctx)
			if err != nil || newest-forgotten != want {
				t.Errorf("%+v keeps %d of %d, %v; want %d", p, newest-forgotten, newest, err, want)
			}
		}
		for i := range 10 {
			newNode(t, db, fmt.Sprintf("h%d", i))
			clock.Advance(24 * time.Hour)
		}
		left(outbox.Policy{}, 10)
		left(outbox.Policy{Most: 7}, 7)
		left(outbox.Policy{For: 5*24*time.Hour + time.Hour}, 5)
		clock.Advance(31 * 24 * time.Hour)
		left(outbox.Policy{}, 0)
	})
}

// What a relay has not passed on is kept longer, but not for ever. What it has passed on is kept as
// the policy says.
func TestWhatARelayHasNotPassedOnIsKeptLonger(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		k := &outbox.Keeper{DB: db, Policy: outbox.Policy{Most: 4}, Relay: "nats/EVENTS"}
		left := func(want int64) {
			t.Helper()
			if err := errors.Join(k.Place(ctx), k.Forget(ctx)); err != nil {
				t.Fatal(err)
			}
			newest, forgotten, err := db.OutboxEnds(ctx)
			if err != nil || newest-forgotten != want {
				t.Errorf("%d of %d are kept, %v; want %d", newest-forgotten, newest, err, want)
			}
		}
		for i := range 7 {
			newNode(t, db, fmt.Sprintf("h%d", i))
		}
		left(7) // nothing was passed on yet
		if err := db.AdvanceRelay(ctx, "nats/EVENTS", 2); err != nil {
			t.Fatal(err)
		}
		left(5)
		if err := db.AdvanceRelay(ctx, "nats/EVENTS", 1); err != nil { // of a broker that leads no more
			t.Fatal(err)
		}
		for i := range 5 {
			newNode(t, db, fmt.Sprintf("g%d", i))
		}
		left(8) // twice as many
		if err := db.AdvanceRelay(ctx, "nats/EVENTS", 12); err != nil {
			t.Fatal(err)
		}
		left(4)
	})
}

func TestReadersAreBounded(t *testing.T) {
	f := outbox.NewFeed(nil)
	var leave []func()
	for i := range outbox.MaxReaders {
		l, err := f.Join(fmt.Sprint(i / outbox.MaxEach))
		if err != nil {
			t.Fatalf("reader %d: %v", i, err)
		}
		leave = append(leave, l)
	}
	if _, err := f.Join("another"); broker.AsError(err).Code != "too_many_readers" {
		t.Errorf("one more: %v", err)
	}
	leave[0]()
	if _, err := f.Join("1"); broker.AsError(err).Code != "too_many_readers" {
		t.Errorf("a token that has all it may: %v", err)
	}
	if _, err := f.Join("another"); err != nil {
		t.Errorf("once one has left: %v", err)
	}
}

func TestAnEventLeavesAsACloudEvent(t *testing.T) {
	e, err := outbox.CloudEvent(store.OutboxEvent{
		Position: 7, At: time.Unix(1_800_000_000, 5000), Type: "site.freeze", Source: "hostler/broker", Subject: "site/*", Site: store.AllSites,
		Data: []byte(`{"reason":"a\u003cb"}`), CorrelationID: "c-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(raw, &got), json.Unmarshal([]byte(`{"specversion":"1.0","id":"7","source":"hostler/broker","type":"site.freeze","subject":"site/*",
		"time":"2027-01-15T08:00:00.000005Z","datacontenttype":"application/json","site":"*","correlationid":"c-1","data":{"reason":"a<b"}}`), &want)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it is %s", raw)
	}
	if _, err := outbox.CloudEvent(store.OutboxEvent{Position: 8, Data: []byte(`{}`)}); err == nil {
		t.Error("one without type and source is taken for an event")
	}
}

func TestAPolicyKeepsEnoughForWhoIsAwayForAMoment(t *testing.T) {
	for _, row := range []struct {
		policy outbox.Policy
		fine   bool
	}{
		{outbox.Policy{}, true},
		{outbox.Policy{For: time.Hour, Most: 1000}, true},
		{outbox.Policy{For: time.Hour - 1}, false},
		{outbox.Policy{Most: 999}, false},
		{outbox.Policy{For: -time.Hour}, false},
		{outbox.Policy{Most: -1}, false},
	} {
		if err := row.policy.Check(); (err == nil) != row.fine {
			t.Errorf("%+v: %v", row.policy, err)
		}
	}
}

// TestAReaderHearsOfWhatAnotherBrokerDid has one broker lead, another write, and a
// third asked.
func TestAReaderHearsOfWhatAnotherBrokerDid(t *testing.T) {
	url := storetest.URL(t, "postgres")
	leads, writes, reads := storetest.Reopen(t, url, nil), storetest.Reopen(t, url, nil), storetest.Reopen(t, url, nil)
	running(t, leads)
	f := outbox.NewFeed(reads)
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(work) }()
	defer func() {
		stop()
		<-ended
	}()
	got := make(chan int, 1)
	go func() {
		page, _, err := f.Next(ctx, store.OutboxFilter{}, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- len(page)
	}()
	newNode(t, writes, "one")
	if n := <-got; n != 1 {
		t.Errorf("it heard of %d events", n)
	}
}

// An id is a position of one project, and of no other. It shows nothing: neither order nor whether
// two places are the same.
func TestAnIDOfAProjectIsAPositionForItAlone(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	ids, others := outbox.NewProjectIDs(key, "prj-1"), outbox.NewProjectIDs(key, "prj-2")
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Min(0).Draw(t, "position")
		event, place := ids.Event(at), ids.Place(at)
		if event != ids.Event(at) || place == ids.Place(at) || event == place || len(event) != len(place) {
			t.Fatalf("position %d is event %q and place %q", at, event, place)
		}
		for _, id := range []string{event, place} {
			if got, ok := ids.Position(id); !ok || got != at {
				t.Fatalf("%q is position %d, %t; want %d", id, got, ok, at)
			}
			if _, ok := others.Position(id); ok {
				t.Fatalf("%q is taken from another project", id)
			}
			n := rapid.IntRange(0, len(id)-1).Draw(t, "place of a change")
			changed := id[:n] + string("AB"[(id[n]+1)%2]) + id[n+1:]
			if _, ok := ids.Position(changed); ok && changed != id {
				t.Fatalf("%q is taken, made from %q", changed, id)
			}
		}
	})
}
