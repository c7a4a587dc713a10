package store_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// untilNow is a period with all that has been.
func untilNow(db *store.DB, project string) store.UsageFilter {
	return store.UsageFilter{ProjectID: project, From: db.Now().Add(-10000 * time.Hour), To: db.Now()}
}

func mustPage[T, C any](page []T, next C, err error) func(testing.TB) ([]T, C) {
	return func(t testing.TB) ([]T, C) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return page, next
	}
}

// sums are the totals in words: node time, GPU time, allocations, and those in use.
func sums(t *testing.T, db *store.DB, f store.UsageFilter) (out []string) {
	t.Helper()
	in := func(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
	for _, u := range must(db.UsageTotals(ctx, f))(t) {
		out = append(out, fmt.Sprint(u.ProjectID, " ", u.SKU, " ", in(u.NodeMicros), " ", in(u.GPUMicros), " ", u.Allocations, " ", u.InUse))
	}
	return out
}

// eightGPUs is a SKU whose nodes have eight GPUs.
func eightGPUs(t *testing.T, db *store.DB) {
	t.Helper()
	s := broker.NewSKU()
	s.ID, s.GPUVendor, s.GPUCount = "h100", "nvidia", 8
	offers(t, db, s)
}

// usageEvents are the types and subjects of the events about usage so far.
func usageEvents(t *testing.T, db *store.DB) (told []string) {
	t.Helper()
	must(db.PlaceEvents(ctx, 1000))(t)
	events, _ := mustPage(db.Outbox(ctx, store.OutboxFilter{Types: []string{store.UsageStartedEvent, store.UsageEndedEvent}, Limit: 10}))(t)
	for _, e := range events {
		told = append(told, e.Type+" "+e.Subject)
	}
	return told
}

// An allocation is billed from active to the begin of its release, whatever becomes of the release.
func TestUsageIsFromActiveToTheBeginOfTheRelease(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		eightGPUs(t, db)
		stock(t, db, "h100", "dc1", 3)
		a := must(asks(db, "a-1", "h100", 2))(t)
		clock.Advance(time.Hour)
		walk(t, db, a, toProvisioning)
		clock.Advance(time.Hour)
		if got := sums(t, db, untilNow(db, "")); got != nil {
			t.Errorf("before active: %v", got)
		}
		walk(t, db, a, toActive)
		clock.Advance(30 * time.Minute)
		if got := sums(t, db, untilNow(db, "p-1")); !slices.Equal(got, []string{"p-1 h100 1h0m0s 8h0m0s 1 1"}) {
			t.Errorf("in use: %v", got)
		}
		// A change of the SKU changes no usage that has begun.
		must(db.UpdateSKU(ctx, admin, "h100", "", func(s *broker.SKU) error { s.GPUCount = 4; return nil }))(t)
		walk(t, db, a, toReleasing)
		clock.Advance(time.Hour)
		walk(t, db, a, toReleaseFailed)
		clock.Advance(time.Hour)
		walk(t, db, a, toReleasing)
		clock.Advance(time.Hour)
		want := []string{"p-1 h100 1h0m0s 8h0m0s 1 0"}
		if got := sums(t, db, untilNow(db, "p-1")); !slices.Equal(got, want) {
			t.Errorf("after the release began: %v", got)
		}
		page, next := mustPage(db.Usage(ctx, untilNow(db, "")))(t)
		if len(page) != 1 || next != "" || page[0].To.Sub(page[0].From) != 30*time.Minute || page[0].GPUs != 16 || page[0].Nodes != 2 || page[0].Site != "dc1" {
			t.Errorf("%+v", page)
		}
		elsewhere := untilNow(db, "")
		elsewhere.Sites = []string{"dc2"}
		for what, f := range map[string]store.UsageFilter{"another project": untilNow(db, "p-2"), "another site": elsewhere} {
			if got := sums(t, db, f); got != nil {
				t.Errorf("of %s: %v", what, got)
			}
		}
		if got := usageEvents(t, db); !slices.Equal(got, []string{"allocation.usage.started allocation/a-1", "allocation.usage.ended allocation/a-1"}) {
			t.Errorf("told: %q", got)
		}
	})
}

// Periods that follow one another add up to the whole.
func TestPeriodsOfUsageAddUp(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 3)
		begun := db.Now()
		var asked []broker.Allocation
		for i := range 3 {
			asked = append(asked, must(asks(db, fmt.Sprint("a-", i), "h100", 1))(t))
		}
		for i, a := range asked {
			clock.Advance(7 * time.Minute)
			walk(t, db, a, toProvisioning, toActive)
			clock.Advance(11 * time.Minute)
			if i > 0 {
				walk(t, db, a, toReleasing)
			}
		}
		clock.Advance(time.Minute) // 55 minutes in all
		var sum int64
		var seen time.Duration
		whole := must(db.UsageTotals(ctx, store.UsageFilter{From: begun, To: db.Now()}))(t)[0].NodeMicros
		for from := begun; from.Before(db.Now()); from = from.Add(5 * time.Minute) {
			f := store.UsageFilter{From: from, To: from.Add(5 * time.Minute)}
			for _, u := range must(db.UsageTotals(ctx, f))(t) {
				sum += u.NodeMicros
			}
			page, _ := mustPage(db.Usage(ctx, f))(t)
			for _, u := range page {
				seen += u.Within(f.From, f.To)
			}
		}
		if whole == 0 || sum != whole || seen.Microseconds() != whole {
			t.Errorf("the periods add up to %v (totals) and %v (rows), the whole is %v", sum, seen, whole)
		}
		f := store.UsageFilter{From: begun, To: db.Now(), Limit: 2}
		first, next := mustPage(db.Usage(ctx, f))(t)
		f.After = next
		second, end := mustPage(db.Usage(ctx, f))(t)
		if len(first) != 2 || next == "" || len(second) != 1 || end != "" || second[0].AllocationID != "a-2" {
			t.Errorf("pages: %v %q, %v %q", first, next, second, end)
		}
		f.ProjectID, f.After = "p-2", first[0].AllocationID
		if none, _ := mustPage(db.Usage(ctx, f))(t); len(none) > 0 {
			t.Errorf("another project sees %v", none)
		}
	})
}

// A clock that is set back bills nothing, and never less than nothing.
func TestAClockThatIsSetBackBillsNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 1)
		a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), toProvisioning, toActive)
		clock.Advance(-time.Hour)
		walk(t, db, a, toReleasing)
		clock.Advance(2 * time.Hour)
		if got := sums(t, db, untilNow(db, "")); !slices.Equal(got, []string{"p-1 h100 0s 0s 1 0"}) {
			t.Errorf("%v", got)
		}
	})
}

// Four centuries of GPUs are more than a time.Duration holds.
func TestSumsOfManyGPUsAreWhole(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		eightGPUs(t, db)
		stock(t, db, "h100", "dc1", 1)
		walk(t, db, must(asks(db, "a-1", "h100", 1))(t), toProvisioning, toActive)
		begun, length := db.Now(), 50*8760*time.Hour
		clock.Advance(length)
		got := must(db.UsageTotals(ctx, store.UsageFilter{From: begun, To: db.Now()}))(t)
		if len(got) != 1 || got[0].NodeHours() != 50*8760 || got[0].GPUHours() != 8*50*8760 {
			t.Errorf("%+v", got)
		}
	})
}

// Many that release the same allocation end its usage once.
func TestUsageEndsOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 1)
		walk(t, db, must(asks(db, "a-1", "h100", 1))(t), toProvisioning, toActive)
		clock.Advance(time.Hour)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { _, _ = db.TransitionAllocation(ctx, admin, "a-1", toReleasing) })
		}
		all.Wait()
		if got := sums(t, db, untilNow(db, "")); len(got) != 1 || !strings.Contains(got[0], " 1h0m0s ") {
			t.Errorf("%v", got)
		}
		if got := usageEvents(t, db); len(got) != 2 {
			t.Errorf("told: %q", got)
		}
	})
}

// A transition that is refused, or that a fault of the database rolls back, begins and ends nothing.
func TestATransitionThatDidNotHappenBillsNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 1)
		a := must(asks(db, "a-1", "h100", 1))(t)
		refusedTransition(t, db, a, toActive)
		a = walk(t, db, a, toProvisioning)
		// breaks makes the last write of a transition fail.
		breaks := func(c store.AllocationChange) {
			t.Helper()
			ok(t, store.Exec(ctx, db, `ALTER TABLE audit_logs RENAME TO audit_away`))
			if _, err := db.TransitionAllocation(ctx, admin, a.ID, c); err == nil {
				t.Fatalf("to %s without an audit log", c.To)
			}
			ok(t, store.Exec(ctx, db, `ALTER TABLE audit_away RENAME TO audit_logs`))
		}
		breaks(toActive)
		clock.Advance(time.Hour)
		if got := sums(t, db, untilNow(db, "")); got != nil {
			t.Errorf("of an allocation that never was active: %v", got)
		}
		a = walk(t, db, a, toActive)
		clock.Advance(time.Hour)
		byWorker := toReleasing
		byWorker.By = broker.AllocationWorker
		refusedTransition(t, db, a, byWorker)
		breaks(toReleasing)
		clock.Advance(time.Hour)
		if got := sums(t, db, untilNow(db, "")); !slices.Equal(got, []string{"p-1 h100 2h0m0s 0s 1 1"}) {
			t.Errorf("of an allocation whose release never began: %v", got)
		}
		if got := usageEvents(t, db); !slices.Equal(got, []string{"allocation.usage.started allocation/a-1"}) {
			t.Errorf("told: %q", got)
		}
	})
}

// Pages of a period have first what began before it, and then what began within it, whatever the size of the
// pages. What ended before the period, or began after it, is in none.
func TestPagesOfAPeriodHaveWhatTouchesIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 12)
		var asked []broker.Allocation
		for i := range 12 {
			asked = append(asked, walk(t, db, must(asks(db, fmt.Sprintf("a-%02d", i), "h100", 1))(t), toProvisioning))
		}
		begins := func(some ...broker.Allocation) {
			t.Helper()
			for _, a := range some {
				clock.Advance(time.Minute)
				walk(t, db, a, toActive)
			}
		}
		stops := func(some ...broker.Allocation) {
			t.Helper()
			for _, a := range some {
				clock.Advance(time.Minute)
				walk(t, db, must(db.Allocation(ctx, a.ID))(t), toReleasing)
			}
		}
		begins(asked[:6]...)
		stops(asked[0], asked[1])
		clock.Advance(time.Hour)
		from := db.Now()
		begins(asked[6:9]...)
		stops(asked[2], asked[6])
		to := db.Now()
		stops(asked[3], asked[7])
		begins(asked[9:]...)
		stops(asked[9])
		want := []string{"a-02", "a-03", "a-04", "a-05", "a-06", "a-07", "a-08"}
		for limit := 1; limit <= 8; limit++ {
			var got []string
			f := store.UsageFilter{ProjectID: "p-1", From: from, To: to, Limit: limit}
			for more := true; more; more = f.After != "" {
				var page []broker.Usage
				page, f.After = mustPage(db.Usage(ctx, f))(t)
				for _, u := range page {
					got = append(got, u.AllocationID)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %v, want %v", limit, got, want)
			}
		}
		if all := must(db.UsageTotals(ctx, store.UsageFilter{From: from, To: to}))(t); len(all) != 1 || all[0].Allocations != len(want) || all[0].InUse != 3 {
			t.Errorf("%+v", all)
		}
	})
}

// The totals of too many allocations are refused, and not made of a part of them.
func TestTotalsOfTooManyAllocationsAreRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 3)
		for i := range 3 {
			walk(t, db, must(asks(db, fmt.Sprint("a-", i), "h100", 1))(t), toProvisioning, toActive)
		}
		clock.Advance(time.Hour)
		f := untilNow(db, "p-1")
		f.Most = 3
		if got := sums(t, db, f); len(got) != 1 {
			t.Errorf("%v", got)
		}
		f.Most = 2
		_, err := db.UsageTotals(ctx, f)
		refused(t, err, "usage_too_large")
	})
}
