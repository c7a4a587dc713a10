package store_test

import (
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// The clock of these tests changes its time of day only, as a real clock does when it is set.
func TestAMachineOfATestIsSetAsARealOne(t *testing.T) {
	var m storetest.Machine
	for _, ahead := range []time.Duration{45 * time.Second, -45 * time.Second} {
		begun := time.Now()
		m.Set(ahead)
		now := m.Now()
		took := time.Since(begun)
		if passed := now.Sub(begun); passed < 0 || passed > took {
			t.Errorf("set ahead by %v, its monotonic reading moved by %v in %v", ahead, passed, took)
		}
		if moved := now.Round(0).Sub(begun.Round(0)) - ahead; moved.Abs() > took+time.Second {
			t.Errorf("set ahead by %v, its time of day is off by %v more", ahead, moved)
		}
	}
}

// Brokers whose machines disagree on the time agree on leases: the first machine's time is wrong,
// the second's is right. The lease here is shorter than the error.
func TestLeasesAreByTheServersClockWhateverTheMachines(t *testing.T) {
	for _, wrong := range []time.Duration{45 * time.Second, -45 * time.Second} {
		for name, from := range map[string]struct{ opened, measured, set time.Duration }{
			"from the start":          {opened: wrong, measured: wrong, set: wrong},
			"set after the server's":  {set: wrong},
			"put right after that":    {opened: wrong, measured: wrong},
			"set before another look": {measured: wrong, set: wrong},
		} {
			t.Run(name+" "+wrong.String(), func(t *testing.T) {
				url := storetest.URL(t, "postgres")
				var m storetest.Machine
				m.Set(from.opened)
				a := must(store.Open(ctx, store.Options{URL: url, Machine: m.Now}))(t)
				t.Cleanup(func() { _ = a.Close() })
				m.Set(from.measured)
				ok(t, store.ReadClock(ctx, a))
				m.Set(from.set)
				b := storetest.Reopen(t, url, nil)
				isServersTime(t, url, a)
				isServersTime(t, url, b)
				leasesAreEqual(t, a, b)
			})
		}
	}
}

// On this machine 20 s pass with each reading of the clock: the server's answer took 20 s and
// belongs to the middle of the round trip, and the next reading comes 20 s later.
func TestTimePassesAsTheMachineMeasuresIt(t *testing.T) {
	url := storetest.URL(t, "postgres")
	var asked atomic.Int64
	db := must(store.Open(ctx, store.Options{URL: url, Machine: func() time.Time {
		return time.Now().Add(time.Duration(asked.Add(1)) * 20 * time.Second)
	}}))(t)
	t.Cleanup(func() { _ = db.Close() })
	for want := 30 * time.Second; want < 100*time.Second; want += 20 * time.Second {
		isAheadOfServer(t, url, db, want)
	}
	ok(t, store.ReadClock(ctx, db))
	isAheadOfServer(t, url, db, 30*time.Second)
}

// isServersTime checks that a store's time is its server's.
func isServersTime(t *testing.T, url string, db *store.DB) {
	t.Helper()
	isAheadOfServer(t, url, db, 0)
}

func isAheadOfServer(t *testing.T, url string, db *store.DB, ahead time.Duration) {
	t.Helper()
	raw, err := sql.Open("pgx", url)
	ok(t, err)
	defer raw.Close() //nolint:errcheck // a test's
	var before, after time.Time
	ok(t, raw.QueryRow(`SELECT clock_timestamp()`).Scan(&before))
	got := db.Now().Add(-ahead)
	ok(t, raw.QueryRow(`SELECT clock_timestamp()`).Scan(&after))
	const slack = 5 * time.Second // of the round trip on a busy machine
	if got.Before(before.Add(-slack)) || got.After(after.Add(slack)) {
		t.Errorf("less %v it is %v by the store, between %v and %v by its server", ahead, got, before, after)
	}
}

// leasesAreEqual checks that each broker holds a run against the other broker until its lease is
// over, and no longer.
func leasesAreEqual(t *testing.T, a, b *store.DB) {
	t.Helper()
	const lease = 30 * time.Second
	ok(t, a.Insert(ctx, []chain.NewRun{{Record: chain.Record{
		ID: "r", Kind: "k", Site: "dc1", Status: chain.Pending, Stage: "s", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`), DueAt: b.Now().Add(-time.Hour),
	}}}, nil))
	claim := func(db *store.DB, name string) *chain.Record {
		t.Helper()
		return must(db.Claim(ctx, chain.Claim{Owner: name, Lease: lease, Kinds: []string{"k"}}))(t)
	}
	passes := func(d time.Duration) {
		t.Helper()
		ok(t, store.Exec(ctx, b, `UPDATE chain_runs SET lease_until = lease_until - $1`, d.Microseconds()))
	}
	for _, turn := range []struct {
		holder, other *store.DB
		name          string
	}{{a, b, "the first"}, {b, a, "the second"}} {
		held := claim(turn.holder, turn.name)
		if held == nil {
			t.Fatalf("%s cannot claim a run that is free", turn.name)
		}
		for _, renewed := range []bool{false, true} {
			if renewed {
				ok(t, turn.holder.Renew(ctx, held, lease))
			}
			passes(lease / 3)
			if claim(turn.other, "another") != nil {
				t.Fatalf("the lease of %s has ended early (renewed: %v)", turn.name, renewed)
			}
		}
		passes(lease)
		if claim(turn.other, "another") == nil {
			t.Fatalf("%s holds a run whose lease is over", turn.name)
		}
		passes(2 * lease) // the other broker's
	}
}
