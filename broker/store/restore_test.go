package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// Tasks and runs open in the backup may have ended since: none continues by itself.
func TestNothingOfARestoredDatabaseGoesOnByItself(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		queued := enqueueClass(t, db, n, taskcatalog.ClassProbe, taskcatalog.LaneConcurrent)
		dispatched := enqueueClass(t, db, n, taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
		claim(t, db, n, queued.ID, dispatched.ID)
		enqueueClass(t, db, n, taskcatalog.ClassMutating, taskcatalog.LaneExclusive)
		var runs []chain.NewRun
		for id, status := range map[string]chain.Status{"waits": chain.Pending, "moves": chain.Pending, "ended": chain.Completed} {
			runs = append(runs, chain.NewRun{Record: chain.Record{
				ID: id, Kind: "k", Site: "dc1", Subject: "one", Status: status, Stage: "release", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`), DueAt: db.Now(),
			}})
		}
		ok(t, db.Insert(ctx, runs, nil))
		wanted := chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"k"}}
		moving := must(db.Claim(ctx, wanted))(t)
		ok(t, db.CreateOperatorToken(ctx, admin, broker.OperatorToken{Name: "revoked-after-the-backup", Role: broker.RolePlatformAdmin, ExpiresAt: clock.Now().Add(time.Hour)}, "hash-o"))
		before, _, err := db.OutboxEnds(ctx)
		ok(t, err)

		clock.Advance(time.Hour)
		v := must(db.MarkRestored(ctx, admin, clock.Now().Add(-time.Hour), "a backup"))(t)
		if v != (store.Voided{Nodes: 1, OperatorTokens: 1, Tasks: 3, Runs: 2}) {
			t.Errorf("voided %+v", v)
		}
		for _, id := range []string{queued.ID, dispatched.ID} {
			if k := must(db.Task(ctx, id))(t); k.Status != broker.TaskFailed || k.Code != taskcatalog.CodeOutcomeUnknown {
				t.Errorf("task %s is %s with %s", id, k.Status, k.Code)
			}
		}
		claim(t, db, n)
		for _, id := range []string{"waits", "moves"} {
			r := must(db.Run(ctx, id))(t)
			if r.Status != chain.FailedManual || r.Failure == nil || r.Failure.Code != chain.CodeRestored || r.Owner != "" {
				t.Errorf("run %s: %+v", id, r)
			}
		}
		if err := db.Save(ctx, chain.Change{Record: *moving}); err == nil {
			t.Error("who had the run before the restore saves it")
		}
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{ID: "new", Kind: "k", Site: "dc1", Status: chain.Pending, Stage: "a", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`), DueAt: db.Now()}}}, nil))
		held := func() bool { return must(db.Claim(ctx, wanted))(t) == nil }
		if !held() {
			t.Error("a run steps while the database is held")
		}
		if _, _, err := db.Unfreeze(ctx, admin, "", "go", true); err != nil || !held() {
			t.Errorf("lifting freezes lifts the hold (%v)", err)
		}
		ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
		if got := reasons(t, db, n); len(got) == 0 || got[0] != "frozen" {
			t.Errorf("a node is handed out while the database is held: %v", got)
		}
		if o := must(db.OperatorByHash(ctx, "hash-o"))(t); o.RevokedAt.IsZero() {
			t.Error("an operator's token of before is good")
		}
		if tip, _, err := db.OutboxEnds(ctx); err != nil || tip < before+100_000 {
			t.Errorf("events go on at %d, and a reader may have seen one of that number", tip)
		}
		_, _, err = db.Outbox(ctx, store.OutboxFilter{After: before + 7})
		refused(t, err, "event_unknown") // its reader saw a lost event
		_, _, err = db.Outbox(ctx, store.OutboxFilter{After: before})
		ok(t, err)

		restored := func() bool { return must(db.Gauges(ctx))(t).Restored }
		if !restored() {
			t.Error("nothing to watch says that it is held")
		}
		must(db.ReleaseRestore(ctx, admin, "compared"))(t)
		if held() || restored() {
			t.Error("held after the release")
		}
		told := placed(t, db, store.OutboxFilter{Types: []string{"site.restored", "site.released"}})
		if len(told) != 2 || told[0].Position < before+100_000 || told[0].Type != "site.restored" || told[1].Subject != "site/*" || told[1].Site != store.AllSites {
			t.Errorf("told is %+v", told)
		}
		_, err = db.ReleaseRestore(ctx, admin, "twice")
		refused(t, err, "restore_released")
		if audited(t, db, "broker.restore", "") != 1 || audited(t, db, "broker.release", "") != 1 {
			t.Error("it is not in the audit log")
		}
		if found := must(db.Differences(ctx))(t); len(found) != 2 || found[0].Subject != "run/moves" || !strings.Contains(found[0].Text, "release") {
			t.Errorf("listed: %+v", found)
		}
	})
}

func TestWhatWasNotComparedIsNamed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		memberAt(t, db, "one", "dc1")
		must(db.MarkRestored(ctx, admin, clock.Now(), "a backup"))(t)
		missing := func() string { t.Helper(); return strings.Join(must(db.NotCompared(ctx))(t), ", ") }
		if got := missing(); got != "" {
			t.Errorf("of a node that is in no MAAS, and not let in: %s", got)
		}
		bound := must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-bound", Hostname: "two", Site: "dc1", MAASSystemID: "abc", TokenHash: "h2", TokenExpires: clock.Now().Add(time.Hour)}))(t)
		must(db.MarkRestored(ctx, admin, clock.Now(), "a backup"))(t)
		if got := missing(); got != "site dc1" {
			t.Errorf("before anybody looked: %q", got)
		}
		ok(t, db.SaveMachineWords(ctx, []store.MachineWord{{NodeID: bound.ID, Word: store.MachineOther, Is: "MAAS has no machine abc"}}))
		ok(t, db.NoteDifferences(ctx, []store.Difference{{Subject: "site/dc2", Code: "maas_unread", Text: "it did not answer"}}))
		if got := missing(); got != "site dc2" {
			t.Errorf("with one site read, and one that did not answer: %q", got)
		}
		ok(t, db.SiteCompared(ctx, "dc2"))
		if got := missing(); got != "" {
			t.Errorf("with all read: %s", got)
		}
	})
}

func TestADatabaseThatWasNotRestoredIsNotReleased(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		_, err := db.ReleaseRestore(ctx, admin, "r")
		refused(t, err, "not_restored")
		if r := must(db.LastRestore(ctx))(t); r.Held() {
			t.Error("it is held")
		}
	})
}

// A backup of a restored broker is restored: nodes let in before, and the earlier release, do not
// count.
func TestASecondRestoreHoldsAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := memberAt(t, db, "one", "dc1")
		must(db.MarkRestored(ctx, admin, clock.Now(), "the first"))(t)
		ok(t, db.SaveMachineWords(ctx, []store.MachineWord{{NodeID: n.ID, Word: store.MachineSame}}))
		must(db.ReleaseRestore(ctx, admin, "compared"))(t)
		floor := must(db.LastRestore(ctx))(t).TrustFloor
		tip, _, err := db.OutboxEnds(ctx)
		ok(t, err)
		clock.Advance(-time.Hour) // a machine whose clock is behind
		must(db.MarkRestored(ctx, admin, clock.Now(), "the second"))(t)
		r := must(db.LastRestore(ctx))(t)
		nodes := must(db.RestoredNodes(ctx))(t)
		if !r.Held() || r.Source != "the second" || len(nodes) != 1 || nodes[0].Machine != "" {
			t.Errorf("%+v, %+v", r, nodes)
		}
		if r.TrustFloor <= floor {
			t.Errorf("the floor of trust bundles went back to %d", r.TrustFloor)
		}
		if now, _, err := db.OutboxEnds(ctx); err != nil || now <= tip {
			t.Errorf("events go on at %d, and were at %d (%v)", now, tip, err)
		}
	})
}
