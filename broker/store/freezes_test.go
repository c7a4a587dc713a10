package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

var (
	olga = broker.Actor{Name: "olga", Role: broker.RoleOperator}
	ole  = broker.Actor{Name: "ole", Role: broker.RoleOperator}
)

// memberAt is a node at a site, enrolled and heard.
func memberAt(t testing.TB, db *store.DB, hostname, site string) broker.Node {
	t.Helper()
	must(db.CreateNode(ctx, admin, store.NewNode{
		ID: "n-" + hostname, Hostname: hostname, Site: site, Bootstrap: "command", TokenHash: "hash-" + hostname, TokenExpires: db.Now().Add(time.Hour),
	}))(t)
	e := enroll(t, db, "hash-"+hostname, "key-"+hostname)
	must(db.FirstContact(ctx, "n-"+hostname, 1, e.Cert.Serial))(t)
	return must(db.Node(ctx, "n-"+hostname))(t)
}

func enqueueClass(t testing.TB, db *store.DB, n broker.Node, class taskcatalog.Class, lane taskcatalog.Lane) broker.Task {
	t.Helper()
	k := newTask(db, n, lane)
	k.Class = class
	k, _, err := db.InsertTask(ctx, admin, k)
	ok(t, err)
	return k
}

func finish(t testing.TB, db *store.DB, k broker.Task) {
	t.Helper()
	_, _, err := db.RecordResult(ctx, succeeded(must(db.Task(ctx, k.ID))(t)), nil)
	ok(t, err)
}

func freeze(t testing.TB, db *store.DB, site string) {
	t.Helper()
	if _, _, placed, err := db.Freeze(ctx, olga, site, "the coolant leaks"); err != nil || !placed {
		t.Fatalf("placed %v, %v", placed, err)
	}
}

func TestWhileASiteIsFrozenNothingDestructiveIsHandedOut(t *testing.T) {
	for _, frozen := range []string{"dc1", ""} {
		storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
			n, other := memberAt(t, db, "one", "dc1"), memberAt(t, db, "two", "dc2")
			held := enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
			mutating := enqueueClass(t, db, n, taskcatalog.ClassMutating, taskcatalog.LaneExclusive)
			probe := enqueueClass(t, db, n, taskcatalog.ClassProbe, taskcatalog.LaneConcurrent)
			elsewhere := enqueueClass(t, db, other, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
			freeze(t, db, frozen)

			claim(t, db, n, mutating.ID, probe.ID)
			if frozen == "" {
				claim(t, db, other)
			} else {
				claim(t, db, other, elsewhere.ID)
			}
			finish(t, db, mutating)
			claim(t, db, n)

			if lifted, _, err := db.Unfreeze(ctx, olga, frozen, "mended", false); err != nil || len(lifted) != 1 {
				t.Fatalf("lifted %v, %v", lifted, err)
			}
			claim(t, db, n, held.ID)
		})
	}
}

// A node that never saw the first delivery would begin with the second delivery.
func TestWhileFrozenNothingDestructiveIsHandedOutOnceMore(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		k := enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
		claim(t, db, n, k.ID)
		freeze(t, db, "dc1")
		clock.Advance(2 * time.Minute) // past the lease
		must(db.SweepTasks(ctx))(t)
		claim(t, db, n)
		_, _, err := db.Unfreeze(ctx, olga, "dc1", "", false)
		ok(t, err)
		claim(t, db, n, k.ID)
	})
}

func TestATaskThatRunsFinishesDuringAFreeze(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		k := enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
		claim(t, db, n, k.ID)
		freeze(t, db, "dc1")
		if tasks, runs, err := db.UnderWay(ctx, []string{"dc1"}); err != nil || tasks != 1 || runs != 0 {
			t.Errorf("under way: %d tasks, %d runs, %v", tasks, runs, err)
		}
		if tasks, _, err := db.UnderWay(ctx, []string{"dc2"}); err != nil || tasks != 0 {
			t.Errorf("under way elsewhere: %d tasks, %v", tasks, err)
		}
		_, _, err := db.RecordProgress(ctx, n.ID, k.ID, 1, broker.Progress{})
		ok(t, err)
		finish(t, db, k)
		if got := must(db.Task(ctx, k.ID))(t).Status; got != broker.TaskSucceeded {
			t.Errorf("it is %s", got)
		}
	})
}

func TestATaskThatExpiresInAFreezeSaysSo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		k := enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
		p := enqueueClass(t, db, n, taskcatalog.ClassMutating, taskcatalog.LaneExclusive)
		freeze(t, db, "dc1")
		clock.Advance(2 * time.Hour)
		must(db.SweepTasks(ctx))(t)
		got := must(db.Task(ctx, k.ID))(t)
		if got.Status != broker.TaskExpired || !strings.Contains(got.Message, "site dc1 was frozen by olga (the coolant leaks)") {
			t.Errorf("it is %s: %s", got.Status, got.Message)
		}
		if got := must(db.Task(ctx, p.ID))(t); strings.Contains(got.Message, "frozen") {
			t.Errorf("a mutating task ended %s: %s", got.Status, got.Message)
		}
	})
}

func TestOnlyWhoFrozeOrAPlatformAdminUnfreezes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		memberAt(t, db, "one", "dc1")
		freeze(t, db, "dc1")
		_, _, err := db.Unfreeze(ctx, ole, "dc1", "I want to go home", false)
		refused(t, err, "freeze_of_another")
		_, _, err = db.Unfreeze(ctx, ole, "dc1", "I want to go home", true) // only a platform admin may force
		refused(t, err, "freeze_of_another")
		_, _, err = db.Unfreeze(ctx, admin, "dc1", "a slip of the finger", false)
		refused(t, err, "freeze_of_another")
		if audited(t, db, "site.unfreeze", "freeze_of_another") != 3 {
			t.Error("not each refusal is in the audit log")
		}
		if lifted, standing, err := db.Unfreeze(ctx, admin, "dc1", "mended", true); err != nil || len(lifted) != 1 || len(standing) != 0 {
			t.Errorf("an admin: %v, %v, %v", lifted, standing, err)
		}
		if lifted, standing, err := db.Unfreeze(ctx, ole, "dc1", "mended", false); err != nil || lifted != nil || standing != nil {
			t.Errorf("where nothing is frozen: %v, %v, %v", lifted, standing, err)
		}
		for _, action := range []string{"site.freeze", "site.unfreeze"} {
			if audited(t, db, action, "") == 0 {
				t.Errorf("%s is not in the audit log", action)
			}
		}
		_, _, _, err = db.Freeze(ctx, olga, "dc9", "a slip of the finger")
		refused(t, err, "site_not_found")
		_, _, err = db.Unfreeze(ctx, olga, "dc9", "a slip of the finger", false)
		refused(t, err, "site_not_found")
	})
}

// An operator's freeze stands until the same operator lifts it.
func TestFreezesOfOneSiteStack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		k := enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
		for i, f := range []struct {
			who    broker.Actor
			reason string
			placed bool
			stand  int
		}{
			{olga, "the coolant leaks", true, 1}, {ole, "and my rack is open", true, 2}, {olga, "the roof too", true, 3}, {ole, "and my rack is open", false, 3},
		} {
			h, standing, placed, err := db.Freeze(ctx, f.who, "dc1", f.reason)
			if err != nil || placed != f.placed || len(standing) != f.stand || h.By != f.who.Name || h.Reason != f.reason {
				t.Errorf("freeze %d: %+v, %d stand, placed %v, %v", i, h, len(standing), placed, err)
			}
		}
		if rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "site.freeze"}))(t); len(rows) != 3 || rows[1].Actor != "ole" || rows[1].Reason != "and my rack is open" {
			t.Errorf("audited: %+v", rows)
		}
		lifted, standing, err := db.Unfreeze(ctx, olga, "dc1", "mended", false)
		if err != nil || len(lifted) != 2 || lifted[1].Reason != "the roof too" || len(standing) != 1 || standing[0].By != "ole" {
			t.Errorf("olga lifted %+v, there stand %+v, %v", lifted, standing, err)
		}
		claim(t, db, n)
		if rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "site.unfreeze"}))(t); len(rows) != 2 || !strings.Contains(string(rows[0].Before), "the coolant leaks") || !strings.Contains(string(rows[0].After), `"still_standing":1`) {
			t.Errorf("audited: %+v", rows)
		}
		_, _, err = db.Unfreeze(ctx, ole, "dc1", "closed", false)
		ok(t, err)
		claim(t, db, n, k.ID)
	})
}

func TestAFreezeOfAllAndOneOfASiteAreTwo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		k := enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
		freeze(t, db, "dc1")
		freeze(t, db, "")
		for _, site := range []string{"", "dc1"} {
			claim(t, db, n)
			_, _, err := db.Unfreeze(ctx, olga, site, "", false)
			ok(t, err)
		}
		claim(t, db, n, k.ID)
		freezeBoth(t, db)
		for want, sites := range map[int][]string{2: {"dc1"}, 1: {"dc2"}} {
			if holds := must(db.StandingHolds(ctx, sites))(t); len(holds) != want {
				t.Errorf("at %v stand %+v, want %d", sites, holds, want)
			}
		}
		if holds := must(db.StandingHolds(ctx, nil))(t); len(holds) != 2 {
			t.Errorf("everywhere stand %+v", holds)
		}
	})
}

func freezeBoth(t testing.TB, db *store.DB) {
	t.Helper()
	for _, site := range []string{"dc1", ""} {
		_, _, _, err := db.Freeze(ctx, olga, site, "x")
		ok(t, err)
	}
}

func TestAFreezeSurvivesARestart(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url := storetest.URL(t, engine)
			db := storetest.Reopen(t, url, nil)
			n := memberAt(t, db, "one", "dc1")
			enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
			freeze(t, db, "dc1")
			ok(t, db.Close())
			claim(t, storetest.Reopen(t, url, nil), n)
		})
	}
}

func TestUnfreezingWakesTheNodesThatWait(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, other := memberAt(t, db, "one", "dc1"), memberAt(t, db, "two", "dc1")
		enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
		freeze(t, db, "dc1")
		hints, stop := context.WithCancel(ctx)
		defer stop()
		given := db.Hints(hints)
		_, _, err := db.Unfreeze(ctx, olga, "dc1", "", false)
		ok(t, err)
		stop()
		woken, runs := map[string]bool{}, false
		for h := range given {
			woken[h.ID] = woken[h.ID] || h.Kind == store.HintTask
			runs = runs || h.Kind == store.HintRun
		}
		if !woken[n.ID] || woken[other.ID] || !runs {
			t.Errorf("it woke %v, and the runs %v", woken, runs)
		}
	})
}

// waitFor polls a database until a query returns true.
func waitFor(t testing.TB, raw *sql.DB, what, query string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		var there bool
		ok(t, raw.QueryRow(query).Scan(&there))
		if there {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}

// TestAFreezeWaitsForAClaimInFlight stops a claim between its check of the freezes and its commit:
// if the freeze were answered meanwhile, the claim would hand out a task of a frozen site.
func TestAFreezeWaitsForAClaimInFlight(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, nil)
	n := memberAt(t, db, "one", "dc1")
	k := enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
	raw := storetest.Raw(t, url)

	blocker := must(raw.BeginTx(ctx, nil))(t)
	must(blocker.Exec(`SELECT 1 FROM tasks WHERE id = $1 FOR UPDATE`, k.ID))(t)
	claimed, frozen := make(chan int, 1), make(chan error, 1)
	go func() {
		tasks, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, lanes, 10)
		if err != nil {
			t.Error(err)
		}
		claimed <- len(tasks)
	}()
	waitFor(t, raw, "the claim to stand before its update", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND locktype = 'transactionid' AND NOT granted)`)
	go func() {
		_, _, _, err := db.Freeze(ctx, olga, "dc1", "now")
		frozen <- err
	}()
	waitFor(t, raw, "the freeze to stand before the claim", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)`)
	select {
	case err := <-frozen:
		t.Fatalf("the freeze has answered (%v) while a claim is in flight", err)
	default:
	}
	ok(t, blocker.Rollback())
	if got := <-claimed; got != 1 {
		t.Errorf("the claim got %d tasks", got)
	}
	ok(t, <-frozen)
	claim(t, db, n)
}

// TestAFreezeWaitsForAStageThatBegins does the same with a claim of a run, which has checked the
// freezes before it comes to its row.
func TestAFreezeWaitsForAStageThatBegins(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, nil)
	ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{
		ID: "r-1", Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, Stage: "s", Attempt: 1, State: []byte(`{}`), DueAt: db.Now(),
	}}}, nil))
	raw := storetest.Raw(t, url)
	blocker := must(raw.BeginTx(ctx, nil))(t)
	must(blocker.Exec(`LOCK TABLE chain_events IN EXCLUSIVE MODE`))(t) // the claim's last write
	claimed, frozen := make(chan *chain.Record, 1), make(chan error, 1)
	go func() {
		r, err := db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"k"}})
		if err != nil {
			t.Error(err)
		}
		claimed <- r
	}()
	waitFor(t, raw, "the claim to stand before its event", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND locktype = 'relation' AND NOT granted)`)
	go func() {
		_, _, _, err := db.Freeze(ctx, olga, "", "now")
		frozen <- err
	}()
	waitFor(t, raw, "the freeze to stand before the claim", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)`)
	ok(t, blocker.Rollback())
	if r := <-claimed; r == nil {
		t.Error("the run was not claimed")
	}
	ok(t, <-frozen)
	if _, runs, err := db.UnderWay(ctx, nil); err != nil || runs != 1 {
		t.Errorf("the freeze lets %d stages finish, %v", runs, err)
	}
}

// TestOnceAFreezeHasAnsweredNothingIsHandedOut races claims of many nodes with a freeze.
func TestOnceAFreezeHasAnsweredNothingIsHandedOut(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		var nodes []broker.Node
		for i := range 12 {
			n := memberAt(t, db, fmt.Sprintf("n%02d", i), "dc1")
			enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
			nodes = append(nodes, n)
		}
		done := make(chan error, len(nodes))
		begin := make(chan struct{})
		for _, n := range nodes {
			go func() {
				<-begin
				_, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, lanes, 10)
				done <- err
			}()
		}
		close(begin)
		_, _, _, err := db.Freeze(ctx, olga, "", "now")
		ok(t, err)
		at, _, err := db.UnderWay(ctx, nil)
		ok(t, err)
		for range nodes {
			ok(t, <-done)
		}
		for _, n := range nodes {
			claim(t, db, n)
		}
		if after, _, err := db.UnderWay(ctx, nil); err != nil || after != at {
			t.Errorf("%d tasks were handed out when the freeze had answered, and %d are now, %v", at, after, err)
		}
	})
}

// A stage begins with a claim of its run.
func TestAFreezeHoldsStagesAsChainsDo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		memberAt(t, db, "one", "dc1")
		run := chain.NewRun{Record: chain.Record{
			ID: "r-1", Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, Stage: "s", Attempt: 1, State: []byte(`{}`), DueAt: db.Now(),
		}}
		ok(t, db.Insert(ctx, []chain.NewRun{run}, nil))
		freeze(t, db, "dc1")
		if r := must(db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"k"}}))(t); r != nil {
			t.Errorf("run %s was claimed", r.ID)
		}
		_, _, err := db.Unfreeze(ctx, olga, "dc1", "", false)
		ok(t, err)
		clock.Advance(chain.SpreadOver)
		if r := must(db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"k"}}))(t); r == nil {
			t.Error("the run does not go on")
		}
	})
}

// A claim queries the holds only if a queued task could be held.
func TestAClaimOfWhatNothingHoldsAsksNoMore(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		asks := func(class taskcatalog.Class) int64 {
			t.Helper()
			k := enqueueClass(t, db, n, class, taskcatalog.LaneConcurrent)
			before := db.Statements()
			claim(t, db, n, k.ID)
			asked := db.Statements() - before
			finish(t, db, k)
			return asked
		}
		probe := asks(taskcatalog.ClassProbe)
		if mutating, destructive := asks(taskcatalog.ClassMutating), asks(taskcatalog.ClassDestructive); mutating != probe || destructive <= probe {
			t.Errorf("a probe takes %d statements, what changes something %d, and what may destroy %d", probe, mutating, destructive)
		}
		must(db.MarkRestored(ctx, admin, clock.Now(), "a backup"))(t)
		k := enqueueClass(t, db, n, taskcatalog.ClassMutating, taskcatalog.LaneConcurrent)
		claim(t, db, n)
		must(db.ReleaseRestore(ctx, admin, "compared"))(t)
		claim(t, db, n, k.ID)
		finish(t, db, k)
		if mutating := asks(taskcatalog.ClassMutating); mutating != probe {
			t.Errorf("after the release what changes something takes %d statements, and a probe %d", mutating, probe)
		}
	})
}
